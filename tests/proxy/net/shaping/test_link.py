"""Toxics over virtual time: bytes and times in, bytes and times out."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy.net.shaping.kinds import KINDS, NEVER_US, Toxic
from notleader.proxy.net.shaping.link import BUFFER_BYTES, Link

MS = 1000


def make(kind: str, now_us: int = 0, **attributes: int) -> Toxic:
    return KINDS[kind]({**KINDS[kind].defaults, **attributes}, Random(1), now_us)


def drain(link: Link, until_us: int = 10_000_000) -> list[tuple[int, bytes | None, bool]]:
    """Everything that leaves until then, each with the time at which it left."""
    left: list[tuple[int, bytes | None, bool]] = []
    while (due_us := link.next_due_us()) is not None and due_us <= until_us:
        left += [(due_us, piece.data, piece.reset) for piece in link.due(due_us)]
    return left


def test_without_toxics_bytes_leave_as_they_come() -> None:
    link = Link()
    link.receive(b"a", 5)
    link.receive(b"b", 7)
    link.end(9)
    assert [(p.data, p.reset) for p in link.due(9)] == [(b"a", False), (b"b", False), (None, False)]
    assert link.next_due_us() is None


def test_latency_delays_each_piece_by_the_same_and_keeps_their_distance() -> None:
    link = Link([make("latency", latency=100)])
    link.receive(b"a", 0)
    link.receive(b"b", 30 * MS)
    link.end(40 * MS)
    assert drain(link) == [(100 * MS, b"a", False), (130 * MS, b"b", False), (130 * MS, None, False)]


def test_jitter_never_reorders() -> None:
    link = Link([make("latency", latency=50, jitter=50)])
    for number in range(100):
        link.receive(bytes([number]), number * MS)
    left = drain(link)
    assert [data[0] for _, data, _ in left if data] == list(range(100))
    assert len({at for at, _, _ in left}) > 10


def test_two_latencies_add_up() -> None:
    link = Link([make("latency", latency=100), make("latency", latency=20)])
    link.receive(b"a", 0)
    assert drain(link) == [(120 * MS, b"a", False)]


def test_bandwidth_takes_the_time_the_bytes_need_in_steps() -> None:
    link = Link([make("bandwidth", rate=10)])  # 10 KB/s: 1000 bytes in 100 ms
    link.receive(b"x" * 2500, 0)
    link.receive(b"y" * 100, 0)
    left = drain(link)
    assert [(at, len(data or b"")) for at, data, _ in left] == [
        (100 * MS, 1000),
        (200 * MS, 1000),
        (250 * MS, 500),
        (260 * MS, 100),
    ]


def test_a_rate_makes_up_for_timers_that_are_late() -> None:
    link = Link([make("bandwidth", rate=10)])
    for number in range(10):
        link.receive(b"x" * 1000, (number * 100 + 3) * MS)  # each comes when the one before it was let go, 3 ms late
        drain(link)
    link.receive(b"y" * 1000, 1003 * MS)
    assert drain(link)[-1][0] == 1100 * MS
    link.receive(b"z" * 1000, 2000 * MS)  # a pause is none
    assert drain(link)[-1][0] == 2100 * MS


def test_bandwidth_zero_lets_nothing_pass_until_it_is_changed() -> None:
    toxic = make("bandwidth", rate=0)
    link = Link([toxic])
    link.receive(b"abc", 0)
    link.end(1)
    assert link.next_due_us() is None
    toxic.update({"rate": 1000}, 5)
    link.replace(0, toxic, 5)
    assert [piece.data for piece in link.due(5)] == [b"abc", None]


def test_slow_close_delays_only_the_end() -> None:
    link = Link([make("slow_close", delay=300)])
    link.receive(b"a", 0)
    link.end(MS)
    assert drain(link) == [(0, b"a", False), (301 * MS, None, False)]


def test_timeout_swallows_and_ends_after_silence() -> None:
    link = Link([make("timeout", timeout=100)])
    link.receive(b"a", 60 * MS)
    assert drain(link) == [(160 * MS, None, False)]


def test_timeout_zero_holds_until_removed_then_ends() -> None:
    link = Link([make("timeout", timeout=0)])
    link.receive(b"a", 0)
    assert link.next_due_us() is None
    link.remove(0, 77)
    assert drain(link) == [(77, None, False)]


def test_a_timeout_that_ends_is_still_closed_slowly() -> None:
    link = Link([make("timeout", timeout=100), make("slow_close", delay=50)])
    assert drain(link) == [(150 * MS, None, False)]


def test_reset_peer_ends_with_a_reset_after_the_first_bytes() -> None:
    link = Link([make("reset_peer", timeout=20)])
    assert link.next_due_us() is None
    link.receive(b"a", 5 * MS)
    link.receive(b"b", 6 * MS)
    assert drain(link) == [(25 * MS, None, True)]


def test_limit_data_ends_at_exactly_that_many_bytes() -> None:
    link = Link([make("limit_data", bytes=5)])
    link.receive(b"abc", 0)
    link.receive(b"defgh", 1)
    link.receive(b"never", 2)
    assert [piece.data for piece in link.due(9)] == [b"abc", b"de", None]


def test_limit_data_counts_on_when_its_limit_is_raised() -> None:
    toxic = make("limit_data", bytes=5)
    link = Link([toxic])
    link.receive(b"abc", 0)
    toxic.update({"bytes": 4}, 1)
    link.replace(0, toxic, 1)
    link.receive(b"defgh", 1)
    assert [piece.data for piece in link.due(9)] == [b"abc", b"d", None]


@given(st.integers(1, 50), st.integers(0, 60), st.binary(min_size=1, max_size=400))
def test_a_slicer_cuts_into_sizes_around_the_average_and_loses_nothing(
    average: int, variation: int, data: bytes
) -> None:
    link = Link([make("slicer", average_size=average, size_variation=variation, delay=10)])
    link.receive(data, 0)
    left = drain(link)
    assert b"".join(piece or b"" for _, piece, _ in left) == data
    spread = min(variation, average - 1)
    assert all(average - spread <= len(piece or b"") <= average + spread for _, piece, _ in left[:-1])
    assert [at for at, _, _ in left] == [10 * number for number in range(len(left))]


def test_removing_a_latency_lets_go_at_once_what_it_held() -> None:
    link = Link([make("latency", latency=10_000)])
    link.receive(b"a", 0)
    link.end(0)
    link.remove(0, 5)
    assert [piece.data for piece in link.due(5)] == [b"a", None]


def test_an_added_toxic_meets_what_is_on_its_way() -> None:
    link = Link([make("latency", latency=100)])
    link.receive(b"a", 0)
    link.add(make("timeout", timeout=0))
    assert link.next_due_us() is None


def test_a_connection_that_toxicity_spared_is_untouched() -> None:
    link = Link([None])
    link.receive(b"a", 0)
    link.add(None)
    assert [piece.data for piece in link.due(0)] == [b"a"]


def test_a_link_is_full_before_it_holds_much_more_than_its_bound() -> None:
    link = Link([make("bandwidth", rate=1)])
    link.receive(b"x" * (BUFFER_BYTES - 1), 0)
    assert not link.is_full
    link.receive(b"x", 0)
    assert link.is_full
    link.due(NEVER_US - 1)
    assert not link.is_full


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
    link = Link(toxics)
    now_us = 0
    for gap_us, data in sends:
        now_us += gap_us
        link.receive(data, now_us)
    link.end(now_us)
    left = drain(link, NEVER_US - 1)
    assert b"".join(data or b"" for _, data, _ in left) == b"".join(data for _, data in sends)
    assert left[-1][1] is None
    assert [at for at, _, _ in left] == sorted(at for at, _, _ in left)
    assert left[-1][0] >= now_us


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_takes_the_end_of_an_empty_stream(kind: str) -> None:
    link = Link([make(kind, **dict.fromkeys(KINDS[kind].defaults, 1))])
    link.end(0)
    assert [piece.data for piece in link.due(10 * MS)] == [None]
