"""A rule that touched something, and what it did there."""

from __future__ import annotations

from typing import NamedTuple

from notleader.faults.base import Phase
from notleader.faults.effects import Effect


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


def joined(hits: tuple[Hit, ...], later: tuple[Hit, ...], undone: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
    """The hits of a request and those of its answer; a rule that acted on both is there once, one of `undone` never."""
    effects = {hit.rule_name: hit.effects for hit in later}
    known = {hit.rule_name for hit in hits}
    both = [
        hit._replace(effects=hit.effects + effects.get(hit.rule_name, ()))
        for hit in hits
        if hit.rule_name not in undone
    ]
    return (*both, *(hit for hit in later if hit.rule_name not in known))
