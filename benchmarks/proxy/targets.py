"""Something the load can be sent to: a proxy in front of the broker, or the broker itself."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.processes import own_rss_bytes, rss_bytes
from notleader.proxy.lab.ports import free_ports
from notleader.proxy.lab.process import Child

HOST = "127.0.0.1"
PORTS_EACH = 4  # proxies that know brokers open one more port for each
_READY_TIMEOUT_S = 30.0


def connections_to_hold(wanted: int) -> int:
    """As many as the limit on open files lets a proxy hold: it needs two for each."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, (hard - 500) // 2)


@dataclass(frozen=True, slots=True)
class Start:
    """How one target is started: its command, and what it needs on disk and in its environment."""

    argv: Sequence[str]
    env: Mapping[str, str] | None = None
    files: Mapping[str, str] = field(default_factory=dict)  # name in the working folder → text


@dataclass(frozen=True, slots=True)
class Target:
    """A proxy to measure. ``start(broker_port, listen_port, folder)`` says how; None is the broker itself.

    ``catches_up_on`` is the signal that has it do at once what it puts off. ``rewrites``: it puts its own address into
    what the broker says; for the others the broker itself has to advertise the proxy's. ``outdated`` says why it can't
    stand in front of a Kafka of today.
    """

    name: str
    version: str
    start: Callable[[int, int, Path], Start] | None
    catches_up_on: Signals | None = None
    rewrites: bool = False
    outdated: str = ""


DIRECT = Target("direct", "", None)


class Running:
    """A started target; ``address`` is where the load goes, ``pid`` None for the broker itself.

    It listens at ``port``, or at any that is free. Raises UnavailableError when it doesn't start.
    """

    def __init__(self, target: Target, broker_port: int, folder: Path, port: int | None = None) -> None:
        self.target = target
        self.address = f"{HOST}:{broker_port}"
        self._child: Child | None = None
        if target.start is None:
            return
        if port is None:
            port = free_ports(PORTS_EACH)[0]
        self.address = f"{HOST}:{port}"
        work = folder / target.name.replace("/", "-")
        work.mkdir(parents=True, exist_ok=True)
        start = target.start(broker_port, port, work)
        for name, text in start.files.items():
            (work / name).write_text(text)
        try:
            self._child = Child(start.argv, log=work / "log", env=start.env, cwd=work)
        except OSError as error:
            raise UnavailableError(f"{target.name}: {error.strerror or error}") from error
        self._wait(port)

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def rss_bytes(self) -> int:
        """Resident memory of the target's processes, 0 for the broker itself."""
        return 0 if self._child is None else rss_bytes(self._child.pid)

    @property
    def own_rss_bytes(self) -> int:
        """That of the first of them alone: without a proxy's recorder."""
        return 0 if self._child is None else own_rss_bytes(self._child.pid)

    def catch_up(self) -> bool:
        """Have it do what it puts off; whether it does that."""
        if self._child is None or self.target.catches_up_on is None:
            return False
        os.kill(self._child.pid, self.target.catches_up_on)
        return True

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        if self._child is not None:
            self._child.stop()

    def _wait(self, port: int) -> None:
        assert self._child is not None
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline and self._child.running():
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
                return
            time.sleep(0.05)
        lines = self._child.log.read_text(errors="replace").strip().splitlines()
        self._child.kill()
        raise UnavailableError(f"{self.target.name} did not start: {lines[-1] if lines else 'it said nothing'}")
