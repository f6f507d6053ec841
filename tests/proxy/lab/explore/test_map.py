"""The map has a cell for each fault at each point, and says what came of it."""

from __future__ import annotations

from notleader.proxy.lab.explore.candidates import candidates
from notleader.proxy.lab.explore.map import Came, Map
from notleader.proxy.lab.explore.points import Point

POINTS = [Point("Metadata", None, 0, 1, 0.0), Point("Produce", 0, 0, 2, 1.0), Point("Produce", 0, 1, 2, 2.0)]


def test_every_candidate_is_a_cell_and_begins_open() -> None:
    everything = candidates(POINTS)
    drawn = Map.of(POINTS, everything, [])
    assert drawn.counts()["not tried"] == len(everything)
    assert [area.api for area in drawn.areas()] == ["Metadata", "Produce of partition 0"]


def test_a_cell_says_what_came_of_its_fault_and_no_other_does() -> None:
    everything = candidates(POINTS)
    drawn = Map.of(POINTS, everything, everything[:1])
    broke = next(each for each in everything if each.point == str(POINTS[2]) and "drop_response" in each.family[0])
    drawn.told(broke, Came.BROKE)
    assert drawn.counts()["tried before"] == 1
    assert drawn.counts()["broke"] == 1
    (produce,) = (area for area in drawn.areas() if area.api.startswith("Produce"))
    assert dict(produce.rows)["drop_response"] == [Came.OPEN, Came.BROKE]


def test_a_pair_has_no_cell() -> None:
    everything = candidates(POINTS)
    drawn = Map.of(POINTS, everything, [])
    drawn.told(everything[0].with_(everything[1]), Came.BROKE)
    assert drawn.counts()["broke"] == 0


def test_a_fault_that_can_t_strike_at_a_point_is_no_hole_in_the_search() -> None:
    idempotent = Point("Produce", 0, 1, 2, 2.0, idempotent=True)
    drawn = Map.of([POINTS[1], idempotent], candidates([POINTS[1], idempotent]), [])
    (area,) = drawn.areas()
    assert dict(area.rows)["error OUT_OF_ORDER_SEQUENCE_NUMBER"] == [None, Came.OPEN]
