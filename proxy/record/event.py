"""What happens beside the exchanges, for the capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from notleader.faults.base import Connection
from notleader.faults.decision import Hit


@dataclass(slots=True)
class ConnectionEvent:
    """Something that happened to a connection, or to the whole proxy, rather than to an exchange."""

    event: Literal["connect", "disconnect", "wire_error", "mark", "fault"]
    connection: Connection | None
    at_us: int
    detail: str
    hits: tuple[Hit, ...] = ()
