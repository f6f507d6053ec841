"""Which of the matching exchanges are hit."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from notleader.faults.random_source import SeededRandom, normal, pareto, uniform
from notleader.faults.trigger import Trigger, TriggerState
from tests.faults.script import ScriptedRandom


def hits(count: int = 10, *numbers: float, **trigger: Any) -> list[int]:
    """The numbers (from 1) of those among `count` matching exchanges, 1 ms apart, that are hit."""
    state = TriggerState(Trigger(**trigger), ScriptedRandom(*numbers), 0)
    return [number for number in range(1, count + 1) if state.fires(None, (number - 1) * 1000)]


def test_once_is_the_default() -> None:
    assert hits() == [1]


def test_times_skip_and_every() -> None:
    assert hits(times=3) == [1, 2, 3]
    assert hits(times="forever") == list(range(1, 11))
    assert hits(skip=4, times=2) == [5, 6]
    assert hits(every=3, times="forever") == [3, 6, 9]
    assert hits(skip=2, every=3, times=2) == [5, 8]


def test_the_window_opens_and_closes() -> None:
    assert hits(after_ms=3, for_ms=4, times="forever") == [4, 5, 6, 7]
    assert hits(after_ms=3) == [4]


def test_what_falls_outside_the_window_is_not_skipped_from() -> None:
    assert hits(after_ms=3, skip=1) == [5]


def test_probability_is_drawn_only_for_what_could_be_hit() -> None:
    assert hits(10, 0.9, 0.1, 0.6, 0.4, skip=6, probability=0.5, times="forever") == [8, 10]


def test_probability_hits_what_is_drawn_below_it() -> None:
    assert hits(3, 0.5, 0.29, 0.3, probability=0.3, times="forever") == [2]


def test_without_a_start_the_window_opens_with_the_first_exchange() -> None:
    state = TriggerState(Trigger(for_ms=1, times="forever"), ScriptedRandom(), None)
    assert [state.fires(None, now_us) for now_us in (5000, 5999, 6000)] == [True, True, False]


def test_scopes_count_on_their_own() -> None:
    state = TriggerState(Trigger(per="connection"), ScriptedRandom(), 0)
    assert [state.fires(scope, 0) for scope in (1, 2, 1, 2, 3)] == [True, True, False, False, True]
    assert not state.is_exhausted(0)


def test_exhausted_is_what_can_never_hit_again() -> None:
    state = TriggerState(Trigger(times=2), ScriptedRandom(), 0)
    state.fires(None, 0)
    assert not state.is_exhausted(0)
    state.fires(None, 0)
    assert state.is_exhausted(0)
    window = TriggerState(Trigger(times="forever", for_ms=5), ScriptedRandom(), 0)
    assert (window.is_exhausted(4999), window.is_exhausted(5000)) == (False, True)


@given(
    skip=st.integers(0, 5),
    every=st.integers(1, 4),
    times=st.integers(1, 6) | st.just("forever"),
    count=st.integers(0, 60),
)
def test_hits_are_every_nth_after_the_skipped_up_to_times(skip: int, every: int, times: Any, count: int) -> None:
    expected = [number for number in range(1, count + 1) if number > skip and (number - skip) % every == 0]
    assert hits(count, skip=skip, every=every, times=times) == expected[: None if times == "forever" else times]


@given(st.text(max_size=20), st.floats(0.01, 1.0))
def test_the_same_seed_hits_the_same(seed: str, probability: float) -> None:
    def run() -> list[bool]:
        state = TriggerState(Trigger(times="forever", probability=probability), SeededRandom(seed), 0)
        return [state.fires(None, 0) for _ in range(50)]

    assert run() == run()


def test_seeded_numbers_are_spread_and_stay_the_same_on_every_python() -> None:
    source = SeededRandom("7:slow-election")
    numbers = [source.random() for _ in range(10_000)]
    assert numbers[:3] == [0.2793398754459244, 0.8103993298684355, 0.6287689960773132]
    assert all(0 <= number < 1 for number in numbers)
    assert 0.49 < sum(numbers) / len(numbers) < 0.51
    assert len(set(numbers)) == len(numbers)


def test_distributions_have_their_means() -> None:
    source = SeededRandom("d")
    count = 20_000
    assert 14.8 < sum(uniform(source, 10, 20) for _ in range(count)) / count < 15.2
    assert 99 < sum(normal(source, 100, 10) for _ in range(count)) / count < 101
    heavy = [pareto(source, 10, 3) for _ in range(count)]
    assert min(heavy) >= 10
    assert 14.5 < sum(heavy) / count < 15.5  # scale · shape / (shape - 1)
