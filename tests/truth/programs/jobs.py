"""What the clients of every library do with a job: which messages they send, and who writes down their outcomes."""

from __future__ import annotations

import importlib
import sys
from typing import Any

LIBRARY = sys.argv[1]
ONCE = "once" in sys.argv[2:]
"""The process ends, without closing its client, with its first job."""
FIRST_S = 3.0
"""How long the first message is waited for before the others are sent."""


def recorder() -> Any:
    """What records this library's clients, as users record theirs."""
    return importlib.import_module(f"notleader.recorders.{LIBRARY.replace('-', '_')}").recorded


def message(job: dict[str, Any], number: int) -> dict[str, Any]:
    name = f"{job['name']}-{number}"
    key = name if not job["keys"] else f"key-{number % job['keys']}"
    return {
        "value": f"order {name}".encode(),
        "key": key.encode(),
        "partition": number % job["partitions"],
        "headers": [("notleader-id", name.encode())],
    }


def transaction_of(job: dict[str, Any], number: int) -> tuple[bool, bool, bool]:
    """Whether a transaction begins before this message, ends after it, and ends aborted."""
    size = job["transaction"]
    if not size:
        return False, False, False
    last = number % size == size - 1 or number == job["messages"] - 1
    aborts = bool(job["abort_every"]) and (number // size) % job["abort_every"] == job["abort_every"] - 1
    return number % size == 0, last, aborts
