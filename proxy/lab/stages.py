"""Say on stderr what is going on: a spinner on a terminal, one line per finished stage anywhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from rich.console import Console


class Say(Protocol):
    """Takes the word on how it goes; ``well`` False is for a stage that came to its end and found what is wrong."""

    def __call__(self, text: str, *, well: bool = True) -> None:
        """Say it."""


_WELL = "[green]✓[/]"
_BADLY = "[red]✗[/]"


class Stages:
    """Progress of a run in stages; `quiet=True` says nothing at all."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    @contextlib.contextmanager
    def stage(self, title: str) -> Iterator[Say]:
        """Show `title` while the body runs, and behind it what the body last said to the yielded function.

        That last word stays on the stage's finished line, with the seconds it took, behind the mark that fits it.
        """
        started = time.monotonic()
        detail = ""
        mark = _WELL

        def line() -> str:
            return f"{title}: {detail}" if detail else title

        with self.console.status(line()) as status:

            def say(text: str, *, well: bool = True) -> None:
                nonlocal detail, mark
                detail, mark = text, _WELL if well else _BADLY
                status.update(line())

            yield say
        self.console.print(f"{mark} {line()} [dim]({time.monotonic() - started:.1f} s)[/]", soft_wrap=True)


class Part(Stages):
    """The stages of one of several that go on side by side: a word in their common stage, no lines of its own."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(quiet=True)
        self._say = say

    @contextlib.contextmanager
    def stage(self, title: str) -> Iterator[Say]:
        """Say the title, and then what the body says."""
        self._say(title)
        yield lambda text, *, well=True: self._say(text)


class Together:
    """One line for several that go on side by side: who has ended, and the last word of each that has not."""

    def __init__(self, say: Callable[[str], None], names: Iterable[str]) -> None:
        self._say = say
        self._words = dict.fromkeys(names, "waits")
        self._lock = threading.Lock()
        self._over = False

    def give_up(self) -> None:
        """Whoever says something from now on is interrupted: the next word of each comes within a second or so."""
        self._over = True

    def part(self, name: str) -> Part:
        """The stages of one of them."""
        return Part(lambda text: self.told(name, text))

    def told(self, name: str, text: str) -> None:
        """Its last word so far; from any thread."""
        if self._over:
            raise KeyboardInterrupt
        with self._lock:
            self._words[name] = text
            self._say("; ".join(f"{each}: {word}" for each, word in self._words.items()))


def fail(message: str) -> None:
    """One error line on stderr."""
    print(f"notleader: {message}", file=sys.stderr)  # noqa: T201
