"""What a recording is to keep to, and the account of what it lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNMADE: Final = "could not be made into rows (the log says why)"


class CaptureError(Exception):
    """The capture can't be written or read; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When things happen to the files; None: never."""

    flush_s: float = 0.5
    rotate_s: float = 10.0
    rotate_bytes: int = 128 << 20
    keep_s: float | None = None
    keep_bytes: int | None = None
    spool_bytes: int | None = None
    journal_bytes: int = 1 << 30
    stop_s: float = 20.0


class Losses:
    """Rows that were not written, by reason, with the first and the last moment (µs) of each."""

    def __init__(self) -> None:
        self._by_reason: dict[str, list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_reason)

    def add(self, reason: str, rows: int, first_us: int, last_us: int) -> None:
        known = self._by_reason.setdefault(reason, [0, first_us, last_us])
        known[0] += rows
        known[1] = min(known[1], first_us)
        known[2] = max(known[2], last_us)

    def all(self) -> list[tuple[str, int, int, int]]:
        """(reason, rows, first_us, last_us) of all."""
        return [(reason, counted[0], counted[1], counted[2]) for reason, counted in self._by_reason.items()]

    def take(self) -> list[tuple[str, int, int, int]]:
        """The same, forgotten here afterwards."""
        taken = self.all()
        self._by_reason.clear()
        return taken
