"""The recorder's process, as the proxy sees it: started, listened to, started again when it ends, and ended.

What is said is one JSON value a line over a pair of sockets; see `notleader.proxy.recorder.service` for the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any, Final

from notleader.proxy.record import helpers
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.record.where import Where

log = logging.getLogger("notleader.capture")

_READY_S: Final = 60.0
_QUIET_S: Final = 3.0
"""After so long it is said what a start waits for."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 30.0
_HEALTHY_S: Final = 60.0
_MOMENT_S: Final = 1.0
"""One that doesn't hang ends within that."""
_SILENT_S: Final = 120.0
"""A recorder that says nothing for so long hangs, and is started again: it says something every second."""


class RecorderProcess:
    """Runs a recorder for a job (a JSON value); ``heard`` is called in the loop with each thing that it says."""

    def __init__(self, job: dict[str, Any], heard: Callable[[dict[str, Any]], None]) -> None:
        self._job = job
        self._heard = heard
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._ending = False
        self._hurry = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    async def start(self, *, wait: bool) -> None:
        """Start it; with ``wait``, return once it can use the capture's place. Raises CaptureError, OSError."""
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        reader = await self._spawn()
        self._keeping = loop.create_task(self._keep(reader))
        if not wait:
            return
        try:
            async with asyncio.timeout(_READY_S):
                if not (await asyncio.wait([self._ready], timeout=_QUIET_S))[0]:
                    place = Where.of(self._job["place"]).shown
                    log.warning("waiting for the capture's place to answer, for %.0f s at most: %s", _READY_S, place)
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.finish(0)
            raise CaptureError(f"the recorder could not reach the capture's place in {_READY_S:.0f} s") from None
        except BaseException:
            await self.finish(0)
            raise

    def wake(self) -> None:
        """Have it look at once, rather than in a moment."""
        self._say("look")

    async def finish(self, timeout_s: float, given_up: asyncio.Event | None = None) -> bool:
        """Have it finish what is there and end; killed when it hasn't by then, or a moment after it is `given_up`.

        Whether it ended by itself.
        """
        self._ending = True
        self._hurry.set()
        self._say("finish")
        keeping = self._keeping
        if keeping is None:
            return True
        giving_up = asyncio.ensure_future((given_up or asyncio.Event()).wait())
        done, _ = await asyncio.wait([keeping, giving_up], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        giving_up.cancel()
        if giving_up in done:
            done, _ = await asyncio.wait([keeping], timeout=_MOMENT_S)
        if keeping in done:
            return True
        self._kill()
        await asyncio.wait([keeping])
        return False

    # ---- inside ---------------------------------------------------------------------------------

    async def _spawn(self) -> asyncio.StreamReader:
        ours, theirs = socket.socketpair()
        try:
            environment = {
                "ARROW_DEFAULT_MEMORY_POOL": "system",  # its own allocators keep several MiB of their own
                **helpers.environment(),
            }
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                helpers.command("notleader.proxy.recorder", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                process_group=0,  # what a terminal sends is the proxy's to obey
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=16 << 20)
        self._writer.write(json.dumps(self._job).encode() + b"\n")
        return reader

    async def _keep(self, reader: asyncio.StreamReader) -> None:
        """Listen to it, and start it again whenever it ends without having been told to."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            await self._listen(reader)
            status = await self._ended()
            if self._ending:
                return
            assert self._ready is not None
            if self._ready.done() and self._ready.exception() is not None:
                return
            if time.monotonic() - began > _HEALTHY_S:
                pause_s = _FIRST_PAUSE_S
            log.warning("the recorder %s; it goes on from the journal in %.1f s", status, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                reader = await self._spawn()
                if self._ending:
                    self._say("finish")
            except OSError as error:
                log.error("the recorder can't be started: %s", error)
                reader = asyncio.StreamReader()
                reader.feed_eof()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                async with asyncio.timeout(_SILENT_S):
                    line = await reader.readline()
            except TimeoutError:
                log.error("the recorder (pid %s) has said nothing for %.0f s: killed", self.pid, _SILENT_S)
                self._kill()
                continue
            except (OSError, ValueError):
                return
            if not line:
                return
            with contextlib.suppress(ValueError):
                self._hear(json.loads(line))

    def _hear(self, said: dict[str, Any]) -> None:
        assert self._ready is not None
        if "log" in said:
            log.log(logging.getLevelNamesMapping().get(said["level"], logging.INFO), "%s", said["log"])
        elif "refused" in said:
            if not self._ready.done():
                self._ready.set_exception(CaptureError(said["refused"]))
            else:
                log.error("the recorder can't go on: %s", said["refused"])
        else:
            if "ready" in said and not self._ready.done():
                self._ready.set_result(None)
            self._heard(said)

    async def _ended(self) -> str:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        process, self._process = self._process, None
        if process is None:
            return "could not be started"
        status = await asyncio.to_thread(process.wait)
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"(pid {process.pid}) {how}"

    def _say(self, what: str) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(what).encode() + b"\n")

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()
