"""What connections that are over leave to be recorded: piece by piece, and others are served in between."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, final

from notleader.proxy.record.sink import Entry

PIECE: Final = 64
"""So many entries are recorded in one go: about a millisecond where each has to be packed."""


@final
class Endings:
    """Of the connections of one proxy; each one's entries keep their order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Entry], None], Iterator[Entry]]] = deque()

    def add(self, record: Callable[[Entry], None], entries: Sequence[Entry]) -> None:
        """Record these: at once where they are few, else in pieces."""
        if not self._waiting:
            if len(entries) <= PIECE:
                for entry in entries:
                    record(entry)
                return
            self._call_soon()
        self._waiting.append((record, iter(entries)))

    async def recorded(self) -> None:
        """Return once nothing waits any more."""
        while self._waiting:
            await asyncio.sleep(0)

    def _call_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._record_piece)

    def _record_piece(self) -> None:
        left = PIECE
        try:
            while self._waiting and left:
                record, entries = self._waiting[0]
                for entry in islice(entries, left):
                    left -= 1
                    record(entry)
                if left:
                    self._waiting.popleft()
        finally:
            if self._waiting:
                self._call_soon()
