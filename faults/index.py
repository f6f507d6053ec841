"""The rules of one API, found by the topic, group or client that they name: what they don't mean is not asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from notleader.faults.rule import Rule

_FEW: Final = 8  # asking each of so few costs less than finding out whom to ask

Placed = tuple[int, Rule]


class Index:
    """Rules in their order. ``is_needed`` says that there are enough of them to be looked up."""

    __slots__ = ("_by_client", "_by_group", "_by_topic", "_open", "is_needed", "rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._open: list[Placed] = []
        self._by_topic: dict[str, list[Placed]] = {}
        self._by_group: dict[str, list[Placed]] = {}
        self._by_client: dict[str, list[Placed]] = {}
        for placed in enumerate(self.rules):
            match = placed[1].fault.match
            for names, found in (
                (match.topic, self._by_topic),
                (match.group_id, self._by_group),
                (match.client_id, self._by_client),
            ):
                if names is not None and names.literals is not None:
                    for name in names.literals:
                        found.setdefault(name, []).append(placed)
                    break
            else:
                self._open.append(placed)
        self.is_needed = len(self.rules) - len(self._open) > _FEW

    def meaning(
        self,
        client_id: str | None,
        groups: Callable[[], Iterable[str]],
        topics: Callable[[], Iterable[str | None] | None],
    ) -> Sequence[Rule]:
        """The rules, in order, that may mean a request of this client; ``topics`` None: any topic."""
        found = dict(self._open)
        found.update(self._by_client.get(client_id or "", ()))
        if self._by_group:
            for group in groups():
                found.update(self._by_group.get(group, ()))
        if self._by_topic:
            named = topics()
            for topic in self._by_topic if named is None else named:
                found.update(self._by_topic.get(topic or "", ()))
        return [found[place] for place in sorted(found)]
