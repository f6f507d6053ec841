"""A worker: a proxy whose plan, ports and numbers are the control plane's. Started by it, as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import logging.handlers
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import uvloop

from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.proxy.control.logs import log_to
from notleader.proxy.control.workers.channel import Questions, framed, take_order
from notleader.proxy.control.workers.listening import Accepting
from notleader.proxy.control.workers.memory import DIRECTORY, Changes
from notleader.proxy.control.workers.messages import Start, WorkerReport
from notleader.proxy.control.workers.plan import RemotePlan
from notleader.proxy.net.announced import AnnouncedServer
from notleader.proxy.net.capture import ProxyCapture
from notleader.proxy.net.clock import Clock
from notleader.proxy.net.directory import advertised_host
from notleader.proxy.net.lag import sample_loop_lag
from notleader.proxy.net.server import Proxy
from notleader.proxy.net.transport import Link
from notleader.proxy.record.memory import give_back
from notleader.proxy.wire.endpoint import Endpoint

log = logging.getLogger("notleader")

_LOOK_S: Final = 1.0
_MOST_UNSENT_BYTES: Final = 16 << 20
_ROWS_AT_ONCE: Final = 256


class _LogOfAll(logging.handlers.QueueHandler):
    """Has log records written where the control plane's are; from any thread."""

    def __init__(self, tell: Callable[..., None]) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self._tell = tell
        self._loop = asyncio.get_running_loop()

    def enqueue(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self._tell, "log", record)


class Worker(Proxy):
    """The connections of one process. It asks, takes orders, and tells what it did."""

    def __init__(self, start: Start, ask: Questions, changes: Changes, orders: socket.socket) -> None:
        self._ask = ask
        self._changes = changes
        settings = start.settings.model_copy(
            update={"workers": 1, "proxy_id": f"{start.settings.proxy_id}-w{start.number}", "faults": [], "steps": []}
        )
        super().__init__(settings, start.run_id)
        self.clock = Clock(start.clock_offset_ns)
        self.ended = asyncio.Event()
        self._log_level = start.log_level
        self._orders = orders
        self._news: asyncio.WriteTransport | None = None
        self._ports: dict[tuple[int, str, int], int] = {}
        self._ports_at = -1
        self._accepting: dict[str, Accepting | AnnouncedServer] = {}
        self._watching: asyncio.Task[None] | None = None
        self._obeying: set[asyncio.Task[None]] = set()

    def _make_plan(self) -> Plan:
        return RemotePlan(self._ask, self._changes.counts, self.settings.seed)

    def _make_capture(self, **how: Any) -> ProxyCapture:
        # Its journals are followed by the recorder of its control plane.
        return super()._make_capture(with_recorder=False, **how)

    @property
    def _remote(self) -> RemotePlan:
        return cast(RemotePlan, self.plan)

    async def run(self, news: socket.socket) -> None:
        """Take orders until told to stop, or until the control plane is gone."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(asyncio.Protocol, sock=news)
        self._news = transport
        logging.basicConfig(level=self._log_level, format="%(message)s", handlers=[_LogOfAll(self._tell)], force=True)
        self._orders.setblocking(False)
        loop.add_reader(self._orders.fileno(), self._take_orders)
        self._spawn(sample_loop_lag(self.counters))
        self._spawn(self._look_at_certificates())
        self._tell("ready")
        gc.collect()
        give_back()
        gc.freeze()
        await self.ended.wait()
        transport.close()
        await asyncio.sleep(0)

    async def _look_at_certificates(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self.tls.reload()

    def _tell(self, what: str, *arguments: object) -> None:
        if self._news is not None and not self._news.is_closing():
            self._news.write(framed((what, *arguments)))

    # ---- orders ---------------------------------------------------------------------------------

    def _take_orders(self) -> None:
        while True:
            try:
                taken = take_order(self._orders)
            except BlockingIOError:
                return
            except OSError:
                taken = None
            if taken is None:
                asyncio.get_running_loop().remove_reader(self._orders.fileno())
                self._obey(-1, self.order_stop())
                return
            (number, what, arguments), descriptors = taken
            order = getattr(self, f"order_{what}")
            try:
                result = order(*arguments, *descriptors)
            except Exception as error:
                log.exception("a worker can't %s", what)
                self._tell("done", number, error)
                continue
            if isinstance(result, Awaitable):
                self._obey(number, result)
            else:
                self._tell("done", number, result)

    def _obey(self, number: int, work: Awaitable[object]) -> None:
        task = asyncio.get_running_loop().create_task(self._obeyed(number, work))
        self._obeying.add(task)
        task.add_done_callback(self._obeying.discard)

    async def _obeyed(self, number: int, work: Awaitable[object]) -> None:
        try:
            result = await work
        except Exception as error:  # the control plane's to handle: it gave the order
            result = error
        self._tell("done", number, result)

    def order_serve(self, name: str, node_id: int | None, descriptor: int) -> None:
        """Accept the connections of a listener."""
        before = self._accepting.pop(name, None)
        if before is not None:
            before.close()
        listening = socket.socket(fileno=descriptor)
        welcome, has_header = partial(self._accepted_by, name, node_id), self.settings.proxy_protocol
        if has_header or self.tls.listen is not None:
            self._accepting[name] = AnnouncedServer(
                listening, welcome, self.tls.listen, self._turned_away, has_header=has_header
            )
        else:
            self._accepting[name] = Accepting(listening, welcome)

    def order_changed(self) -> None:
        """The plan has changed: look again."""
        self.plan_changed()

    def order_close_connection(self, connection_id: int, reset: bool) -> None:
        """End one connection."""
        self.close_connection(connection_id, reset)

    def order_tell(self, with_connections: bool) -> WorkerReport:
        """Say how it goes."""
        capture = None if self.capture is None else self.capture.status()
        return WorkerReport(self.counters, capture, self.connections() if with_connections else [])

    async def order_start_capture(self, directory: str | None, level: str | None) -> None:
        """Begin recording."""
        await self.start_capture(directory, level)
        self.order_watch(self._watching is not None)

    async def order_stop_capture(self) -> None:
        """End recording."""
        await self.stop_capture()
        self.order_watch(self._watching is not None)

    async def order_rotate(self) -> None:
        """Finish the segment at hand."""
        if self.capture is not None:
            await self.capture.rotate()

    async def order_notable(self) -> list[dict[str, Any]]:
        """Send what is remembered of the exchanges until now."""
        return await self.notable()

    def order_watch(self, on: bool) -> None:
        """Send every row from now on, or no longer."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if on:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    def order_reload_certificates(self) -> None:
        """Read certificates again where they changed."""
        self.tls.reload()

    async def order_stop(self) -> None:
        """End everything, and then the process."""
        for accepting in self._accepting.values():
            accepting.close()
        await self.stop()
        if self._watching is not None:
            for _ in range(2):  # the last rows: into the queue, and from there
                await asyncio.sleep(0)
            self._watching.cancel()
        asyncio.get_running_loop().call_soon(self.ended.set)

    async def _watch(self) -> None:
        skipped = 0
        with self.subscribe() as queue:
            while True:
                rows = [await queue.get()]
                while not queue.empty() and len(rows) < _ROWS_AT_ONCE:
                    rows.append(queue.get_nowait())
                assert self._news is not None
                if self._news.get_write_buffer_size() > _MOST_UNSENT_BYTES:
                    skipped += len(rows)
                    continue
                self._tell("rows", rows, skipped)
                skipped = 0

    # ---- what is the control plane's ------------------------------------------------------------

    def _accepted_by(self, name: str, node_id: int | None, client_addr: str | None = None) -> Link:
        return Link(self, self._connection(name, node_id, client_addr))

    def _connection(self, listener: str, node_id: int | None, client_addr: str | None = None) -> Connection:
        number = self._ask("accepted")
        return Connection(number, number, listener, node_id, client_addr or "")

    def advertised(self, link: Link, node_id: int, host: str, port: int) -> tuple[str, int]:
        """The address under which this client reaches that broker through the proxy."""
        if self._ports_at != self._changes.counts[DIRECTORY]:
            self._ports_at = self._changes.counts[DIRECTORY]
            self._ports.clear()
        key = node_id, host, port
        listen_port = self._ports.get(key)
        if listen_port is None:
            listen_port = self._ports[key] = self._ask("endpoint", *key)
        return advertised_host(self.settings, link.local_host), listen_port

    async def dial_node(self, node_id: int, protocol: asyncio.Protocol) -> None:
        """Connect to one broker of the cluster. Raises OSError."""
        found = self._ask("broker", node_id)
        if found is None:
            raise ConnectionError(f"no broker {node_id} is known")
        await self._dialer.first_of([Endpoint(*found)], protocol)

    def brokers_seen(self, node_ids: set[int]) -> None:
        """Nothing: the control plane has learned it already."""

    def uniform(self, low: float, high: float) -> float:
        """A random number of the one stream."""
        number: float = self._ask("uniform", low, high)
        return number

    def opened(self, link: Link) -> None:
        """A connection is there, for the control plane too."""
        super().opened(link)
        self._tell("opened", link.connection.connection_id)

    def closed(self, link: Link) -> None:
        """A connection is over, likewise."""
        super().closed(link)
        self._tell("closed", link.connection.connection_id)

    def _apply_standing(self) -> None:
        links = list(self._links.values())
        states = self._remote.links([link.connection for link in links], self.now_us())
        for link, state in zip(links, states, strict=True):
            link.stand(state)


def main() -> None:
    """Be a worker, on the descriptors named on the command line."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to everybody; the control plane says what to do
    questions, orders, news, memory = (int(argument) for argument in sys.argv[1:5])
    ask = Questions(socket.socket(fileno=questions))
    start: Start = ask("start")
    log_to(start.settings.log_format, start.log_level)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_run(start, ask, Changes(memory), socket.socket(fileno=orders), socket.socket(fileno=news)))


async def _run(start: Start, ask: Questions, changes: Changes, orders: socket.socket, news: socket.socket) -> None:
    await Worker(start, ask, changes, orders).run(news)


if __name__ == "__main__":
    main()
