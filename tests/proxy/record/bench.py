"""Journals and their recorder in one process, with a clock and a disk that the test moves."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from notleader.proxy.pump import Exchange
from notleader.proxy.record.block import Block, exchanges_of
from notleader.proxy.record.frames import pack_exchange
from notleader.proxy.record.journals import Batch, Journals
from notleader.proxy.record.limits import Limits
from notleader.proxy.record.rows import Level
from notleader.proxy.recorder.place import Place, open_place
from notleader.proxy.recorder.service import Service
from tests.proxy.record.entries import METADATA, PROXY, RUN, exchange

FULL = "too much waits"


def head(level: Level = Level.HEADER, **changed: Any) -> dict[str, Any]:
    return {
        "run_id": RUN,
        "proxy_id": PROXY,
        "seed": 7,
        "level": level.value,
        "redact": [],
        "metadata": METADATA,
        **changed,
    }


class Bench:
    """``write`` puts exchanges into the journal, ``record`` has the recorder do all that it can."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        place: Place | None = None,
        level: Level = Level.HEADER,
        most_waiting_bytes: int = 1 << 30,
    ) -> None:
        self.now_s = 0.0
        self.free_bytes = 1 << 40
        self.folder = folder
        self.level = level
        self.place = place or open_place(folder)
        self.spool = self.place.spool(folder)
        self.limits = limits or Limits()
        self.journals = Journals(
            self.spool,
            PROXY,
            head(level),
            self.limits,
            itertools.count(1),
            most_waiting_bytes=most_waiting_bytes,
            full=FULL,
            is_spool=self.place.folder is None,
            clock=lambda: self.now_s,
            free_bytes=lambda _: self.free_bytes,
        )
        self.journals.start()
        self._socks: list[socket.socket] = []
        self.service = self.recorder()

    def recorder(self) -> Service:
        """A new one, as after a kill of the one before."""
        ours, theirs = socket.socketpair()
        self._socks += [ours, theirs]
        job = {
            "place": str(self.folder),
            "spool": str(self.spool),
            "run_id": RUN,
            "rotate_s": 0,
            "flush_s": 0.5,
            "keep_s": self.limits.keep_s,
            "keep_bytes": self.limits.keep_bytes,
        }
        self.service = Service(job, theirs, place=self.place)
        return self.service

    def heard(self) -> bytes:
        """What the recorder has said."""
        self._socks[-2].setblocking(False)
        try:
            return self._socks[-2].recv(1 << 20)
        except BlockingIOError:
            return b""

    def write(self, numbers: Iterable[int], block: Block | None = None, **changed: Any) -> None:
        """One flush."""
        self.put([exchange(number, **changed) for number in numbers], block)

    def put(self, exchanges: list[Exchange], block: Block | None = None) -> None:
        records = [pack_exchange(one, self.level) for one in exchanges]
        times = [one.request_at_us for one in exchanges]
        rows = len(records)
        if block is not None:
            times += [row[4] for row, _ in exchanges_of(block.numbers)]
            rows += len(block)
        size = sum(map(len, records)) + (0 if block is None else len(block.numbers))
        self.journals.write(Batch(block, records, rows, min(times), max(times), size))

    def at(self, now_s: float) -> None:
        self.now_s = now_s
        self.journals.tick()

    def record(self) -> None:
        """Until there is nothing more to do at once."""
        deadline = time.monotonic() + 60
        while self.service.turn() or (self.service.is_storing and time.monotonic() < deadline):
            pass
        self.journals.tick()

    def rotate(self) -> None:
        self.journals.rotate()
        self.record()

    def close(self) -> None:
        self.journals.close()
        self.record()
        self.leave()

    def leave(self) -> None:
        """Forget everything as a kill would."""
        self.journals.leave()
        if self.journals._journal is not None:
            self.journals._journal.leave()
            self.journals._journal = None
        self.service.drop()
        for sock in self._socks:
            sock.close()
        self._socks = []

    @property
    def journal(self) -> Path:
        """The one that grows."""
        assert self.journals._journal is not None
        return self.journals._journal.path
