"""Rounds, in each of which all targets take turns with every workload, the broker itself among them."""

from __future__ import annotations

import contextlib
import json
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.processes import cpu_seconds, settle
from benchmarks.proxy.targets import DIRECT, HOST, Running, Target
from benchmarks.proxy.workloads import Workload
from notleader.proxy.lab.ports import free_ports
from notleader.proxy.lab.process import Child

SLOT_S = 0.5
_RUN_TIMEOUT_S = 120.0
_CATCH_UP_S = 1.0
_GB = 1e9

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sample:
    """One workload through one target in one round. ``cpu_s`` is the proxy's, over requests_in_all."""

    round: int
    workload: str
    target: str
    requests: int
    bytes: int
    seconds: float
    p50_us: float
    p99_us: float
    requests_in_all: int
    bytes_in_all: int
    cpu_s: float
    rss_bytes: int

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians of one workload through one target over all rounds."""

    workload: str
    target: str
    ratio: float
    added_p50_us: float
    added_p99_us: float
    cpu_us_per_request: float
    cpu_s_per_gb: float
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class Holding:
    """What a target's memory does: at 100 busy connections, and with many idle ones; `own`: its first process's."""

    target: str
    rss_at_start: int
    rss_at_100: int
    idle_connections: int
    rss_when_idle: int
    all_alive: bool
    own_rss_at_100: int

    @property
    def bytes_per_idle_connection(self) -> float:
        """What one more idle connection takes."""
        return (self.rss_when_idle - self.rss_at_100) / max(self.idle_connections - 100, 1)


@contextlib.contextmanager
def broker(program: Path, folder: Path) -> Generator[int]:
    """The broker that answers at once; gives its port."""
    port = free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="notleader-bench-") as logs:
        child = Child([str(program), "broker", f"-listen={HOST}:{port}"], log=Path(logs) / "broker.log", stdout="pipe")
        try:
            assert child.popen.stdout is not None
            if not child.popen.stdout.readline():
                raise UnavailableError(f"the fake broker did not start: {child.log.read_text()}")
            yield port
        finally:
            child.stop()


@contextlib.contextmanager
def started(targets: Iterable[Target], broker_port: int, folder: Path, say: Say) -> Generator[list[Running]]:
    """All targets that start, the broker itself first; the others are named with the reason."""
    running: list[Running] = []
    try:
        for target in (DIRECT, *targets):
            try:
                running.append(Running(target, broker_port, folder))
            except UnavailableError as error:
                say(f"skipped: {error}")
        yield running
    finally:
        for one in running:
            one.stop()


def measure(
    program: Path,
    targets: Sequence[Running],
    workloads: Sequence[Workload],
    *,
    rounds: int,
    duration_s: float,
    say: Say,
) -> list[Sample]:
    """All samples. In each round, all targets work on a workload by turns, ``duration_s`` each, for all see the same
    machine then; a shared one changes within seconds by more than what is to be seen.

    More than one round: an unrecorded one comes before, for compilers and caches that have to warm up.
    """
    samples: list[Sample] = []
    turns = max(1, round(duration_s / SLOT_S))
    warm_up_s = min(duration_s, 1.0) if rounds > 1 else 0.0
    slot_s = min(duration_s, SLOT_S)
    for number, workload, running, saw, cpu_s in by_turns(
        program, targets, workloads, rounds=rounds, turns=turns, slot_s=slot_s, warm_up_s=warm_up_s, say=say
    ):
        if isinstance(saw, UnavailableError):
            if running.pid is None:
                raise saw
            say(f"not measured: {workload.name} through {saw}")
            continue
        samples.append(
            Sample(
                round=number,
                workload=workload.name,
                target=running.target.name,
                requests=int(saw["requests"]),
                bytes=int(saw["bytes"]),
                seconds=saw["seconds"],
                p50_us=saw["p50_us"],
                p99_us=saw["p99_us"],
                requests_in_all=int(saw["total_requests"]),
                bytes_in_all=int(saw["total_bytes"]),
                cpu_s=cpu_s,
                rss_bytes=running.rss_bytes,
            )
        )
    return samples


class Turns(NamedTuple):
    """What the load saw through one target in one round, or why it saw nothing, and the target's CPU seconds."""

    round: int
    workload: Workload
    running: Running
    saw: dict[str, float] | UnavailableError
    cpu_s: float


def by_turns(
    program: Path,
    targets: Sequence[Running],
    workloads: Sequence[Workload],
    *,
    rounds: int,
    turns: int,
    slot_s: float,
    warm_up_s: float,
    say: Say,
) -> Iterator[Turns]:
    """Each round of each workload, target by target; before them all warm up, for so long with each workload."""
    if warm_up_s:
        for running in targets:
            say(f"warming up {running.target.name}")
            for workload in workloads:
                # What can't be carried is told in its round.
                with contextlib.suppress(UnavailableError):
                    load(program, workload.command(running.address, warm_up_s, 0.2), running.target.name)
    before = used_cpu_s(targets)
    for number in range(rounds):
        for workload in workloads:
            say(f"round {number + 1}/{rounds}: {workload.name}, {turns} turns of {len(targets)} targets")
            told = _take_turns(program, targets, workload, turns, slot_s, number)
            after = used_cpu_s(targets)
            for running, saw, since, until in zip(targets, told, before, after, strict=True):
                yield Turns(number, workload, running, saw, until - since)
            before = after


def used_cpu_s(targets: Sequence[Running]) -> list[float]:
    """CPU seconds of each (0 for the broker), once what is left to do is done too."""
    asked = [running.catch_up() for running in targets]
    if any(asked):
        time.sleep(_CATCH_UP_S)  # a disk that takes its time looks like nothing left to do
    for running in targets:
        if running.pid is not None:
            settle(running.pid)
    return [0.0 if running.pid is None else cpu_seconds(running.pid) for running in targets]


def _take_turns(
    program: Path, targets: Sequence[Running], workload: Workload, turns: int, slot_s: float, number: int
) -> list[dict[str, float] | UnavailableError]:
    """What the load saw through each target: all loads are there throughout, and one of them at a time asks.

    A turn that isn't measured comes before. Who follows whom changes from turn to turn, the same way each time in the
    round of this ``number``: what one does when its turn is over, it does while the next has its.
    """
    shuffled = Random(number)
    with contextlib.ExitStack() as stack:
        stack.enter_context(workload.placed())
        loads = [stack.enter_context(loading(program, workload.in_turns(running.address))) for running in targets]
        for turn in range(-1, turns):
            for process in shuffled.sample(loads, len(loads)):
                _take_turn(process, "warm" if turn < 0 else "go", slot_s)
        told: list[dict[str, float] | UnavailableError] = []
        for process, running in zip(loads, targets, strict=True):
            try:
                told.append(result_of(process, running.target.name))
            except UnavailableError as error:
                told.append(error)
        return told


def _take_turn(process: subprocess.Popen[str], begin: str, slot_s: float) -> None:
    """One turn, up to its last answer; a load that has failed lets it pass, and says why at its end."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(f"{begin}\n")
        process.stdin.flush()
        time.sleep(slot_s)
        process.stdin.write("stop\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], _RUN_TIMEOUT_S)[0]:
            process.kill()
        process.stdout.readline()


def load(program: Path, arguments: Sequence[str], target: str) -> dict[str, float]:
    """What the load program printed. Raises UnavailableError when it failed."""
    with loading(program, arguments) as process:
        return result_of(process, target)


@contextlib.contextmanager
def loading(program: Path, arguments: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    """The load program, running, with pipes to all it reads and says; at the end it is gone."""
    pipe = subprocess.PIPE
    with subprocess.Popen([str(program), *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def result_of(process: subprocess.Popen[str], target: str) -> dict[str, float]:
    """What the load program will print. Raises UnavailableError when it fails."""
    try:
        out, said = process.communicate(timeout=_RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{target}: no answer in {_RUN_TIMEOUT_S:.0f} s") from error
    if process.returncode:
        raise UnavailableError(f"{target}: {said.strip() or 'the load did not end'}")
    told: dict[str, float] = json.loads(out)
    return told


def figures(samples: Sequence[Sample]) -> list[Figures]:
    """Medians over the rounds; ratio and added latency are against direct in the same round."""
    direct = {(s.round, s.workload): s for s in samples if s.target == DIRECT.name}
    groups: dict[tuple[str, str], list[Sample]] = {}
    for one in samples:
        if one.target != DIRECT.name and (one.round, one.workload) in direct:
            groups.setdefault((one.workload, one.target), []).append(one)
    return [
        Figures(
            workload=workload,
            target=target,
            ratio=statistics.median(s.rate / direct[s.round, workload].rate for s in group),
            added_p50_us=statistics.median(s.p50_us - direct[s.round, workload].p50_us for s in group),
            added_p99_us=statistics.median(s.p99_us - direct[s.round, workload].p99_us for s in group),
            cpu_us_per_request=statistics.median(s.cpu_s / s.requests_in_all * 1e6 for s in group),
            cpu_s_per_gb=statistics.median(s.cpu_s / s.bytes_in_all * _GB for s in group),
            rss_bytes=int(statistics.median(s.rss_bytes for s in group)),
        )
        for (workload, target), group in groups.items()
    ]


def hold(program: Path, target: Target, broker_port: int, folder: Path, connections: int) -> Holding:
    """A fresh process of the target, 100 busy connections, then many idle ones. Raises UnavailableError."""
    running = Running(target, broker_port, folder)
    try:
        at_start = running.rss_bytes
        busy = ["run", f"-target={running.address}", "-connections=100", "-duration=1s"]
        load(program, busy, target.name)
        with _held(program, running.address, 100):
            at_100, own_at_100 = running.rss_bytes, running.own_rss_bytes
        with _held(program, running.address, connections) as idle:
            when_idle = running.rss_bytes
            alive = idle()
    finally:
        running.stop()
    return Holding(target.name, at_start, at_100, connections, when_idle, alive, own_at_100)


@contextlib.contextmanager
def _held(program: Path, address: str, connections: int) -> Generator[Callable[[], bool]]:
    """Idle connections; the callable ends them and says whether each still answered."""
    with loading(program, ["hold", f"-target={address}", f"-connections={connections}"]) as process:
        assert process.stdout is not None
        assert process.stderr is not None

        def alive() -> bool:
            try:
                process.communicate(timeout=_RUN_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                return False
            return process.returncode == 0

        if not process.stdout.readline():
            raise UnavailableError(f"{connections} connections to {address}: {process.stderr.read().strip()}")
        yield alive
