"""What the workers of a proxy record, and what its control plane does, seen as one; one recorder follows them all."""

from __future__ import annotations

from typing import Any, Protocol

from notleader.proxy.record.rows import Rows
from notleader.proxy.record.where import Where
from notleader.proxy.record.writer import CaptureWriter


class Workers(Protocol):
    """Who asks all workers; `control.ControlPlane` does."""

    def recorders(self) -> list[dict[str, Any]]: ...
    async def obeyed(self, what: str) -> list[Any]: ...
    async def gather(self) -> None: ...


class Recorders(CaptureWriter):
    """The control plane's own journal, for what concerns no connection of a worker, and what the workers' tell.

    Every worker writes journals of its own, as the proxy `…-w<number>` of the same run; the control plane's recorder
    makes segments of all of them.
    """

    def __init__(self, plane: Workers, rows: Rows, where: Where | None, **options: Any) -> None:
        super().__init__(rows, where, **options)
        self._plane = plane

    def _of_workers(self, name: str) -> int:
        return sum(int(told[name]) for told in self._plane.recorders())

    @property
    def queued_rows(self) -> int:
        """Entries that are not in a journal yet."""
        return super().queued_rows + self._of_workers("queued_rows")

    @property
    def written_rows(self) -> int:
        """Rows that are on disk."""
        return super().written_rows + self._of_workers("written_rows")

    @property
    def lost_rows(self) -> int:
        """Rows that were or will be missing from the files."""
        return super().lost_rows + self._of_workers("lost_rows")

    @property
    def segments(self) -> int:
        """Segments finished so far."""
        return super().segments + self._of_workers("segments")

    def status(self) -> dict[str, Any]:
        """Where the recording goes and how it does, all together, as JSON values."""
        status = super().status()
        told = self._plane.recorders()
        for name in ("queued_bytes", "lost_frames"):  # the others are sums already
            status[name] += sum(int(each[name]) for each in told)
        errors = [each["error"] for each in told if each["error"]]
        status["error"] = status["error"] or next(iter(errors), None)
        return status

    async def rotate(self) -> None:
        """Finish every segment at hand."""
        await self._plane.obeyed("rotate")
        await super().rotate()
        await self._plane.gather()

    def offer(self, rows: list[dict[str, Any]], lost: int) -> None:
        """Rows that a worker made, for whoever looks; ``lost`` is how many it could not send before them."""
        for reader in self._live.readers:
            reader.skipped += lost
            wanted = [row for row in rows if row["event"] == "gap" or reader.accepts is None or reader.accepts(row)]
            reader.offer(wanted, self._live.skipped_row)
