"""The recorders of a proxy in several processes, seen as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from notleader.proxy.capture.rows import Rows
from notleader.proxy.capture.writer import CaptureWriter

if TYPE_CHECKING:
    from notleader.proxy.capture.place import Place
    from notleader.proxy.workers.control import ControlPlane


class Recorders(CaptureWriter):
    """The control plane's own recorder, for what concerns no connection of a worker, and what the workers' tell.

    Every worker writes segments of its own, as the proxy `…-w<number>` of the same run.
    """

    def __init__(self, plane: ControlPlane, rows: Rows, place: Place | None, **options: Any) -> None:
        super().__init__(rows, place, **options)
        self._plane = plane

    def _of_workers(self, name: str) -> int:
        return sum(int(told[name]) for told in self._plane.recorders())

    @property
    def queued_rows(self) -> int:
        """Entries handed over and not taken yet."""
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
        """Where the recording goes and how it does, all recorders together, as JSON values."""
        status = super().status()
        told = self._plane.recorders()
        for name in ("queued_bytes", "lost_frames"):  # the others are sums already
            status[name] += sum(int(each[name]) for each in told)
        errors = [each["error"] for each in told if each["error"]]
        status["error"] = status["error"] or next(iter(errors), None)
        return status

    async def rotate(self) -> None:
        """Finish every segment at hand."""
        await super().rotate()
        await self._plane.obeyed("rotate")
        await self._plane.gather()

    def offer(self, rows: list[dict[str, Any]], lost: int) -> None:
        """Rows that a worker made, for whoever looks; ``lost`` is how many it could not send before them."""
        for reader in self._readers:
            reader.skipped += lost
            wanted = [row for row in rows if row["event"] == "gap" or reader.accepts is None or reader.accepts(row)]
            reader.offer(wanted, self._skipped)
