"""Which release to try next, so that few are tried; knows nothing of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise


class Result(StrEnum):
    """What a release did."""

    BAD = "bad"
    GOOD = "good"
    SKIPPED = "skipped"
    """It can't be had or built here, or does not work without faults either."""


@dataclass(slots=True)
class Halving:
    """The results so far over releases that are in order, oldest first.

    Between two neighbours that were tried and differ lies a change: what lies between them is halved until they are
    next to each other. A release that can't be tried is a result like any other, so the first that can be built is
    found in the same way.
    """

    releases: Sequence[str]
    first: Sequence[str] = ()
    """Of which something is told already: these are tried after the oldest and the newest."""
    results: dict[int, Result] = field(default_factory=dict)

    def next(self) -> str | None:
        """The release to try now; None when each change is between two neighbours, or no change can be found."""
        places = (
            [len(self.releases) - 1, 0, *(self.releases.index(each) for each in self.first)] if self.releases else []
        )
        for place in places:
            if place not in self.results:
                return self.releases[place]
        gaps = [(a, b) for a, b in pairwise(sorted(self.results)) if b - a > 1]
        differing = [(a, b) for a, b in gaps if self.results[a] is not self.results[b]]
        # Bad and good come first: what can be built is of interest only where it hides a change.
        differing.sort(key=lambda gap: Result.SKIPPED in (self.results[gap[0]], self.results[gap[1]]))
        if not differing and not self.changes and gaps:
            # All alike so far: look into the widest gap, down to an eighth of the whole.
            a, b = max(gaps, key=lambda gap: gap[1] - gap[0])
            if b - a > max(len(self.releases) // 8, 1):
                return self.releases[(a + b) // 2]
        for a, b in differing:
            return self.releases[(a + b) // 2]
        return None

    def told(self, release: str, result: Result) -> None:
        """Note what a release did."""
        self.results[self.releases.index(release)] = result

    @property
    def tried(self) -> list[tuple[str, Result]]:
        """What was tried, oldest release first."""
        return [(self.releases[at], self.results[at]) for at in sorted(self.results)]

    @property
    def changes(self) -> list[tuple[str, str, Result]]:
        """Neighbours among those that could be tried which differ: (last before, first after, what that one is)."""
        usable = [(release, result) for release, result in self.tried if result is not Result.SKIPPED]
        return [(a, b, after) for (a, before), (b, after) in pairwise(usable) if before is not after]
