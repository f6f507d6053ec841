"""What was struck, and what came of it: faults by points, as one table for each API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from notleader.proxy.lab.explore.candidates import Candidate
from notleader.proxy.lab.explore.points import Point


class Came(StrEnum):
    """What came of one fault at one point, alone."""

    BROKE = "broke"
    SLOW = "late, and well in the end"
    SURVIVED = "survived"
    MISSED = "never hit"
    EARLIER = "tried before"
    OPEN = "not tried"


@dataclass(frozen=True, slots=True)
class Area:
    """The faults that can strike at an API's points (rows), and those points (columns), with what came of each."""

    api: str
    points: list[Point]
    rows: list[tuple[str, list[Came | None]]]
    """A fault in words, and what came of it at each point; None where it can't strike there."""


@dataclass(slots=True)
class Map:
    """Every candidate of a search; `told` says what came of one."""

    points: list[Point] = field(default_factory=list)
    _cells: dict[str, dict[str, Came]] = field(default_factory=dict)

    @classmethod
    def of(cls, points: list[Point], everything: Iterable[Candidate], earlier: Iterable[Candidate]) -> Map:
        """Nothing is tried yet, but for what an earlier search did."""
        drawn = cls(points)
        for candidate in everything:
            drawn._cells.setdefault(candidate.point, {})[candidate.family[0]] = Came.OPEN
        for candidate in earlier:
            drawn.told(candidate, Came.EARLIER)
        return drawn

    def told(self, candidate: Candidate, came: Came) -> None:
        """Note what came of a candidate; pairs, and rules of an earlier search, have no place here."""
        cells = self._cells.get(candidate.point, {})
        if len(candidate.family) == 1 and candidate.family[0] in cells:
            cells[candidate.family[0]] = came

    def areas(self) -> Iterator[Area]:
        """A table for each API, and each partition that was struck apart; in the order of the client's life."""
        for place in dict.fromkeys(point.place for point in self.points):
            points = [point for point in self.points if point.place == place]
            families = dict.fromkeys(family for point in points for family in self._cells.get(str(point), {}))
            api, index = place
            title = api if index is None else f"{api} of partition {index}"
            rows = [
                (family.removeprefix(f"{api} "), [self._cells.get(str(point), {}).get(family) for point in points])
                for family in families
            ]
            yield Area(title, points, rows)

    def counts(self) -> dict[str, int]:
        """How many cells there are of each kind."""
        cells = [came for by_family in self._cells.values() for came in by_family.values()]
        return {came.value: cells.count(came) for came in Came}

    def as_dict(self) -> list[dict[str, object]]:
        """The map in a JSON report."""
        return [
            {
                "api": area.api,
                "points": [str(point) for point in area.points],
                "faults": {family: [came.value if came else None for came in row] for family, row in area.rows},
            }
            for area in self.areas()
        ]
