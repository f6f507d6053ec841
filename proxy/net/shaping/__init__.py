"""How bytes flow in one direction of a connection: one engine, for the shapes of faults and for Toxiproxy's toxics.

PURE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from notleader.faults.actions import Shape
from notleader.proxy.net.shaping.kinds import Draw, LimitData, Piece, Rate, Slicer, Toxic
from notleader.proxy.net.shaping.pipe import Pipe


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The transport's random numbers, as toxics draw them."""

    uniform: Callable[[float, float], float]

    def random(self) -> float:
        return self.uniform(0, 1)


class Shaper:
    """Several shapes, one after the other, from `now_us` on. ``uniform(a, b)`` draws the varying piece sizes."""

    def __init__(self, shapes: tuple[Shape, ...], uniform: Callable[[float, float], float], now_us: int) -> None:
        self.shapes = shapes
        self.is_over = False
        """Whether the last byte has passed: the connection closes."""
        draw = _Drawn(uniform)
        self._pipe = Pipe(toxic for shape in shapes for toxic in _toxics(shape, draw, now_us))

    def put(self, data: bytes | memoryview, now_us: int) -> list[bytes]:
        """Take these bytes; what may leave now."""
        self._pipe.receive(bytes(data), now_us)
        return self.take(now_us)

    def take(self, now_us: int) -> list[bytes]:
        """What may leave now."""
        pieces = [piece.data for piece in self._pipe.due(now_us)]
        self.is_over |= None in pieces
        return [data for data in pieces if data is not None]

    def drain(self) -> list[bytes]:
        """Everything that still waits, in order, whatever the shapes say: they have been lifted."""
        return self._pipe.drain()

    @property
    def waiting_bytes(self) -> int:
        """How much waits here."""
        return self._pipe.waiting_bytes

    def next_us(self) -> int | None:
        """When to take again; None when nothing waits."""
        return self._pipe.next_due_us()


class _Middle:
    """In place of random numbers: what they are on average."""

    def random(self) -> float:
        return 0.5


class Alone:
    """One shape as if it were the only one: when bytes would have left it."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._toxics: list[Toxic] | None = None

    def out_us(self, size: int, in_us: int) -> int:
        """When the last of so many bytes that came in at `in_us` would have left."""
        if self._toxics is None:
            every = _toxics(self._shape, _Middle(), in_us)
            self._toxics = [toxic for toxic in every if not isinstance(toxic, LimitData)]
        pieces = [Piece(in_us, bytes(size))]
        for toxic in self._toxics:
            pieces = [product for piece in pieces for product in toxic.feed(piece)]
        return max((piece.at_us for piece in pieces), default=in_us)


def _toxics(shape: Shape, draw: Draw, now_us: int) -> Iterator[Toxic]:
    if shape.limit_bytes is not None:
        yield LimitData({"bytes": shape.limit_bytes}, draw, now_us)
    if shape.slice_bytes:
        sizes = {"average_size": shape.slice_bytes, "size_variation": shape.slice_variation_bytes}
        yield Slicer({**sizes, "delay": shape.slice_delay_us}, draw, now_us)
    if shape.bytes_per_s:
        yield Rate({"bytes_per_s": shape.bytes_per_s}, draw, now_us)
