"""What the plan says about one connection, request or answer, and who asked for it."""

from __future__ import annotations

from typing import NamedTuple

from notleader.faults.actions import Action, PartitionKey
from notleader.faults.hit import Hit as Hit
from notleader.faults.hit import joined as joined
from notleader.faults.rule import Rule


class Pending(NamedTuple):
    """A rule that hit a request and acts on its answer; `partitions` are those hit, None for the whole exchange.

    `counted` are what its trigger counted the hit for. No rule stands for the elections: one began with this request.
    """

    rule: Rule | None
    partitions: frozenset[PartitionKey] | None
    counted: tuple[object, ...] = ()


class Decision:
    """Actions in order, at most one terminal, last; `refused` are the partitions that the proxy answers for.

    `undone` are the rules that hit the request, and could do nothing to its answer.
    """

    __slots__ = ("actions", "hits", "on_response", "refused", "undone")

    def __init__(
        self,
        actions: tuple[Action, ...] = (),
        hits: tuple[Hit, ...] = (),
        on_response: tuple[Pending, ...] = (),
        refused: frozenset[PartitionKey] = frozenset(),
        undone: frozenset[str] = frozenset(),
    ) -> None:
        self.actions = actions
        self.hits = hits
        self.on_response = on_response
        self.refused = refused
        self.undone = undone

    def __repr__(self) -> str:
        return f"Decision({self.actions!r}, {self.hits!r}, on_response={self.on_response!r})"


NOTHING = Decision()
