"""The IO shell: two asyncio protocols around one session, on uvloop.

Nothing is decided here. Bytes go to the session, its commands go to the sockets, and what the kernel
reports (end of file, reset, a full buffer) is mirrored to the other side.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, cast

from notleader.faults.actions import Reset, Silence
from notleader.faults.base import Connection
from notleader.faults.decision import Hit
from notleader.faults.effects import Effect
from notleader.faults.standing import LinkState
from notleader.proxy.net.clock import Clock
from notleader.proxy.net.endings import Endings
from notleader.proxy.net.link_shaping import LinkShaping
from notleader.proxy.net.side_connection import SideConnection
from notleader.proxy.net.sockets import address_of, reset, silence, tune
from notleader.proxy.net.tls import subject
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.sink import ExchangeSink
from notleader.proxy.session.commands import Outlet, Side
from notleader.proxy.session.login import Login
from notleader.proxy.session.rewrite import Newer
from notleader.proxy.session.session import Session
from notleader.proxy.wire.errors import WireError, in_words
from notleader.proxy.wire.schemas import Direction

log = logging.getLogger("notleader")

_DIRECTIONS: tuple[Direction, ...] = ("request", "response")


class Hub(Protocol):
    """What all connections of one proxy share; ``server.Proxy`` is it."""

    clock: Clock
    transports: set[asyncio.BaseTransport]  # all that are not closed yet: TLS takes its time over it
    sink: ExchangeSink
    endings: Endings

    def new_session(self, connection: Connection, link: "Link") -> Session: ...
    def opened(self, link: "Link") -> None: ...
    def closed(self, link: "Link") -> None: ...
    def newer_versions(self, newer: list[Newer]) -> None: ...
    def struck(self, exchange: Exchange) -> None: ...
    def wire_error(self, connection: Connection, error: WireError) -> None: ...
    def brokers_seen(self, node_ids: set[int]) -> None: ...
    def unreachable(self, connection: Connection, reason: str) -> None: ...
    def on_connect(self, connection: Connection, now_us: int) -> tuple[str, tuple[Hit, ...]]: ...
    def standing(self, connection: Connection) -> LinkState: ...
    def uniform(self, low: float, high: float) -> float: ...
    async def dial(self, connection: Connection, protocol: asyncio.Protocol) -> None: ...
    def login(self) -> Login | None: ...
    async def dial_node(self, node_id: int, protocol: asyncio.Protocol) -> None: ...


class Link(asyncio.Protocol):
    """The client's side of one conversation, and the executor of its session's commands."""

    def __init__(self, hub: Hub, connection: Connection) -> None:
        self.hub = hub
        self.connection = connection
        self.client: asyncio.Transport | None = None
        self.broker: asyncio.Transport | None = None
        self.opened_at_us = hub.clock.now_us()
        self.record = hub.sink.record
        self.session = hub.new_session(connection, self)
        self.now_us = hub.clock.now_us
        # What passes comes in and leaves without a step in between: nobody here has to see it.
        carrier = self.session.carrier
        carrier.clock = hub.clock
        self.data_received = carrier.client_received  # type: ignore[method-assign]
        self._dialing: asyncio.Task[None] | None = None
        self._wake: asyncio.Handle | None = None
        self._wake_at_us = 0
        self._paused_by = {"client": 0, "broker": 0}
        self._early: list[bytes] = []
        self.is_over = False
        self.silence: Silence | None = None
        self._shaping: LinkShaping | None = None
        self._kept_since_us = 0
        self._client_ended = False
        self._half_closes = True
        self._sides: dict[int, SideConnection] = {}
        self.local_host = ""
        self.aim()

    def describe(self) -> dict[str, object]:
        """The connection as JSON values."""
        connection = self.connection
        return {
            "connection_id": connection.connection_id,
            "listener": connection.listener,
            "node_id": connection.node_id,
            "client_addr": connection.client_addr,
            "client_id": connection.client_id,
            "client_software_name": connection.client_software_name,
            "client_software_version": connection.client_software_version,
            "principal": connection.principal,
            "opened_at_us": self.opened_at_us,
            "exchanges": self.session.exchanges,
        }

    # ---- asyncio.Protocol: the client -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client = client = cast(asyncio.Transport, transport)
        self.aim()
        # A PROXY protocol header has said it already, and better.
        self.connection.client_addr = self.connection.client_addr or address_of(client.get_extra_info("peername"))
        # TLS can't be closed in one direction only.
        self._half_closes = client.get_extra_info("sslcontext") is None
        self.connection.principal = subject(client.get_extra_info("peercert"))
        self.local_host = (client.get_extra_info("sockname") or ("127.0.0.1",))[0]
        tune(client)
        self.hub.transports.add(client)
        self.hub.opened(self)
        verdict, hits = self.hub.on_connect(self.connection, self.now_us())
        self.hub.sink.record(ConnectionEvent("connect", self.connection, self.now_us(), self.connection.listener, hits))
        if verdict == "reset":
            self.session.gone(self.now_us(), "reset on connect by a fault", reset=True)
            return
        if verdict == "close":
            self.session.gone(self.now_us(), "closed on connect by a fault")
            return
        self.stand(self.hub.standing(self.connection))
        if self.is_over:
            return
        client.pause_reading()
        self._dialing = asyncio.get_running_loop().create_task(self._dial())

    def _too_early(self, data: bytes) -> None:
        # uvloop starts reading after connection_made, whatever was paused there.
        self._early.append(data)
        if self.client is not None and self.client.is_reading():
            self.client.pause_reading()

    def eof_received(self) -> bool:
        self._client_ended = True
        if self._dialing is None:  # else it is told when there is a broker to pass it on to
            self.session.client_eof(self.now_us())
        return self._half_closes

    def connection_lost(self, exc: Exception | None) -> None:
        if self.client is not None:
            self.hub.transports.discard(self.client)
        self._tell_who_kept_it()
        self.client = None
        self.aim()
        if isinstance(exc, ConnectionResetError) and self.broker is not None and not self.is_over:
            reset(self.broker)
        self.session.gone(self.now_us(), _by_client(exc))
        self._tear_down()

    def pause_writing(self) -> None:
        self.hold_reading("broker", 1)

    def resume_writing(self) -> None:
        self.hold_reading("broker", -1)

    async def _dial(self) -> None:
        await self._reach()
        self._dialing = None  # an ended task, kept, would be a kilobyte of each connection

    async def _reach(self) -> None:
        try:
            await self.hub.dial(self.connection, BrokerSide(self))
        except OSError as error:
            reason = f"no broker could be reached for {self.connection.listener}: {in_words(error)}"
            self.hub.unreachable(self.connection, reason)
            self.session.gone(self.now_us(), reason)
            return
        if self.client is None or self.is_over:
            if self.broker is not None:
                self.broker.abort()
            return
        for data in self._early:
            self.session.client_bytes(data, self.now_us())
        self._early.clear()
        if self._client_ended:
            self.session.client_eof(self.now_us())
        if self.client is not None and not self._paused_by["client"]:
            self.client.resume_reading()

    # ---- commands -------------------------------------------------------------------------------

    def aim(self) -> None:
        """Have what passes go straight to a transport, unless it is shaped: to be called when any of these changes."""
        carrier, shaping = self.session.carrier, self._shaping
        is_shaped = shaping is not None and shaping.is_on
        carrier.records = self.hub.sink if shaping is None else shaping
        carrier.too_early = self._too_early if self.broker is None else None
        carrier.client = Outlet(self.to_client) if is_shaped or self.client is None else self.client
        carrier.broker = Outlet(self.to_broker) if is_shaped or self.broker is None else self.broker

    def to_broker(self, data: bytes | memoryview) -> None:
        if self._shaping is not None:
            self._shaping.put("request", data)
        else:
            self.write("request", data)

    def to_client(self, data: bytes | memoryview) -> None:
        if self._shaping is not None:
            self._shaping.put("response", data)
        else:
            self.write("response", data)

    def write(self, direction: Direction, data: bytes | memoryview) -> None:
        """Send these bytes now, if there is anybody."""
        transport = self.broker if direction == "request" else self.client
        if transport is not None:
            transport.write(data)

    def record_all(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            self.record(exchange)

    def record_last(self, entries: list[Exchange | ConnectionEvent]) -> None:
        self.hub.endings.add(self.record, entries)

    def to_node(self, node_id: int, data: bytes) -> None:
        side = self._sides.get(node_id)
        if side is None:
            side = self._sides[node_id] = SideConnection(self, node_id)
        side.send(data)

    @property
    def transports(self) -> set[asyncio.BaseTransport]:
        """All of the proxy that are not closed yet."""
        return self.hub.transports

    def login(self) -> Login | None:
        """How a side connection authenticates: a client that doesn't is on a listener where nobody has to."""
        return self.hub.login() if self.connection.uses_sasl else None

    async def dial_node(self, node_id: int, protocol: asyncio.Protocol) -> None:
        """Connect to one broker of the cluster. Raises OSError."""
        await self.hub.dial_node(node_id, protocol)

    def side_bytes(self, node_id: int, data: bytes) -> None:
        """Another broker than this conversation's own sent something."""
        self.session.node_bytes(node_id, data, self.now_us())

    def side_gone(self, node_id: int, reason: str) -> None:
        """The connection to another broker ended; the next part that is sent there opens another."""
        self._sides.pop(node_id, None)
        self.session.node_gone(node_id, reason, self.now_us())

    def pause(self, side: Side, paused: bool) -> None:
        self.hold_reading(side, 1 if paused else -1)

    def wake(self, at_us: int) -> None:
        if self._wake is not None:
            if self._wake_at_us <= at_us:
                return
            self._wake.cancel()
        self._wake_at_us = at_us
        if at_us <= self.now_us():
            self._wake = asyncio.get_running_loop().call_soon(self._woken)
        else:
            self._wake = self.call_at(at_us, self._woken)

    def brokers_seen(self, node_ids: set[int]) -> None:
        self.hub.brokers_seen(node_ids)

    def struck(self, exchange: Exchange) -> None:
        self.hub.struck(exchange)

    def newer_versions(self, newer: list[Newer]) -> None:
        self.hub.newer_versions(newer)

    def wire_error(self, error: WireError) -> None:
        self.hub.wire_error(self.connection, error)

    def not_let_in(self, node_id: int, reason: str) -> None:
        log.error("broker %d doesn't let the proxy in: %s", node_id, reason)

    def end_broker(self) -> None:
        if self.broker is not None and self.broker.can_write_eof() and not self._waits("request"):
            self.broker.write_eof()

    def close(self, reason: str) -> None:
        self.is_over = True
        if self._waits("response"):
            return  # the last shaped byte closes
        delay_us = max((delay_us for delay_us, _ in self._close_late()), default=0)
        if delay_us:
            if self.client is not None and not self._client_ended:
                self._kept_since_us = self.now_us()
            self._do_not_before(self.now_us() + delay_us, self._close_now)
        else:
            self._close_now()

    def _waits(self, direction: Direction) -> bool:
        return self._shaping is not None and self._shaping.waits(direction)

    def _close_late(self) -> list[tuple[int, Hit]]:
        return [] if self._shaping is None else self._shaping.close_late

    def _tell_who_kept_it(self) -> None:
        """The client knows now of the end that rules have kept from it: until then its connection was silent."""
        since_us, self._kept_since_us = self._kept_since_us, 0
        if not since_us:
            return
        kept_us = self.now_us() - since_us
        late = self._close_late()
        hits = tuple(hit._replace(effects=(Effect("silenced", held_us=min(us, kept_us)),)) for us, hit in late)
        names = ", ".join(hit.rule_name for hit in hits)
        self.record(ConnectionEvent("fault", self.connection, since_us, f"{names}: its end came late", hits))

    def _close_now(self) -> None:
        self._tell_who_kept_it()
        for transport in (self.client, self.broker):
            if transport is not None:
                transport.close()
        self._tear_down()

    def reset(self, reason: str) -> None:
        self.is_over = True
        for transport in (self.client, self.broker):
            if transport is not None:
                reset(transport)
        self._tear_down()

    # ---- standing faults ------------------------------------------------------------------------

    def stand(self, state: LinkState) -> None:
        """Become what the standing rules make of this connection."""
        if state.hits:
            names = ", ".join(hit.rule_name for hit in state.hits)
            self.record(ConnectionEvent("fault", self.connection, self.now_us(), names, state.hits))
        if state.cut is not None:
            reset = isinstance(state.cut, Reset)
            self.session.gone(self.now_us(), f"{'reset' if reset else 'closed'} by a standing fault", reset=reset)
            return
        if state.silence is not None:
            self._fall_silent(state.silence)
        elif self.silence is not None:
            self._end_silence(self.silence)
        for direction in _DIRECTIONS:
            every = zip(state.shapes, state.shaped_by, strict=True)
            shaped_by = [(shape, hit) for shape, hit in every if shape.direction == direction]
            if self._shaping is None and shaped_by:
                self._shaping = LinkShaping(self, self.hub.uniform)
                self.record = self._shaping.record
            if self._shaping is not None:
                self._shaping.shape(direction, shaped_by)

    def _fall_silent(self, silence_: Silence) -> None:
        """Neither read nor write from now on, without FIN or RST.

        With ``drop_packets`` the kernel drops what the client sends, ACKs included, so that the client's TCP
        retransmits as towards a host that is gone; else its bytes are acknowledged and kept.
        """
        if self.silence is not None:
            return
        self.silence = silence_
        self.hold_reading("client", 1)
        self.hold_reading("broker", 1)
        if silence_.drop_packets and self.client is not None:
            silence(self.client.get_extra_info("socket"), True)

    def _end_silence(self, silence_: Silence) -> None:
        """Go on where the silence began, now or later, or reset as a host that has rebooted would."""
        if silence_.release == "delayed":
            self.silence = Silence(silence_.drop_packets, "immediate")
            self._do_not_before(self.now_us() + silence_.release_delay_us, self._speak_again)
        elif silence_.release == "discard":
            self._speak_again(discard=True)
        else:
            self._speak_again()

    def _speak_again(self, *, discard: bool = False) -> None:
        if self.silence is None:
            return
        self.silence = None
        self.record(ConnectionEvent("fault", self.connection, self.now_us(), "goes on"))
        if self.client is not None:
            silence(self.client.get_extra_info("socket"), False)
        if discard:
            self.session.gone(self.now_us(), "reset at the end of a black hole", reset=True)
            return
        self.hold_reading("client", -1)
        self.hold_reading("broker", -1)
        self.session.wake(self.now_us())

    # ---- the rest -------------------------------------------------------------------------------

    def poke(self) -> None:
        """The plan changed: whatever waits for a rule may go on."""
        if self.silence is None:
            self.session.wake(self.now_us())

    def call_at(self, at_us: int, do: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        """Call this at that time (µs), give or take a millisecond: what must not be early looks at the clock again."""
        # uvloop's timers go by the kernel's coarse clock where that has a grain of one millisecond: round up.
        delay_ms = max(at_us - self.now_us(), 0) // 1000 + 1
        return asyncio.get_running_loop().call_later(delay_ms / 1000, do, *arguments)

    def _do_not_before(self, at_us: int, do: Callable[[], None]) -> None:
        """Do this at that time (µs), or a little later."""
        if self.now_us() < at_us:
            self.call_at(at_us, self._do_not_before, at_us, do)
        else:
            do()

    def _woken(self) -> None:
        self._wake = None
        if self.silence is None:
            self.session.wake(self.now_us())

    def hold_reading(self, side: Side, change: int) -> None:
        """Reading a side stops while at least one cause asks for it: a full buffer, a held message."""
        before = self._paused_by[side]
        self._paused_by[side] = after = max(before + change, 0)
        transport = self.client if side == "client" else self.broker
        if transport is None or transport.is_closing():
            return
        if after and transport.is_reading():
            transport.pause_reading()
        elif before and not after:
            transport.resume_reading()
        if side == "broker":
            for connection in self._sides.values():
                connection.hold_reading(bool(after))

    def _tear_down(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self._shaping is not None:
            self._shaping.end()
        if self.client is None or self.is_over:
            if self._dialing is not None and not self._dialing.done() and self.broker is None:
                self._dialing.cancel()
            if self.broker is not None:
                self.broker.close()
            for connection in self._sides.values():
                connection.close()
            self._sides.clear()
            self.hub.closed(self)


class BrokerSide(asyncio.Protocol):
    """The broker's side; all it does is tell its link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.data_received = link.session.carrier.broker_received  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._link.broker = cast(asyncio.Transport, transport)
        self._link.aim()
        tune(self._link.broker)
        self._link.hub.transports.add(self._link.broker)

    def eof_received(self) -> bool:
        link = self._link
        link.session.broker_eof(link.now_us())
        return link.broker is not None and link.broker.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        link = self._link
        if link.broker is not None:
            link.hub.transports.discard(link.broker)
        link.broker = None
        link.aim()
        if isinstance(exc, ConnectionResetError):
            link.session.gone(link.now_us(), "the broker reset the connection", reset=True)
        else:
            link.session.broker_eof(link.now_us())

    def pause_writing(self) -> None:
        self._link.hold_reading("client", 1)

    def resume_writing(self) -> None:
        self._link.hold_reading("client", -1)


def _by_client(error: Exception | None) -> str:
    """Why a connection ended that its client ended."""
    if isinstance(error, ConnectionResetError):
        return "the client reset the connection"
    return "the client closed the connection" if error is None else f"the client's connection: {in_words(error)}"
