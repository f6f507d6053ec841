"""How the lab's commands end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import typer

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.interrupts import interruptible
from notleader.proxy.lab.stages import fail

_EXIT_INTERRUPTED = 128 + signal.SIGINT


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """One line and exit 2 for what the user can act on, exit 130 for Ctrl-C; no traceback for either."""
    try:
        with interruptible():
            yield
    except LabError as error:
        fail(str(error))
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        fail("interrupted; nothing is left running")
        raise typer.Exit(_EXIT_INTERRUPTED) from None
