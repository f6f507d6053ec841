"""What the plan says about one connection, request or answer, and who asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from notleader.faults.actions import Action, PartitionKey
from notleader.faults.base import Phase
from notleader.faults.effects import Effect

if TYPE_CHECKING:
    from notleader.faults.rule import Rule


class Hit(NamedTuple):
    """One rule that touched an exchange or a connection, as the capture records it.

    The phase is a fact, not a wish: a refusal for which the broker had to be asked says `after_broker`. So are the
    effects: what acts on an answer has none before the answer is there.
    """

    rule_name: str
    kind: str
    phase: Phase
    note: str = ""
    effects: tuple[Effect, ...] = ()


def joined(hits: tuple[Hit, ...], later: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """The hits of a request and those of its answer; a rule that acted on both is there once."""
    effects = {hit.rule_name: hit.effects for hit in later}
    known = {hit.rule_name for hit in hits}
    both = [hit._replace(effects=hit.effects + effects.get(hit.rule_name, ())) for hit in hits]
    return (*both, *(hit for hit in later if hit.rule_name not in known))


class Pending(NamedTuple):
    """A rule that hit a request and acts on its answer; `partitions` are those hit, None for the whole exchange.

    No rule stands for the elections: one began with this request.
    """

    rule: Rule | None
    partitions: frozenset[PartitionKey] | None


class Decision:
    """Actions in order, at most one terminal, last; `refused` are the partitions that the proxy answers for."""

    __slots__ = ("actions", "hits", "on_response", "refused")

    def __init__(
        self,
        actions: tuple[Action, ...] = (),
        hits: tuple[Hit, ...] = (),
        on_response: tuple[Pending, ...] = (),
        refused: frozenset[PartitionKey] = frozenset(),
    ) -> None:
        self.actions = actions
        self.hits = hits
        self.on_response = on_response
        self.refused = refused

    def __repr__(self) -> str:
        return f"Decision({self.actions!r}, {self.hits!r}, on_response={self.on_response!r})"


NOTHING = Decision()
