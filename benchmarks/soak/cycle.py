"""One cycle of churn, and a look at the proxy once it is at rest."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.processes import rss_bytes, settle
from benchmarks.proxy.targets import HOST
from benchmarks.proxy.workloads import WORKLOADS
from notleader.proxy.lab.process import Child

_RUN_TIMEOUT_S = 60.0
_BROKER_AWAY_S = 0.5
# Until the last segment is finished (a second), and the memory that took is given back (every five at most).
_AT_REST_S = 8.0
# What touches the load: each is hit, runs out or is removed again before the proxy is looked at.
_FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": {"api_key": "Produce"}},
    {"kind": "delay", "delay_ms": 20, "match": {"api_key": "Fetch"}},
    {"kind": "close", "match": {"api_key": "Heartbeat"}},
    {"kind": "reset", "match": {"api_key": "Metadata"}},
    {"kind": "drop_response", "match": {"api_key": "Produce"}},
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The proxy at rest after one cycle; ``requests`` and ``reconnects`` are that cycle's own."""

    at_s: float
    rss_bytes: int
    descriptors: int
    threads: int
    requests: int
    reconnects: int


class Broker:
    """The fake broker; killed and started again at the same port."""

    def __init__(self, program: Path, port: int, folder: Path) -> None:
        self._argv = [str(program), "broker", f"-listen={HOST}:{port}"]
        self._log = folder / "broker.log"
        self._child = self._start()

    def restart(self) -> None:
        """Killed with all its connections, away for a moment, back."""
        self._child.kill()
        time.sleep(_BROKER_AWAY_S)
        self._child = self._start()

    def stop(self) -> None:
        """End it."""
        self._child.stop()

    def _start(self) -> Child:
        child = Child(self._argv, log=self._log, stdout="pipe")
        assert child.popen.stdout is not None
        child.popen.stdout.readline()
        return child


class Soak:
    """A running proxy under churn; ``admin`` is the address of its HTTP API."""

    def __init__(self, program: Path, broker: Broker, pid: int, target: str, admin: str, *, seed: int) -> None:
        self._program = program
        self._broker = broker
        self._pid = pid
        self._target = target
        self._http = httpx.Client(base_url=f"http://{admin}", timeout=10)
        self._random = random.Random(seed)
        self._started = time.monotonic()

    def cycle(self, duration_s: float) -> Sample:
        """Every workload for its share of ``duration_s`` seconds, with faults, and a broker restart in one of them.

        Raises UnavailableError when the load could not run at all.
        """
        requests = reconnects = 0
        share_s = duration_s / len(WORKLOADS)
        restarted = self._random.choice(WORKLOADS)
        for workload in WORKLOADS:
            with workload.placed(), self._faults():
                argv = [str(self._program), *workload.command(self._target, share_s, 0.05), "-reconnect"]
                run = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                if workload is restarted:
                    time.sleep(share_s / 2)
                    self._broker.restart()
                said, complaint = run.communicate(timeout=_RUN_TIMEOUT_S)
            if run.returncode:
                raise UnavailableError(f"{workload.name}: {complaint.strip()}")
            counts = json.loads(said)
            requests += counts["total_requests"]
            reconnects += counts["reconnects"]
        settle(self._pid, at_least_s=_AT_REST_S)
        return self._sample(requests, reconnects)

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Some faults while the block runs."""
        names = []
        for fault in self._random.sample(_FAULTS, 2):
            trigger = {"skip": self._random.randrange(200), "times": self._random.randrange(1, 4)}
            answer = self._http.post("/v1/faults", json={**fault, "trigger": trigger})
            answer.raise_for_status()
            names.append(answer.json()["name"])
        try:
            yield
        finally:
            for name in names:
                self._http.delete(f"/v1/faults/{name}")

    def _sample(self, requests: int, reconnects: int) -> Sample:
        process = Path("/proc") / str(self._pid)
        return Sample(
            at_s=round(time.monotonic() - self._started, 1),
            rss_bytes=rss_bytes(self._pid),
            descriptors=len(os.listdir(process / "fd")),
            threads=len(os.listdir(process / "task")),
            requests=requests,
            reconnects=reconnects,
        )
