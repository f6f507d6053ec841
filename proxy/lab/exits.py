"""How the lab's commands end."""

from __future__ import annotations

import contextlib
import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import typer

from notleader.proxy.config.refusal import say_refused
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.interrupts import interruptible
from notleader.proxy.lab.paths import CacheFolderError, cache_place
from notleader.proxy.lab.stages import fail

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG)


@contextlib.contextmanager
def clear_errors(*, as_json: bool) -> Iterator[None]:
    """One line and exit 2 for what the user can act on, exit 130 for Ctrl-C and 143 for SIGTERM; no traceback.

    `as_json`: the line is a JSON document on stdout too.
    """
    try:
        with interruptible():
            yield
    except LabError as error:
        say_refused(f"notleader: {error}", as_json=as_json)
        raise typer.Exit(2) from error
    except OSError as error:
        if (line := _unwritten(error)) is None:
            raise
        say_refused(f"notleader: {line}", as_json=as_json)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as interrupt:
        fail("interrupted; nothing is left running")
        raise typer.Exit(128 + next(iter(interrupt.args), signal.SIGINT)) from None


def _unwritten(error: OSError) -> str | None:
    """What to do about a place that can't be written; None where it is something else."""
    if isinstance(error, CacheFolderError) or (error.errno in (*_FULL, *_NOT_WRITABLE) and _is_cache(error.filename)):
        return (
            f"can't write the cache folder, {error.filename}: {error.strerror}; name another with the variable "
            "XDG_CACHE_HOME"
        )
    if error.errno in _FULL:
        return (
            f"can't write {error.filename or 'what was recorded'}: {error.strerror}; make room, or name another --out"
        )
    if error.errno in _NOT_WRITABLE and error.filename is not None:
        return f"can't write {error.filename}: {error.strerror}; name a folder that can be written, with --out"
    return None


def _is_cache(name: str | None) -> bool:
    return name is not None and Path(name).absolute().is_relative_to(cache_place().absolute())
