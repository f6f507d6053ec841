"""How bytes flow in one direction of a connection: rate, pieces, pauses, a last byte. Pure."""

from collections import deque
from collections.abc import Callable
from typing import Final

from notleader.faults.actions import Shape

_PACES_PER_S: Final = 100  # a rate without a piece size is kept by pieces of a hundredth of a second

Uniform = Callable[[float, float], float]


class _Stage:
    """One shape at work: bytes go in, pieces come out when their time has come."""

    def __init__(self, shape: Shape, uniform: Uniform) -> None:
        self.shape = shape
        self._uniform = uniform
        self._waiting: deque[bytes] = deque()
        self._ready_us = 0
        self._passed_bytes = 0
        self.waiting_bytes = 0
        self.is_over = False

    def put(self, data: bytes, now_us: int) -> None:
        limit = self.shape.limit_bytes
        if limit is not None:
            data = data[: max(limit - self._passed_bytes, 0)]
            self._passed_bytes += len(data)
        if data:
            if not self._waiting:
                self._ready_us = max(self._ready_us, now_us)
            self._waiting.append(data)
            self.waiting_bytes += len(data)

    def take(self, now_us: int) -> list[bytes]:
        taken = []
        while self._waiting and self._ready_us <= now_us:
            piece = self._next_piece()
            taken.append(piece)
            self.waiting_bytes -= len(piece)
            self._ready_us += self.shape.slice_delay_us
            if self.shape.bytes_per_s:
                self._ready_us += round(len(piece) / self.shape.bytes_per_s * 1_000_000)
        limit = self.shape.limit_bytes
        if limit is not None and self._passed_bytes >= limit and not self._waiting:
            self.is_over = True
        return taken

    def ready_us(self) -> int | None:
        return self._ready_us if self._waiting else None

    def _next_piece(self) -> bytes:
        data = self._waiting.popleft()
        size = self._piece_bytes()
        if size is not None and size < len(data):
            self._waiting.appendleft(data[size:])
            data = data[:size]
        return data

    def _piece_bytes(self) -> int | None:
        shape = self.shape
        if shape.slice_bytes:
            variation = self._uniform(-shape.slice_variation_bytes, shape.slice_variation_bytes)
            return max(round(shape.slice_bytes + variation), 1)
        if shape.bytes_per_s:
            return max(shape.bytes_per_s // _PACES_PER_S, 1)
        return None


class Shaper:
    """Several shapes, one after the other. ``uniform(a, b)`` draws the varying piece sizes."""

    def __init__(self, shapes: tuple[Shape, ...], uniform: Uniform) -> None:
        self.shapes = shapes
        self._stages = [_Stage(shape, uniform) for shape in shapes]

    def put(self, data: bytes | memoryview, now_us: int) -> list[bytes]:
        """Take these bytes; what may leave now."""
        self._stages[0].put(bytes(data), now_us)
        return self.take(now_us)

    def take(self, now_us: int) -> list[bytes]:
        """What may leave now."""
        pieces: list[bytes] = []
        for position, stage in enumerate(self._stages):
            if position:
                for piece in pieces:
                    stage.put(piece, now_us)
            pieces = stage.take(now_us)
        return pieces

    def drain(self) -> list[bytes]:
        """Everything that still waits, in order, whatever the shapes say: they have been lifted."""
        rest: list[bytes] = []
        for stage in reversed(self._stages):
            rest.extend(stage._waiting)
            stage._waiting.clear()
            stage.waiting_bytes = 0
        return rest

    @property
    def waiting_bytes(self) -> int:
        """How much waits here."""
        return sum(stage.waiting_bytes for stage in self._stages)

    @property
    def is_over(self) -> bool:
        """Whether the last byte has passed: the connection closes."""
        return any(stage.is_over for stage in self._stages)

    def next_us(self) -> int | None:
        """When to take again; None when nothing waits."""
        return min((ready for stage in self._stages if (ready := stage.ready_us()) is not None), default=None)
