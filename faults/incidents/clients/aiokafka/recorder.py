"""Write down what a Kafka client said, one JSON line per word, so that a kill at any moment loses none."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

# Kafka's errors that surely kept a record out, as in notleader.recorders.lines.
REFUSED = (10, 12, 17, 18, 21, 28, 29, 30, 31, 32, 35, 42, 43, 44, 53, 76, 87)


def arguments(argv: list[str], defaults: dict[str, str]) -> dict[str, str]:
    """`name=value` arguments over `defaults`; an unknown or missing one ends the program."""
    given = dict(argument.split("=", 1) for argument in argv)
    unknown = set(given) - set(defaults)
    if unknown:
        sys.exit(f"unknown argument: {', '.join(sorted(unknown))} (known: {', '.join(defaults)})")
    values = defaults | given
    missing = [name for name, value in values.items() if value == "?"]
    if missing:
        sys.exit(f"missing argument: {', '.join(missing)}")
    return values


class Recorder:
    """Outcome lines on stdout for one client; `pending` first, the last word when the client has spoken."""

    def __init__(self, client: str, client_version: str, **always: Any) -> None:
        self._always = {"client": client, "client_version": client_version, **always}

    def called(self, operation: str, **fields: Any) -> dict[str, Any]:
        """A call begins: say `pending` and return the line to finish with `ok` or `failed`."""
        line = {**self._line(operation, fields), "called_at_us": now_us(), "outcome": "pending"}
        self._write(line)
        return line

    def got(self, operation: str, **fields: Any) -> None:
        """Something arrived that nobody had to wait for in a call of its own."""
        self._write({**self._line(operation, fields), "completed_at_us": now_us(), "outcome": "ok"})

    def ok(self, line: dict[str, Any], **fields: Any) -> None:
        """The client confirmed the operation."""
        self._write({**line, **fields, "completed_at_us": now_us(), "outcome": "ok"})

    def failed(self, line: dict[str, Any], error: BaseException, *, unsent: bool = False) -> None:
        """The client reported an error: `fail` when it surely kept the operation from happening, else `info`."""
        said = f"{type(error).__name__}: {error}"
        outcome = "fail" if unsent or getattr(error, "errno", None) in REFUSED else "info"
        self._write({**line, "completed_at_us": now_us(), "outcome": outcome, "error": said})

    def _line(self, operation: str, fields: dict[str, Any]) -> dict[str, Any]:
        thread = threading.current_thread().name
        return {**self._always, "operation": operation, **fields, "thread": thread}

    @staticmethod
    def _write(line: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def now_us() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1000
