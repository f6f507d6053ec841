"""Say on stderr what is going on: a spinner on a terminal, one line per finished stage anywhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console


class Stages:
    """Progress of a run in stages; `quiet=True` says nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    @contextlib.contextmanager
    def stage(self, title: str) -> Iterator[Callable[[str], None]]:
        """Show `title` while the body runs, and behind it what the body last said to the yielded function.

        That last word stays on the stage's finished line, with the seconds it took.
        """
        started = time.monotonic()
        detail = ""

        def line() -> str:
            return f"{title}: {detail}" if detail else title

        with self.console.status(line()) as status:

            def say(text: str) -> None:
                nonlocal detail
                detail = text
                status.update(line())

            yield say
        self.console.print(f"[green]✓[/] {line()} [dim]({time.monotonic() - started:.1f} s)[/]", soft_wrap=True)


def fail(message: str) -> None:
    """One error line on stderr."""
    print(f"notleader: {message}", file=sys.stderr)  # noqa: T201
