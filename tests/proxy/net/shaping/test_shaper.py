"""The shapes of standing faults, by the engine that Toxiproxy's toxics have."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from notleader.faults.actions import Shape
from notleader.proxy.net.shaping import Shaper

_SHAPES = st.builds(
    Shape,
    direction=st.just("response"),
    bytes_per_s=st.none() | st.integers(1, 10_000_000),
    slice_bytes=st.none() | st.integers(1, 100),
    slice_delay_us=st.integers(0, 5000),
)


def shaper(*shapes: Shape) -> Shaper:
    return Shaper(shapes, Random(7).uniform, 0)


def left(shaped: Shaper) -> list[tuple[int, bytes]]:
    """What leaves, each piece with its time."""
    pieces = []
    while (at_us := shaped.next_us()) is not None:
        pieces += [(at_us, piece) for piece in shaped.take(at_us)]
    return pieces


def test_a_rate_takes_the_time_that_its_bytes_need() -> None:
    shaped = shaper(Shape("response", bytes_per_s=1000))
    assert shaped.put(b"x" * 25, 0) == []
    assert left(shaped) == [(10_000, b"x" * 10), (20_000, b"x" * 10), (25_000, b"x" * 5)]
    assert shaped.waiting_bytes == 0
    assert not shaped.is_over


def test_slices_have_a_pause_behind_each() -> None:
    shaped = shaper(Shape("response", slice_bytes=10, slice_delay_us=500))
    assert shaped.put(b"x" * 30, 7) == [b"x" * 10]
    assert left(shaped) == [(507, b"x" * 10), (1007, b"x" * 10)]


def test_the_last_byte_of_a_limit_ends_the_connection_when_it_has_passed() -> None:
    shaped = shaper(Shape("response", limit_bytes=15), Shape("response", bytes_per_s=1000))
    shaped.put(b"x" * 20, 0)
    assert not shaped.is_over
    assert b"".join(piece for _, piece in left(shaped)) == b"x" * 15
    assert shaped.is_over


def test_no_bytes_may_pass_a_limit_of_none() -> None:
    shaped = shaper(Shape("response", limit_bytes=0))
    assert shaped.put(b"x", 0) == []
    assert shaped.is_over


@given(
    shapes=st.lists(_SHAPES, min_size=1, max_size=3),
    chunks=st.lists(st.binary(min_size=1, max_size=20_000), max_size=5),
)
def test_what_is_lifted_or_waited_for_changes_no_byte_and_no_order(shapes: list[Shape], chunks: list[bytes]) -> None:
    lifted, waited = shaper(*shapes), shaper(*shapes)
    sent = [piece for chunk in chunks for piece in lifted.put(chunk, 0)]
    assert lifted.waiting_bytes == sum(map(len, chunks)) - sum(map(len, sent))
    assert b"".join(sent + lifted.drain()) == b"".join(chunks)
    passed = [piece for number, chunk in enumerate(chunks) for piece in waited.put(chunk, number)]
    assert b"".join([*passed, *(piece for _, piece in left(waited))]) == b"".join(chunks)
    assert waited.waiting_bytes == 0
