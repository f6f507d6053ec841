"""Where a capture goes, as far as that can be said without asking the place itself. Pure but for the user's home."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import unquote, urlsplit

from notleader.proxy.record.roots import without_secrets


class Where(NamedTuple):
    """A folder or a URL. ``folder`` is the path when it is local, None when it is not; ``shown`` has no secrets."""

    text: str
    shown: str
    folder: Path | None

    @classmethod
    def of(cls, where: str | os.PathLike[str]) -> Self:
        """Of a folder's path or a URL (``s3://bucket/prefix``, ``file:///…``)."""
        text = os.fspath(where)
        scheme = urlsplit(text).scheme if "://" in text else ""
        if scheme in ("", "file"):
            path = Path(unquote(urlsplit(text).path)) if scheme else Path(text)
            return cls(text, str(path), path.absolute())
        return cls(text, without_secrets(text), None)

    def spool(self, wanted: Path | None = None) -> Path:
        """The local folder where segments grow: the place itself, or one that belongs to this place alone."""
        if self.folder is not None:
            return self.folder
        base = wanted or default_spool()
        return base / hashlib.sha256(self.shown.encode()).hexdigest()[:16]

    def repair(self, spool: Path | None = None) -> str:
        """The command that finishes what is left in journals, to be printed.

        A URL's secrets and options are not: where it has any the user has to say them.
        """
        if self.folder is not None:
            return f"`{shlex.join(['notleader', 'capture', 'ls', str(self.folder), '--repair'])}`"
        words = ["notleader", "capture", "ls", self.shown, "--repair"]
        if spool is not None:
            words += ["--capture-spool", str(spool.absolute())]
        whole = "" if self.shown == self.text else " (with all that the URL had)"
        return f"`{shlex.join(words)}`{whole}"


def default_spool() -> Path:
    """Where segments for remote places wait: below the state folder of the user."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "notleader" / "spool"
