"""What a session may ask of the outside world: the whole list.

A session calls these methods on the object it is given. The transport executes them; a test records
them, as the tuples :class:`Script` keeps, and reads like a script.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.session.rewrite import Newer
from notleader.proxy.wire.errors import WireError

Side = Literal["client", "broker"]


class Commands(Protocol):
    """The closed set of effects of a session."""

    def to_broker(self, data: bytes | memoryview) -> None:
        """Send these bytes to the broker, after all that was sent before."""

    def to_node(self, node_id: int, data: bytes) -> None:
        """Send these bytes to another broker of the cluster, over a connection of this conversation's own.

        Its answers go to ``Session.node_bytes``, its end to ``Session.node_gone``.
        """

    def to_client(self, data: bytes | memoryview) -> None:
        """Send these bytes to the client, after all that was sent before."""

    def pause(self, side: Side, paused: bool) -> None:
        """Stop or go on reading what ``side`` sends."""

    def wake(self, at_us: int) -> None:
        """Call ``Session.wake`` at about this time (µs on the session's clock); it asks again where that was early."""

    def record(self, entry: Exchange | ConnectionEvent) -> None:
        """Keep this finished exchange or connection event for the capture."""

    def record_all(self, exchanges: list[Exchange]) -> None:
        """Keep these finished exchanges, in their order."""

    def record_last(self, entries: list[Exchange | ConnectionEvent]) -> None:
        """Keep what a conversation that is over leaves, in its order, soon: it may be too much to do in one go."""

    def struck(self, exchange: Exchange) -> None:
        """Rules have struck this exchange, although it is over only when its connection is."""

    def end_broker(self) -> None:
        """Tell the broker that the client will send no more (half-close)."""

    def close(self, reason: str) -> None:
        """Send what is still queued, then close both sides."""

    def reset(self, reason: str) -> None:
        """Close both sides with a TCP reset, behind what was sent so far."""

    def brokers_seen(self, node_ids: set[int]) -> None:
        """A broker listed these as the cluster's brokers."""

    def newer_versions(self, newer: list[Newer]) -> None:
        """The broker speaks these APIs in versions that this build doesn't know."""

    def wire_error(self, error: WireError) -> None:
        """One side broke the protocol: count it and log it; a close follows."""

    def not_let_in(self, node_id: int, reason: str) -> None:
        """The broker refuses the proxy's own login: log it; a close follows."""


class Outlet:
    """A way to one side, as a transport is one."""

    __slots__ = ("write",)

    def __init__(self, write: Callable[[bytes | memoryview], None]) -> None:
        self.write = write


Command = tuple[str] | tuple[str, object] | tuple[str, object, object]


class Script:
    """The commands of a session as data, in order: what a test compares with."""

    def __init__(self) -> None:
        self.log: list[Command] = []

    def take(self) -> list[Command]:
        """The commands since the last call."""
        taken, self.log = self.log, []
        return taken

    def to_broker(self, data: bytes | memoryview) -> None:
        self.log.append(("to_broker", bytes(data)))

    def to_node(self, node_id: int, data: bytes) -> None:
        self.log.append(("to_node", node_id, data))

    def to_client(self, data: bytes | memoryview) -> None:
        self.log.append(("to_client", bytes(data)))

    def pause(self, side: Side, paused: bool) -> None:
        self.log.append(("pause", side, paused))

    def wake(self, at_us: int) -> None:
        self.log.append(("wake", at_us))

    def record(self, entry: Exchange | ConnectionEvent) -> None:
        self.log.append(("record", entry))

    def record_all(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            self.record(exchange)

    def record_last(self, entries: list[Exchange | ConnectionEvent]) -> None:
        for entry in entries:
            self.record(entry)

    def struck(self, exchange: Exchange) -> None:
        """Nothing: its record says it all."""

    def end_broker(self) -> None:
        self.log.append(("end_broker",))

    def close(self, reason: str) -> None:
        self.log.append(("close", reason))

    def reset(self, reason: str) -> None:
        self.log.append(("reset", reason))

    def brokers_seen(self, node_ids: set[int]) -> None:
        self.log.append(("brokers_seen", node_ids))

    def newer_versions(self, newer: list[Newer]) -> None:
        self.log.append(("newer_versions", newer))

    def wire_error(self, error: WireError) -> None:
        self.log.append(("wire_error", error.reason))

    def not_let_in(self, node_id: int, reason: str) -> None:
        self.log.append(("not_let_in", node_id, reason))
