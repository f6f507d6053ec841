"""How often recorders died over a journal, kept beside it: what kills one does so a few times, and not for ever.

A recorder that dies leaves the count behind. After a few times the next one goes frame by frame and writes down where
it is; a frame over which two of them died is left out.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Final

from notleader.proxy.record.journal import hidden, segment_of

SUFFIX: Final = ".tries"
TOGETHER: Final = 3
"""So many may die before it goes frame by frame: most deaths are no frame's fault."""
_OVER_A_FRAME: Final = 2
_AT_ALL: Final = 50
WHOLE: Final = -1
"""The place of the step that ends the segment: who dies there leaves out all frames."""


class HopelessError(OSError):
    """So many recorders died over a journal that it is left as it is."""


class Tries:
    """Of one journal; this recorder's is one of them."""

    def __init__(self, journal: Path) -> None:
        """Raises HopelessError."""
        self._path = hidden(segment_of(journal), SUFFIX)
        self.times = 0
        """How often it was tried, this time included."""
        self._at: int | None = None
        self._died_at: dict[int, int] = {}
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            self._read(json.loads(self._path.read_bytes()))
        if self._at is not None:
            self._died_at[self._at] = self._died_at.get(self._at, 0) + 1
            self._at = None
        if self.times >= _AT_ALL:
            raise HopelessError(f"{self.times} recorders died over it")
        self.times += 1
        self._write()

    @property
    def is_careful(self) -> bool:
        """Whether to go frame by frame."""
        return self.times > TOGETHER

    def is_given_up(self, at: int) -> bool:
        """Whether the frame at this place of the journal is to be left out."""
        return self._died_at.get(at, 0) >= _OVER_A_FRAME or self._died_at.get(WHOLE, 0) >= _OVER_A_FRAME

    def enter(self, at: int) -> None:
        """The frame at this place is next."""
        self._at = at
        self._write()

    def leave(self) -> None:
        """It did no harm."""
        self._at = None
        self._write()

    def failed(self) -> None:
        """It was tried in vain, by a recorder that lives: counted as if it had died."""
        self.times += 1
        if self._at is not None:
            self._died_at[self._at] = _OVER_A_FRAME
        self.leave()

    def forget(self) -> None:
        """The journal is done, or left alone in order."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _read(self, said: dict[str, Any]) -> None:
        self.times, self._at = int(said["times"]), said["at"]
        self._died_at = {int(at): int(times) for at, times in said["died_at"]}

    def _write(self) -> None:
        said = {"times": self.times, "at": self._at, "died_at": list(self._died_at.items())}
        unseen = self._path.with_name(self._path.name + ".new")
        try:
            unseen.write_text(json.dumps(said), "utf-8")
            unseen.rename(self._path)
        except OSError:  # a full disk, or a folder that is gone: then nobody counts
            with contextlib.suppress(OSError):
                unseen.unlink()
