"""What is shown of a partition in place of the truth: an election that lasts, another leader, a raised epoch."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(slots=True)
class State:
    """What is shown of one partition; `leader_id` of None is the true leader."""

    bump: int = 0
    election: Election | None = None
    leader_id: int | None = None
    moved_by: Touch | None = None  # the rule that showed another leader last, also once it is over
    moved_to: int | None = None  # and who that was
