"""Which release is tried next: every change between the ends is found, with few tries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy.lab.bisect.halving import Halving, Result

BAD, GOOD, SKIPPED = Result.BAD, Result.GOOD, Result.SKIPPED


def tried(halving: Halving, world: list[Result]) -> int:
    """Have all be tried in this world; how many were."""
    count = 0
    while (release := halving.next()) is not None:
        assert int(release) not in halving.results, "nothing is tried twice"
        halving.told(release, world[int(release)])
        count += 1
        assert count <= len(world)
    return count


def names(world: list[Result]) -> list[str]:
    return [str(at) for at in range(len(world))]


@given(st.integers(2, 200), st.data())
def test_one_change_between_the_ends_is_found_in_logarithmic_time(size: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, size - 1))
    world = [BAD] * at + [GOOD] * (size - at)
    halving = Halving(names(world))
    assert tried(halving, world) <= 2 + math.ceil(math.log2(size))
    assert halving.changes == [(str(at - 1), str(at), GOOD)]


@given(st.integers(0, 20), st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.data())
def test_where_it_came_and_where_it_went_are_found_from_a_release_that_is_told(
    skipped: int, before: int, while_it_was: int, after: int, data: st.DataObject
) -> None:
    world = [SKIPPED] * skipped + [GOOD] * before + [BAD] * while_it_was + [GOOD] * after
    came, went = skipped + before, skipped + before + while_it_was
    known = data.draw(st.integers(came, went - 1))
    halving = Halving(names(world), [str(known)])
    tried(halving, world)
    assert (str(came - 1), str(came), BAD) in halving.changes
    assert (str(went - 1), str(went), GOOD) in halving.changes


@given(st.lists(st.sampled_from([BAD, GOOD, SKIPPED]), min_size=1, max_size=60))
def test_in_any_world_it_ends_and_each_change_is_between_neighbours_but_for_what_is_skipped(
    world: list[Result],
) -> None:
    halving = Halving(names(world))
    tried(halving, world)
    for before, after, result in halving.changes:
        assert world[int(after)] is result
        assert world[int(before)] is not result
        between = range(int(before) + 1, int(after))
        assert all(halving.results.get(at, SKIPPED) is SKIPPED for at in between)


def test_what_is_alike_everywhere_is_looked_at_here_and_there() -> None:
    world = [GOOD] * 40
    halving = Halving(names(world))
    assert 2 < tried(halving, world) < 20
    assert halving.changes == []


@pytest.mark.parametrize("world", [[], [GOOD]])
def test_nothing_to_choose_from_is_no_error(world: list[Result]) -> None:
    halving = Halving(names(world))
    tried(halving, world)
    assert halving.changes == []
