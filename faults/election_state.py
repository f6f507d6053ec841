"""What is shown of a partition in place of the truth: an election that lasts, another leader, a raised epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Touch = tuple[str, str]  # a rule and its kind


class Election(NamedTuple):
    """One election that lasts until `until_us`; `started_by` is the rule that started it."""

    topic: str
    partition_index: int
    started_us: int
    until_us: int
    started_by: str
    kind: str = "leader_election"

    @property
    def hit(self) -> Touch:
        """The rule that started it, and its kind."""
        return self.started_by, self.kind


class Move(NamedTuple):
    """A partition that is shown under another leader than its true one."""

    topic: str
    partition_index: int
    leader_id: int
    started_by: str
    kind: str


class Elsewhere(NamedTuple):
    """The true leader, that is to be asked for a partition, and the rule that shows another one."""

    node_id: int
    by: Touch


class Shown(NamedTuple):
    """Whom a rule shows as the leader; None is the true one."""

    leader_id: int | None
    by: Touch


@dataclass(slots=True)
class State:
    """What is shown of one partition."""

    bump: int = 0
    raised_by: Touch | None = None  # the rule that raised the epoch last
    election: Election | None = None
    moved_by: Touch | None = None  # the rule that showed another leader last, also once it is over
    moved_to: int | None = None  # and who that was
    shows: list[Shown] = field(default_factory=list)
    """Whom rules show, each once; the last wins, and where it goes the one before it is shown again."""

    @property
    def leader_id(self) -> int | None:
        """Who is shown to lead; None is the true leader."""
        return self.shows[-1].leader_id if self.shows else None

    def show(self, shown: Shown) -> None:
        """Show this leader from now on."""
        self.shows = [other for other in self.shows if other.by != shown.by] + [shown]
        self._settle()

    def withdraw(self, started_by: str | None) -> bool:
        """Take back whom that rule (None: any) shows; whether another leader is shown now."""
        before = self.leader_id
        self.shows = [] if started_by is None else [other for other in self.shows if other.by[0] != started_by]
        self._settle()
        return self.leader_id != before

    def _settle(self) -> None:
        if self.shows:
            leader_id, self.moved_by = self.shows[-1]
            self.moved_to = leader_id if leader_id is not None else self.moved_to
