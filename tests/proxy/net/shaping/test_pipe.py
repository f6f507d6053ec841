"""Toxics over virtual time: bytes and times in, bytes and times out."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy.net.shaping.kinds import KINDS, NEVER_US, Toxic
from notleader.proxy.net.shaping.pipe import BUFFER_BYTES, Pipe

MS = 1000


def make(kind: str, now_us: int = 0, **attributes: int) -> Toxic:
    return KINDS[kind]({**KINDS[kind].defaults, **attributes}, Random(1), now_us)


def drain(pipe: Pipe, until_us: int = 10_000_000) -> list[tuple[int, bytes | None, bool]]:
    """Everything that leaves until then, each with the time at which it left."""
    left: list[tuple[int, bytes | None, bool]] = []
    while (due_us := pipe.next_due_us()) is not None and due_us <= until_us:
        left += [(due_us, piece.data, piece.reset) for piece in pipe.due(due_us)]
    return left


def test_without_toxics_bytes_leave_as_they_come() -> None:
    pipe = Pipe()
    pipe.receive(b"a", 5)
    pipe.receive(b"b", 7)
    pipe.end(9)
    assert [(p.data, p.reset) for p in pipe.due(9)] == [(b"a", False), (b"b", False), (None, False)]
    assert pipe.next_due_us() is None


def test_latency_delays_each_piece_by_the_same_and_keeps_their_distance() -> None:
    pipe = Pipe([make("latency", latency=100)])
    pipe.receive(b"a", 0)
    pipe.receive(b"b", 30 * MS)
    pipe.end(40 * MS)
    assert drain(pipe) == [(100 * MS, b"a", False), (130 * MS, b"b", False), (130 * MS, None, False)]


def test_jitter_never_reorders() -> None:
    pipe = Pipe([make("latency", latency=50, jitter=50)])
    for number in range(100):
        pipe.receive(bytes([number]), number * MS)
    left = drain(pipe)
    assert [data[0] for _, data, _ in left if data] == list(range(100))
    assert len({at for at, _, _ in left}) > 10


def test_two_latencies_add_up() -> None:
    pipe = Pipe([make("latency", latency=100), make("latency", latency=20)])
    pipe.receive(b"a", 0)
    assert drain(pipe) == [(120 * MS, b"a", False)]


@pytest.mark.parametrize(("latency_ms", "last_ms"), [(300, 2000), (2500, 2500)])
def test_a_latency_behind_a_bandwidth_counts_from_when_the_bytes_came(latency_ms: int, last_ms: int) -> None:
    pipe = Pipe([make("bandwidth", rate=100), make("latency", latency=latency_ms)])
    pipe.receive(bytes(200_000), 0)
    times = []
    while (due_us := pipe.next_due_us()) is not None:
        times += [due_us for _ in pipe.due(due_us)]
    assert (min(times), max(times)) == (max(41, latency_ms) * 1000, last_ms * 1000)


def test_bandwidth_takes_the_time_the_bytes_need_in_steps() -> None:
    pipe = Pipe([make("bandwidth", rate=10)])  # 10 KB/s: 1000 bytes in 100 ms
    pipe.receive(b"x" * 2500, 0)
    pipe.receive(b"y" * 100, 0)
    left = drain(pipe)
    assert [(at, len(data or b"")) for at, data, _ in left] == [
        (100 * MS, 1000),
        (200 * MS, 1000),
        (250 * MS, 500),
        (260 * MS, 100),
    ]


def test_a_rate_makes_up_for_timers_that_are_late() -> None:
    pipe = Pipe([make("bandwidth", rate=10)])
    for number in range(10):
        pipe.receive(b"x" * 1000, (number * 100 + 3) * MS)  # each comes when the one before it was let go, 3 ms late
        drain(pipe)
    pipe.receive(b"y" * 1000, 1003 * MS)
    assert drain(pipe)[-1][0] == 1100 * MS
    pipe.receive(b"z" * 1000, 2000 * MS)  # a pause is none
    assert drain(pipe)[-1][0] == 2100 * MS


def test_bandwidth_zero_lets_nothing_pass_until_it_is_changed() -> None:
    toxic = make("bandwidth", rate=0)
    pipe = Pipe([toxic])
    pipe.receive(b"abc", 0)
    pipe.end(1)
    assert pipe.next_due_us() is None
    toxic.update({"rate": 1000}, 5)
    pipe.replace(0, toxic, 5)
    assert [piece.data for piece in pipe.due(5)] == [b"abc", None]


def test_slow_close_delays_only_the_end() -> None:
    pipe = Pipe([make("slow_close", delay=300)])
    pipe.receive(b"a", 0)
    pipe.end(MS)
    assert drain(pipe) == [(0, b"a", False), (301 * MS, None, False)]


def test_timeout_swallows_and_ends_after_silence() -> None:
    pipe = Pipe([make("timeout", timeout=100)])
    pipe.receive(b"a", 60 * MS)
    assert drain(pipe) == [(160 * MS, None, False)]


def test_timeout_zero_holds_until_removed_then_ends() -> None:
    pipe = Pipe([make("timeout", timeout=0)])
    pipe.receive(b"a", 0)
    assert pipe.next_due_us() is None
    pipe.remove(0, 77)
    assert drain(pipe) == [(77, None, False)]


def test_a_timeout_that_ends_is_still_closed_slowly() -> None:
    pipe = Pipe([make("timeout", timeout=100), make("slow_close", delay=50)])
    assert drain(pipe) == [(150 * MS, None, False)]


def test_reset_peer_ends_with_a_reset_after_the_first_bytes() -> None:
    pipe = Pipe([make("reset_peer", timeout=20)])
    assert pipe.next_due_us() is None
    pipe.receive(b"a", 5 * MS)
    pipe.receive(b"b", 6 * MS)
    assert drain(pipe) == [(25 * MS, None, True)]


def test_limit_data_ends_at_exactly_that_many_bytes() -> None:
    pipe = Pipe([make("limit_data", bytes=5)])
    pipe.receive(b"abc", 0)
    pipe.receive(b"defgh", 1)
    pipe.receive(b"never", 2)
    assert [piece.data for piece in pipe.due(9)] == [b"abc", b"de", None]


def test_limit_data_counts_on_when_its_limit_is_raised() -> None:
    toxic = make("limit_data", bytes=5)
    pipe = Pipe([toxic])
    pipe.receive(b"abc", 0)
    toxic.update({"bytes": 4}, 1)
    pipe.replace(0, toxic, 1)
    pipe.receive(b"defgh", 1)
    assert [piece.data for piece in pipe.due(9)] == [b"abc", b"d", None]


@given(st.integers(1, 50), st.integers(0, 60), st.binary(min_size=1, max_size=400))
def test_a_slicer_cuts_into_sizes_around_the_average_and_loses_nothing(
    average: int, variation: int, data: bytes
) -> None:
    pipe = Pipe([make("slicer", average_size=average, size_variation=variation, delay=10)])
    pipe.receive(data, 0)
    left = drain(pipe)
    assert b"".join(piece or b"" for _, piece, _ in left) == data
    spread = min(variation, average - 1)
    assert all(average - spread <= len(piece or b"") <= average + spread for _, piece, _ in left[:-1])
    assert [at for at, _, _ in left] == [10 * number for number in range(len(left))]


def test_removing_a_latency_lets_go_at_once_what_it_held() -> None:
    pipe = Pipe([make("latency", latency=10_000)])
    pipe.receive(b"a", 0)
    pipe.end(0)
    pipe.remove(0, 5)
    assert [piece.data for piece in pipe.due(5)] == [b"a", None]


def test_an_added_toxic_meets_what_is_on_its_way() -> None:
    pipe = Pipe([make("latency", latency=100)])
    pipe.receive(b"a", 0)
    pipe.add(make("timeout", timeout=0))
    assert pipe.next_due_us() is None


def test_a_connection_that_toxicity_spared_is_untouched() -> None:
    pipe = Pipe([None])
    pipe.receive(b"a", 0)
    pipe.add(None)
    assert [piece.data for piece in pipe.due(0)] == [b"a"]


def test_a_link_is_full_before_it_holds_much_more_than_its_bound() -> None:
    pipe = Pipe([make("bandwidth", rate=1)])
    pipe.receive(b"x" * (BUFFER_BYTES - 1), 0)
    assert not pipe.is_full
    pipe.receive(b"x", 0)
    assert pipe.is_full
    pipe.due(NEVER_US - 1)
    assert not pipe.is_full


chain = st.lists(
    st.one_of(
        st.builds(lambda v: make("latency", latency=v, jitter=v), st.integers(0, 50)),
        st.builds(lambda v: make("bandwidth", rate=v), st.integers(1, 50)),
        st.builds(lambda v: make("slicer", average_size=v, size_variation=v // 2, delay=v), st.integers(1, 50)),
        st.builds(lambda v: make("slow_close", delay=v), st.integers(0, 50)),
        st.none(),
    ),
    max_size=4,
)


@given(chain, st.lists(st.tuples(st.integers(0, 100_000), st.binary(max_size=300)), max_size=10))
def test_toxics_that_only_delay_change_no_byte_and_no_order(
    toxics: list[Toxic | None], sends: list[tuple[int, bytes]]
) -> None:
    pipe = Pipe(toxics)
    now_us = 0
    for gap_us, data in sends:
        now_us += gap_us
        pipe.receive(data, now_us)
    pipe.end(now_us)
    left = drain(pipe, NEVER_US - 1)
    assert b"".join(data or b"" for _, data, _ in left) == b"".join(data for _, data in sends)
    assert left[-1][1] is None
    assert [at for at, _, _ in left] == sorted(at for at, _, _ in left)
    assert left[-1][0] >= now_us


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_takes_the_end_of_an_empty_stream(kind: str) -> None:
    pipe = Pipe([make(kind, **dict.fromkeys(KINDS[kind].defaults, 1))])
    pipe.end(0)
    assert [piece.data for piece in pipe.due(10 * MS)] == [None]
