"""The control plane: a proxy whose connections live in other processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Generator
from functools import partial
from itertools import chain, count
from operator import itemgetter
from typing import Any, Final

from notleader.faults.plan import Plan
from notleader.faults.schema import Problem
from notleader.proxy.config.settings import ConfigError, Settings
from notleader.proxy.control.workers.answers import Answers
from notleader.proxy.control.workers.channel import Answering, News, Orders
from notleader.proxy.control.workers.listening import SharedListener
from notleader.proxy.control.workers.memory import PLAN, Changes
from notleader.proxy.control.workers.messages import Start, WorkerReport
from notleader.proxy.control.workers.recorders import Recorders
from notleader.proxy.net.capture import ProxyCapture
from notleader.proxy.net.directory import Listener, Opened
from notleader.proxy.net.server import Proxy
from notleader.proxy.record import helpers
from notleader.proxy.record.live import Accepts

log = logging.getLogger("notleader")

_START_S: Final = 60.0
_ANSWER_S: Final = 10.0
_STOP_S: Final = 60.0


class WorkerLostError(ChildProcessError):
    """A worker ended by itself, or does not answer."""


class CountedPlan(Plan):
    """A plan whose every change is seen at once by all who share the memory."""

    def __init__(self, counts: memoryview, settings: Settings) -> None:
        self._counts = counts
        super().__init__(settings.seed, settings.parsed_faults())

    @property
    def generation(self) -> int:
        return int(self._counts[PLAN])

    @generation.setter
    def generation(self, generation: int) -> None:
        self._counts[PLAN] = generation


class _Process:
    """One worker, as its control plane knows it."""

    def __init__(self, number: int, plane: ControlPlane) -> None:
        self.number = number
        self.answers = Answers(plane)
        self.ready = asyncio.get_running_loop().create_future()
        self.report: WorkerReport | None = None
        self.process: asyncio.subprocess.Process | None = None
        self._plane = plane
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._orders: Orders | None = None
        self._transports: list[asyncio.BaseTransport] = []

    async def start(self) -> None:
        """Start the process; it is there once `ready` is done."""
        loop = asyncio.get_running_loop()
        questions = socket.socketpair()
        news = socket.socketpair()
        orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders = Orders(orders[0])
        for sock, protocol in ((questions[0], Answering(self._answer)), (news[0], News(self._hear))):
            transport, _ = await loop.create_unix_connection(partial(_same, protocol), sock=sock)
            self._transports.append(transport)
        theirs = [questions[1].fileno(), orders[1].fileno(), news[1].fileno(), self._plane.changes.descriptor]
        self.process = await asyncio.create_subprocess_exec(
            *helpers.command("notleader.proxy.control.workers.worker", *map(str, theirs)),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=theirs,
            env=helpers.environment(),
        )
        for pair in (questions, orders, news):
            pair[1].close()

    @property
    def pid(self) -> int:
        return -1 if self.process is None else self.process.pid

    def _answer(self, what: str, *arguments: Any) -> Any:
        if what == "start":
            plane = self._plane
            level = log.getEffectiveLevel()
            return Start(plane.settings, self.number, plane.run_id, plane.clock.offset_ns, level)
        return self.answers(what, *arguments)

    def _hear(self, what: str, *arguments: Any) -> None:
        if what == "done":
            number, result = arguments
            future = self._open.pop(number, None)
            if future is not None and not future.done():
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        elif what == "opened":
            self.answers.open.add(arguments[0])
        elif what == "closed":
            self.answers.closed(arguments[0])
        elif what == "log":
            (record,) = arguments
            logger = logging.getLogger(record.name)
            if logger.isEnabledFor(record.levelno):
                logger.handle(record)
        elif what == "rows":
            self._plane.rows_came(*arguments)
        elif not self.ready.done():
            self.ready.set_result(None)

    def order(self, what: str, *arguments: object, descriptors: tuple[int, ...] = ()) -> asyncio.Future[Any]:
        """Have it do something; the future is done when it was done."""
        number = next(self._numbers)
        future = self._open[number] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_seen)
        if self._orders is None:
            future.set_exception(WorkerLostError(f"worker {self.number} is gone"))
        else:
            self._orders.send(number, what, arguments, descriptors)
        return future

    def open_orders(self) -> list[asyncio.Future[Any]]:
        """What it has not done yet."""
        return [future for future in self._open.values() if not future.done()]

    def gone(self, reason: str) -> None:
        """It is no more: nothing more will be done."""
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        for transport in self._transports:
            transport.close()
        for future in (*self._open.values(), self.ready):
            if not future.done():
                future.set_exception(WorkerLostError(reason))
        self._open.clear()
        self.answers = Answers(self._plane)


class ControlPlane(Proxy):
    """A proxy in `settings.workers` processes and this one, which decides.

    To be used as any proxy; what it says of connections and counters is as of the last `gather`, and what it was told
    to do to connections is done everywhere once `settled` returns. When a worker ends by itself, all end: `lost` says
    why then, and `stopped` is set. Raises ConfigError where workers can't share a port.
    """

    def __init__(self, settings: Settings) -> None:
        if sys.platform != "linux":
            raise ConfigError([Problem("workers", "more than one needs Linux, whose kernel spreads connections")])
        self.changes = Changes.made()
        self._processes: list[_Process] = []
        self._watchers: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._latest_us = 0
        self._readers = 0
        self._ending: asyncio.Task[None] | None = None
        self.lost: str | None = None
        self.stopped = asyncio.Event()
        super().__init__(settings)

    def _make_plan(self) -> Plan:
        return CountedPlan(self.changes.counts, self.settings)

    def _make_capture(self, **how: Any) -> ProxyCapture:
        return super()._make_capture(make=partial(Recorders, self), **how)

    def _opener(self) -> Opened:
        return partial(SharedListener, workers=self.settings.workers)

    # ---- start and stop -------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the workers, and then what any proxy starts. Raises WorkerLostError too."""
        try:
            for number in range(1, self.settings.workers + 1):
                process = _Process(number, self)
                self._processes.append(process)
                await process.start()
                watcher = asyncio.get_running_loop().create_task(self._watch_over(process))
                self._watchers.add(watcher)
                watcher.add_done_callback(self._watchers.discard)
            try:
                async with asyncio.timeout(_START_S):
                    for process in self._processes:
                        await process.ready
            except TimeoutError:
                raise WorkerLostError(f"the workers did not start within {_START_S:.0f} s") from None
        except BaseException:
            await self.stop()
            raise
        await super().start()
        try:
            await self.settled()
        except BaseException:
            await self.stop()
            raise
        log.info("%d workers: %s", len(self._processes), ", ".join(f"pid {pid}" for pid in self.worker_pids()))

    def worker_pids(self) -> list[int]:
        """The processes that carry the traffic."""
        return [process.pid for process in self._processes]

    async def _watch_over(self, worker: _Process) -> None:
        assert worker.process is not None
        status = await worker.process.wait()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        reason = f"worker {worker.number} (pid {worker.pid}) {how}"
        if not self._stopping:
            self.lost = self.lost or reason
            log.error("%s: its connections are gone, and the proxy ends", reason)
        worker.gone(reason)
        if not self._stopping:
            # Not the watcher's to wait for: stopping waits for the watchers.
            self._ending = asyncio.get_running_loop().create_task(self.stop())

    async def stop(self) -> None:
        """Stop listening, have every worker end its connections and its capture. Harmless when called twice."""
        first, self._stopping = not self._stopping, True
        if first:
            self.directory.close()
            for process in self._processes:
                process.order("stop")
        try:
            async with asyncio.timeout(_STOP_S):
                await asyncio.gather(*self._watchers)
        except TimeoutError:
            for process in self._processes:
                if process.process is not None and process.process.returncode is None:
                    log.error("worker %d (pid %d) doesn't end: killed", process.number, process.pid)
                    process.process.kill()
            await asyncio.gather(*self._watchers)
        await super().stop()
        self.stopped.set()

    # ---- the workers ----------------------------------------------------------------------------

    def _order_all(self, what: str, *arguments: object) -> list[asyncio.Future[Any]]:
        return [process.order(what, *arguments) for process in self._processes]

    async def obeyed(self, what: str, *arguments: object) -> list[Any]:
        """Have all workers do something, and wait until all have; the first error is raised."""
        return await asyncio.gather(*self._order_all(what, *arguments))

    async def settled(self) -> None:
        """Return once all workers have done what they were told so far. Raises WorkerLostError."""
        for process in self._processes:
            waiting = process.open_orders()
            if waiting:
                _, undone = await asyncio.wait(waiting, timeout=_ANSWER_S)
                if undone:
                    raise WorkerLostError(f"worker {process.number} (pid {process.pid}) does not answer")
        if self.lost is not None:
            raise WorkerLostError(self.lost)

    async def gather(self, *, connections: bool = False) -> None:
        """Have the workers say how it goes: counters, recorders and, where wanted, connections."""
        orders = [(process, process.order("tell", connections)) for process in self._processes]
        if not orders:
            return
        await asyncio.wait([future for _, future in orders], timeout=_ANSWER_S)
        for process, future in orders:
            if future.done() and future.exception() is None:
                report: WorkerReport = future.result()
                self.counters.absorb(report.counters, None if process.report is None else process.report.counters)
                process.report = report

    def recorders(self) -> list[dict[str, Any]]:
        """The status of each worker's recorder, as last reported."""
        reports = [process.report for process in self._processes]
        return [each.capture for each in reports if each is not None and each.capture is not None]

    # ---- what workers ask -----------------------------------------------------------------------

    def numbered(self) -> int:
        """The number of a new connection of some worker, among all."""
        self._accepted += 1
        return self._accepted

    def latest(self, now_us: int) -> int:
        """The plan's time: that of the worker who asks, and never earlier than the last that was asked for."""
        self._latest_us = max(self._latest_us, now_us)
        return self._latest_us

    # ---- what is different with workers ---------------------------------------------------------

    def _serve(self, listener: Listener) -> None:
        assert isinstance(listener, SharedListener)
        for process, sock in zip(self._processes, listener.sockets, strict=True):
            process.order("serve", listener.name, listener.node_id, descriptors=(sock.fileno(),))
        asyncio.get_running_loop().call_soon(self._apply_to_listener, listener)

    def _apply_standing(self) -> None:
        super()._apply_standing()
        if not self._stopping:
            self._order_all("changed")

    def connections(self) -> list[dict[str, Any]]:
        """The open client connections as of the last `gather`, oldest first."""
        reports = [process.report for process in self._processes]
        theirs = [connection for each in reports if each is not None for connection in each.connections]
        return sorted([*super().connections(), *theirs], key=lambda connection: int(connection["connection_id"]))

    def close_connection(self, connection_id: int, reset: bool = False) -> bool:
        """End one client connection, with RST when ``reset``; False when there is none of that id."""
        for process in self._processes:
            if connection_id in process.answers.open:
                process.order("close_connection", connection_id, reset)
                return True
        return super().close_connection(connection_id, reset)

    def reload(self, settings: Settings) -> list[str]:
        """Take over new rules, a new timeline, new certificates; the names of settings that need a restart."""
        differing = super().reload(settings)
        self._order_all("reload_certificates")
        return differing

    # ---- capture --------------------------------------------------------------------------------

    async def start_capture(self, directory: str | None, level: str | None) -> None:
        """Begin recording, everywhere. Raises CaptureError (folder), ValueError (unknown level)."""
        await super().start_capture(directory, level)
        try:
            await self.obeyed("start_capture", directory, level)
        except BaseException:
            await self.stop_capture()
            raise

    async def stop_capture(self) -> None:
        """Flush and end the recording, everywhere."""
        if not self._stopping and self.capture is not None:
            await self.obeyed("stop_capture")
        await super().stop_capture()

    @contextlib.contextmanager
    def subscribe(self, accepts: Accepts | None = None) -> Generator[asyncio.Queue[dict[str, Any]]]:
        """A bounded queue of every worker's rows that ``accepts`` holds for while the context is open."""
        with super().subscribe(accepts) as live:
            self._readers += 1
            if self._readers == 1:
                self._order_all("watch", True)
            try:
                yield live
            finally:
                self._readers -= 1
                if not self._readers:
                    self._order_all("watch", False)

    async def notable(self) -> list[dict[str, Any]]:
        """What every worker has of that, oldest first."""
        found = [await super().notable(), *await self.obeyed("notable")]
        return sorted(chain.from_iterable(found), key=itemgetter("request_at_us"))

    def rows_came(self, rows: list[dict[str, Any]], lost: int) -> None:
        """Rows that a worker made, for whoever looks; ``lost`` is how many it could not send before them."""
        if isinstance(self.capture, Recorders):
            self.capture.offer(rows, lost)


def _same(protocol: asyncio.Protocol) -> asyncio.Protocol:
    return protocol


def _seen(future: asyncio.Future[Any]) -> None:
    """Nobody has to look at how an order ended: a worker that is gone is said elsewhere."""
    if not future.cancelled():
        future.exception()
