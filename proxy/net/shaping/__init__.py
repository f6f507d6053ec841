"""How bytes flow in one direction of a connection: one engine, for the shapes of faults and for Toxiproxy's toxics.

PURE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from notleader.faults.actions import Shape
from notleader.proxy.net.shaping.kinds import LimitData, Rate, Slicer, Toxic
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


def _toxics(shape: Shape, draw: _Drawn, now_us: int) -> Iterator[Toxic]:
    if shape.limit_bytes is not None:
        yield LimitData({"bytes": shape.limit_bytes}, draw, now_us)
    if shape.slice_bytes:
        sizes = {"average_size": shape.slice_bytes, "size_variation": shape.slice_variation_bytes}
        yield Slicer({**sizes, "delay": shape.slice_delay_us}, draw, now_us)
    if shape.bytes_per_s:
        yield Rate({"bytes_per_s": shape.bytes_per_s}, draw, now_us)
