"""One proxy: its listeners, what its connections share, and how it starts and stops."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Generator, Iterable
from functools import partial
from random import Random
from typing import Any, Self, cast

from notleader.faults.actions import Close, Reset
from notleader.faults.base import Connection, Fault
from notleader.faults.plan import Hit, Plan, Rule
from notleader.faults.schema import Problem, parse_fault_document
from notleader.faults.standing import LinkState
from notleader.faults.timeline import Timeline
from notleader.proxy.config.relay_login import relay_password
from notleader.proxy.config.settings import ConfigError, Settings, load
from notleader.proxy.net.capture import ProxyCapture
from notleader.proxy.net.clock import Clock
from notleader.proxy.net.dialing import Dialer
from notleader.proxy.net.directory import BrokerEndpoint, Directory, Listener, Opened, advertised_host
from notleader.proxy.net.discovery import LoginWantedError
from notleader.proxy.net.passage import Passage
from notleader.proxy.net.timeline import play
from notleader.proxy.net.tls import Tls
from notleader.proxy.net.transport import Link
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.record.live import Accepts
from notleader.proxy.record.rows import Level
from notleader.proxy.record.writer import CaptureWriter
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.login import Login
from notleader.proxy.session.metrics import Counters
from notleader.proxy.session.rewrite import Newer
from notleader.proxy.session.session import Session
from notleader.proxy.wire.addresses import Advertise
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.errors import OwnMistake, WireError

log = logging.getLogger("notleader")

_DRAIN_S = 2.0
# Of those that are turned away before they say a word a line for each client's address; of a broker that is gone, one
# for its listener, however often clients dial.
_WARN_EVERY_US = 10_000_000
_MOST_WARNED = 1000


class Proxy:
    """A fault-injecting proxy in front of one cluster.

    ``await start()`` listens, ``await stop()`` closes everything and finishes the capture. Raises OSError
    (a port is taken) and CaptureError (the folder can't be written) from ``start``.
    """

    def __init__(self, settings: Settings, run_id: str | None = None) -> None:
        """``run_id`` where it is another process's run."""
        self.settings = settings
        # A letter first: Spark reads a folder run=15e361470418 as a number of that many digits, and never comes back.
        self.run_id = run_id or f"r{uuid.uuid4().hex[:11]}"
        self.clock = Clock()
        self.counters = Counters()
        self.plan = self._make_plan()
        self.plan.on_refusal = self._refused
        # Not within the decision that brought it: that exchange comes to its end first.
        self.plan.on_start = self._soon
        self.timeline: Timeline | None = settings.parsed_timeline()
        self._table = Handling(None)
        self._capture = self._make_capture()
        self.sink = self._capture.sink
        self.endings = self._capture.endings
        self.record = self.sink.record
        self.ready = False
        self.tls = Tls(settings)
        self._dialer = Dialer(settings, self.tls)
        self._relay_password = relay_password(settings)
        self.plan.can_log_in = self._relay_password is not None
        self.directory = Directory(
            settings.listen,
            settings.broker_ports,
            self._serve,
            self._opener(),
            spared_port=settings.admin and settings.admin.port,
        )
        self._links: dict[int, Link] = {}
        self.transports: set[asyncio.BaseTransport] = set()
        self._accepted = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._newer: set[Newer] = set()
        self._warned_us: dict[tuple[str, str], int] = {}
        self._standing_timer: asyncio.TimerHandle | None = None
        self._random = Random(f"{settings.seed}:transport")

    def _make_plan(self) -> Plan:
        if self.settings.workers > 1:
            problem = "a Proxy is one process: several are control.workers.control.ControlPlane, or `notleader run`"
            raise ConfigError([Problem("workers", problem)])
        return Plan(seed=self.settings.seed, faults=self.settings.parsed_faults())

    def _make_capture(self, **how: Any) -> ProxyCapture:
        return ProxyCapture(self.settings, self.run_id, self.plan.cluster, self.counters, self._table, **how)

    def _opener(self) -> Opened:
        """What opens the listeners."""
        return Listener

    # ---- embedded in a program or a test --------------------------------------------------------

    @classmethod
    def in_front_of(cls, kafka: str, *, faults: Iterable[dict[str, Any]] = (), **settings: Any) -> Self:
        """A proxy for ``async with``, on free ports of loopback and without an HTTP API unless told otherwise.

        `kafka` is HOST:PORT[,HOST:PORT…]; `faults` and `settings` are what a config file would say. Raises
        ConfigError with every problem.
        """
        quiet = {"listen": "127.0.0.1:0", "admin": None}
        return cls(load({"kafka": kafka, "faults": list(faults), **quiet, **settings}))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def bootstrap(self) -> str:
        """What clients take as bootstrap server: HOST:PORT."""
        return str(self.listen)

    def add_fault(self, **fault: Any) -> Rule:
        """Put one fault, given as in a config file, in force at once; the rule that counts its hits.

        Raises FaultDocumentError with every problem, ValueError when the name is taken.
        """
        rule = self.plan.add(parse_fault_document(fault), self.now_us())
        self.plan_changed()
        return rule

    def remove_fault(self, name: str) -> None:
        """Take a rule out, and let go what it holds. KeyError when there is none."""
        self.plan.remove(name)
        self.plan_changed()

    async def wait_for_hits(self, name: str, hits: int = 1, *, timeout_s: float = 10) -> None:
        """Return once the rule was hit that often. Raises TimeoutError, and KeyError when there is no such rule."""
        async with asyncio.timeout(timeout_s):
            while self.plan.get(name).hits < hits:
                await asyncio.sleep(0.005)

    # ---- start and stop -------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen for bootstrapping clients and, where the cluster answers now, for each broker."""
        if self.settings.capture is not None:
            await self.start_capture(self.settings.capture, self.settings.capture_level)
        try:
            self.directory.open_bootstrap(self.settings.listen.port)
            if not await self._learn_brokers(strict=True):
                self._spawn(self._keep_learning())
        except BaseException:
            await self.stop()
            raise
        self.plan.begin(self.now_us())
        self._spawn(self._run_timeline())
        self._apply_standing()

    async def stop(self) -> None:
        """Stop listening, close the connections, finish the capture. Harmless when called twice."""
        if self._standing_timer is not None:
            self._standing_timer.cancel()
        self.directory.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in list(self._links.values()):
            link.session.gone(self.clock.now_us(), "the proxy stopped")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                while self._links or self.transports:
                    await asyncio.sleep(0.01)
        for transport in list(self.transports):
            cast(asyncio.Transport, transport).abort()  # the other side doesn't take part in closing TLS
        await asyncio.sleep(0)
        await self.stop_capture()

    @property
    def listen(self) -> Endpoint:
        """Where clients bootstrap, with the port that was really bound."""
        return Endpoint(self.settings.listen.host, self.directory.listeners[None].port)

    async def _learn_brokers(self, *, strict: bool = False) -> bool:
        """Ask the bootstrap addresses in turn who the brokers are; say whether one answered."""
        try:
            body = await self._dialer.metadata()
        except LoginWantedError as error:
            log.info("%s: listeners of brokers are opened when the first client has logged in", error)
            self.ready = True
            return False
        except ConnectionError as error:
            log.warning("no Kafka broker answers yet (%s); still trying", error)
            return False
        self.plan.cluster.observe_metadata(body)
        for broker in sorted(body["brokers"], key=lambda entry: int(entry["node_id"])):
            self.directory.endpoint(broker["node_id"], broker["host"], broker["port"], strict=strict)
        self.ready = True
        return True

    async def topics(self) -> dict[str, set[int]] | None:
        """The partitions of every topic there is, by a broker's word; None when none says without a login."""
        try:
            body = await self._dialer.metadata(with_topics=True)
        except ConnectionError:
            return None
        return {
            topic["name"]: {partition["partition_index"] for partition in topic["partitions"]}
            for topic in body["topics"]
        }

    async def _keep_learning(self) -> None:
        pause_s = 0.5
        while not self.ready:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 10)
            with contextlib.suppress(OSError):
                await self._learn_brokers()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task ended: %s", error, exc_info=error)

    # ---- listeners ------------------------------------------------------------------------------

    def _serve(self, listener: Listener) -> None:
        """Accept on a socket that is listening already."""
        has_header = self.settings.proxy_protocol
        if has_header or self.tls.listen is not None:
            welcome = partial(self._new_link, listener)
            listener.serve_announced(welcome, self.tls.listen, self._turned_away, has_header=has_header)
        else:
            self._spawn(listener.serve(lambda: self._new_link(listener)))
        asyncio.get_running_loop().call_soon(self._apply_to_listener, listener)

    def _new_link(self, listener: Listener, client_addr: str | None = None) -> Link:
        return Link(self, self._connection(listener.name, listener.node_id, client_addr))

    def _connection(self, listener: str, node_id: int | None, client_addr: str | None = None) -> Connection:
        self._accepted += 1
        nth = self._accepted
        return Connection(connection_id=nth, nth=nth, listener=listener, node_id=node_id, client_addr=client_addr or "")

    def _turned_away(self, address: str, error: WireError) -> None:
        """A connection was closed because its PROXY protocol header is none, or its TLS handshake failed."""
        self.counters.wire_errors["client"] += 1
        self._warn((address.rpartition(":")[0], error.reason), "%s: %s", address, error.reason)
        self.record(ConnectionEvent("wire_error", None, self.now_us(), f"client: {address}: {error.reason}"))

    def unreachable(self, connection: Connection, reason: str) -> None:
        """A connection ends, as there is no broker for it."""
        self._warn((connection.listener, reason), "%s (connection %d)", reason, connection.connection_id)

    def _warn(self, about: tuple[str, str], text: str, *words: object) -> None:
        """Log it, unless the same was said within ten seconds."""
        now_us = self.now_us()
        if now_us - self._warned_us.get(about, -_WARN_EVERY_US) < _WARN_EVERY_US:
            return
        if len(self._warned_us) >= _MOST_WARNED:
            self._warned_us.clear()
        self._warned_us[about] = now_us
        log.warning(text, *words)

    def listeners(self) -> list[tuple[str, str, str]]:
        """The Kafka listeners, bootstrap first: name, address, address of the server behind it."""
        brokers = (
            (f"broker-{entry.node_id}", str(entry.listen), str(Endpoint(entry.host, entry.port)))
            for entry in self.brokers()
        )
        return [("bootstrap", str(self.listen), str(self.settings.kafka[0])), *brokers]

    def passage(self, name: str, host: str, port: int) -> Callable[[], Link]:
        """Makes the client's side of connections to one server, which rules know by the listener `name`."""
        hub = Passage(self, self.new_session, self._dialer, Endpoint(host, port))

        def accept() -> Link:
            of = (entry.node_id for entry in self.brokers() if (entry.host, entry.port) == (host, port))
            return Link(hub, self._connection(name, next(of, None)))

        return accept

    def advertised(self, link: Link, node_id: int, host: str, port: int) -> tuple[str, int]:
        """The address under which this client reaches that broker through the proxy."""
        return advertised_host(self.settings, link.local_host), self.directory.endpoint(node_id, host, port).listen_port

    # ---- what the links need (transport.Hub) ----------------------------------------------------

    def login(self) -> Login | None:
        """How a side connection authenticates; None where the proxy has no credentials of its own."""
        mechanism = self.settings.relay_sasl_mechanism
        if mechanism is None or self._relay_password is None:
            return None
        return Login(mechanism.value, self.settings.relay_sasl_username, self._relay_password)

    def new_session(self, connection: Connection, link: Link, advertise: Advertise | None = None) -> Session:
        return Session(
            connection,
            self.plan,
            self._table,
            link,
            advertise or (lambda node_id, host, port: self.advertised(link, node_id, host, port)),
            login=link.login,
            max_frame_bytes=self.settings.max_frame_bytes,
        )

    async def dial(self, connection: Connection, protocol: asyncio.Protocol) -> None:
        """Connect to the broker of this connection's listener. Raises OSError."""
        if connection.node_id is None:
            await self._dialer.bootstrap(protocol)
        else:
            await self.dial_node(connection.node_id, protocol)

    async def dial_node(self, node_id: int, protocol: asyncio.Protocol) -> None:
        """Connect to one broker of the cluster. Raises OSError."""
        entry = self.directory.brokers.get(node_id)
        if entry is None:
            raise ConnectionError(f"no broker {node_id} is known")
        await self._dialer.first_of([Endpoint(entry.host, entry.port)], protocol)

    def standing(self, connection: Connection) -> LinkState:
        """What the standing rules make of this connection now."""
        return self.plan.link(connection, self.now_us())

    def uniform(self, low: float, high: float) -> float:
        """A random number of the transport's own stream."""
        return self._random.uniform(low, high)

    def opened(self, link: Link) -> None:
        self._links[link.connection.connection_id] = link
        self.counters.connections_opened[link.connection.listener] += 1

    def closed(self, link: Link) -> None:
        if self._links.pop(link.connection.connection_id, None) is not None:
            self.counters.connections_closed[link.connection.listener] += 1

    def on_connect(self, connection: Connection, now_us: int) -> tuple[str, tuple[Hit, ...]]:
        """What the plan does with a new connection: "open", "close" or "reset"."""
        decision = self.plan.on_connect(connection, now_us)
        verdict = "open"
        for action in decision.actions:
            if isinstance(action, Close):
                verdict = "close"
            elif isinstance(action, Reset):
                verdict = "reset"
        return verdict, decision.hits

    def brokers_seen(self, node_ids: set[int]) -> None:
        self.ready = True
        self.directory.seen(node_ids)

    def struck(self, exchange: Exchange) -> None:
        self._capture.note_first_hits(exchange)

    def newer_versions(self, newer: list[Newer]) -> None:
        for each in newer:
            if each not in self._newer:
                self._newer.add(each)
                log.warning("%s", each)

    def wire_error(self, connection: Connection, error: WireError) -> None:
        self.counters.wire_errors[error.side or "client"] += 1
        log.warning(
            "connection %d (%s, %s): %s",
            connection.connection_id,
            connection.client_addr,
            connection.listener,
            error.sentence,
            exc_info=error.__cause__ if isinstance(error, OwnMistake) else None,
        )

    def _refused(self, rule: Rule, reason: str) -> None:
        """A rule can't be applied to what it means: say so, rather than do nothing."""
        detail = f"fault {rule.name} ({rule.fault.kind}) can't be applied: {reason}"
        log.warning("%s", detail)
        self.record(ConnectionEvent("fault", None, self.now_us(), detail))

    # ---- controls -------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerEndpoint]:
        """The brokers known so far, by node id."""
        return [entry for _, entry in sorted(self.directory.brokers.items())]

    def connections(self) -> list[dict[str, Any]]:
        """The open client connections, oldest first."""
        return [link.describe() for _, link in sorted(self._links.items())]

    def close_connection(self, connection_id: int, reset: bool = False) -> bool:
        """End one client connection, with RST when ``reset``; False when there is none of that id."""
        link = self._links.get(connection_id)
        if link is None:
            return False
        link.session.gone(self.clock.now_us(), "closed by request", reset=reset)
        return True

    def now_us(self) -> int:
        """The clock of every decision and every capture row, in µs since the epoch."""
        return self.clock.now_us()

    def plan_changed(self) -> None:
        """Let everything that waits on the plan look again. Call it after each change."""
        self._apply_standing()
        for link in list(self._links.values()):
            link.poke()

    @property
    def capture(self) -> CaptureWriter | None:
        """What records, or shows rows to whoever looks; None while nobody asks for either."""
        return self._capture.writer

    @contextlib.contextmanager
    def subscribe(self, accepts: Accepts | None = None) -> Generator[asyncio.Queue[dict[str, Any]]]:
        """A bounded queue that gets every capture row that ``accepts`` holds for while the context is open."""
        with self._capture.subscribe(accepts) as live:
            yield live

    async def notable(self) -> list[dict[str, Any]]:
        """The rows of the last exchanges that a fault touched or answered with an error, and of the last events."""
        return self._capture.notable()

    @property
    def capture_roots(self) -> list[str]:
        """Below which a recording may be asked for over HTTP."""
        configured = self.settings.capture
        return [*([] if configured is None else [configured]), *self.settings.capture_root]

    async def start_capture(self, directory: str | None, level: str | None) -> None:
        """Begin recording. Raises CaptureError (folder), ValueError (unknown level)."""
        target = directory or self.settings.capture
        if target is None:
            raise ValueError("no capture folder is configured: name one")
        await self._capture.start(target, self.settings.capture_level if level is None else Level(level))

    def give_up_capture(self) -> None:
        """Let a `stop` wait no longer for the recorder: what is no segment by now stays in its journal."""
        self._capture.give_up()

    async def stop_capture(self) -> None:
        """Flush and end the recording; nothing where there is none."""
        await self._capture.stop()

    def reload(self, settings: Settings) -> list[str]:
        """Take over the rules and the timeline of new settings, and certificates that changed on disk.

        Rules that stayed the same keep their counters, rules that were added over HTTP stay. Returns the names
        of settings that differ and need a restart. Raises FaultDocumentError before anything is changed.
        """
        faults, timeline = settings.parsed_faults(), settings.parsed_timeline()
        self._replace_rules(self.settings.parsed_faults(), faults)
        if settings.steps != self.settings.steps:
            self.timeline = None
            if timeline is not None:
                self.start_timeline(timeline)
        # Those two are drawn where nobody names them.
        drawn = {"seed", "proxy_id"} - settings.model_fields_set
        fixed = set(Settings.model_fields) - {"faults", "steps"} - drawn
        differing = sorted(name for name in fixed if getattr(settings, name) != getattr(self.settings, name))
        self.settings = self.settings.model_copy(update={"faults": settings.faults, "steps": settings.steps})
        self.tls.reload()
        self.plan_changed()
        return differing

    def _replace_rules(self, before: Iterable[Fault], after: Iterable[Fault]) -> None:
        """Those that are the same keep their counters; what came from elsewhere stays."""
        old, wanted = ({fault.name: fault for fault in faults if fault.name} for faults in (before, after))
        in_force = {rule.name for rule in self.plan.rules()}
        with self.plan.together():
            for name in (old.keys() - wanted.keys()) & in_force:
                self.plan.remove(name)
            for name, fault in wanted.items():
                if name not in in_force or fault != old.get(name):
                    self.plan.replace(name, fault, self.now_us())

    # ---- standing faults ------------------------------------------------------------------------

    def _apply_standing(self) -> None:
        """Make listeners and connections what the standing rules say, now and when that changes by itself."""
        now_us = self.now_us()
        for listener in list(self.directory.listeners.values()):
            self._apply_to_listener(listener)
        for link in list(self._links.values()):
            link.stand(self.plan.link(link.connection, now_us))
        if self._standing_timer is not None:
            self._standing_timer.cancel()
            self._standing_timer = None
        next_us = self.plan.next_change_us(now_us)
        if next_us is not None:
            delay_s = max(next_us - now_us, 0) / 1_000_000 + 0.001
            self._standing_timer = asyncio.get_running_loop().call_later(delay_s, self._apply_standing)

    def _soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._apply_standing)

    def _apply_to_listener(self, listener: Listener) -> None:
        state = self.plan.listener(listener.name, listener.node_id, self.now_us())
        if state.hits or state.fate != listener.fate:
            names = ", ".join(hit.rule_name for hit in state.hits)
            detail = f"listener {listener.name} is {state.fate}{names and f': {names}'}"
            self.record(ConnectionEvent("fault", None, self.now_us(), detail, state.hits))
        if state.fate != listener.fate:
            log.info("listener %s (port %d) is %s", listener.name, listener.port, state.fate)
            listener.fate = state.fate
            listener.update()

    # ---- the timeline ---------------------------------------------------------------------------

    def start_timeline(self, timeline: Timeline) -> None:
        """Run these steps from now on, in place of an earlier timeline."""
        self.timeline = timeline
        self._spawn(self._run_timeline())

    async def _run_timeline(self) -> None:
        if self.timeline is not None:
            await play(self.timeline, self.plan, self.now_us, self.plan_changed, lambda: self.timeline)


__all__ = ["CaptureError", "Proxy"]
