"""The same targets in front of a real broker, under Kafka's own performance tools."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.rounds import Say, used_cpu_s
from benchmarks.proxy.targets import DIRECT, HOST, PORTS_EACH, Running, Target
from notleader.proxy.lab import jars
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.ports import free_ports

TOPIC = "bench"
"""Filled once, and consumed."""
PRODUCED = "bench-produced"
"""What each produce run writes to; the broker keeps little of it, or a page's worth of runs would fill a disk."""
RECORD_BYTES = 1024
_KEEPS_LITTLE = {"retention.bytes": str(1 << 28), "segment.bytes": str(1 << 26), "file.delete.delay.ms": "0"}
_TOOL_TIMEOUT_S = 180.0
_GB = 1e9
_TOOLS = "org.apache.kafka.tools."


@dataclass(frozen=True, slots=True)
class RealSample:
    """One tool run. ``value`` is records per second, or µs for the end-to-end latency; ``bytes`` 0 there.

    ``bytes`` and ``records`` are all that went through, those of a warm-up included, as ``cpu_s`` is.
    """

    round: int
    workload: str
    target: str
    value: float
    bytes: int
    records: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class RealFigures:
    """Medians; ``ratio`` is throughput over direct, for end-to-end the inverse ratio of the latencies."""

    workload: str
    target: str
    ratio: float
    added_us: float | None
    cpu_s_per_gb: float | None
    cpu_us_per_record: float

    @property
    def added_cell(self) -> str:
        return "" if self.added_us is None else f"{self.added_us:.0f}"

    @property
    def cpu_cell(self) -> str:
        if self.cpu_s_per_gb is not None:
            return f"{self.cpu_s_per_gb:.3f} s/GB"
        return f"{self.cpu_us_per_record:.0f} µs/record"


@contextlib.contextmanager
def started(targets: Sequence[Target], folder: Path, say: Say) -> Generator[tuple[KafkaCluster, list[Running]]]:
    """A broker with a listener of its own for each target that doesn't rewrite addresses, and the targets.

    Raises UnavailableError when there is no broker to be had.
    """
    plain_port, internal_port, controller_port = free_ports(3)
    opaque = [target for target in targets if not target.rewrites]
    broker_ports = dict(zip((t.name for t in opaque), free_ports(max(len(opaque), 1)), strict=False))
    listen_ports = {target.name: free_ports(PORTS_EACH)[0] for target in targets}
    listening = {"CLIENT": plain_port, "INTERNAL": internal_port}
    advertised = dict(listening)
    for number, target in enumerate(opaque):
        listening[f"P{number}"] = broker_ports[target.name]
        advertised[f"P{number}"] = listen_ports[target.name]
    properties = {
        "listeners": _listeners({**listening, "CONTROLLER": controller_port}),
        "advertised.listeners": _listeners(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*listening, "CONTROLLER")),
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.segment.bytes": str(1 << 30),
        "log.retention.check.interval.ms": "1000",
    }
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(KafkaCluster(port=plain_port, properties=properties, say=say))
            cluster.create_topic(TOPIC)
            cluster.create_topic(PRODUCED, config=_KEEPS_LITTLE)
        except LabError as error:
            raise UnavailableError(f"real Kafka: {error}") from error
        running = [Running(DIRECT, plain_port, folder)]
        for target in targets:
            if target.outdated:
                say(f"skipped: {target.name} before a real Kafka: {target.outdated}")
                continue
            port = broker_ports.get(target.name, plain_port)
            try:
                one = Running(target, port, folder / "real", listen_ports[target.name])
            except UnavailableError as error:
                say(f"skipped: {error}")
                continue
            running.append(one)
            stack.callback(one.stop)
        yield cluster, running


def measure(
    targets: Sequence[Running], *, version: str, rounds: int, records: int, latency_records: int, say: Say
) -> list[RealSample]:
    """Produce, consume and end-to-end latency through every target, the broker itself among them.

    An unrecorded pass comes before: a broker that has just started compiles its code for whoever is first. The order
    is another one each time, and the disk has what was written before the next run begins: a kernel that starts
    writing back a few runs' records takes from whoever happens to run then.
    """
    tools = _Tools(version)
    samples = []
    direct = targets[0]
    say("real Kafka: warming up the broker")
    tools.produce(direct.address, records, TOPIC)
    tools.produce(direct.address, records)
    tools.consume(direct.address, records)
    tools.latency(direct.address, latency_records)
    before = used_cpu_s(targets)
    shuffled = Random(rounds)
    for number in range(rounds):
        for workload, run, count in (
            ("produce, acks=all", tools.produce, records),
            ("consume", tools.consume, records),
            ("end-to-end latency", tools.latency, latency_records),
        ):
            say(f"real Kafka, round {number + 1}/{rounds}: {workload} through {len(targets)} targets")
            values = {}
            for running in shuffled.sample(targets, len(targets)):
                os.sync()
                try:
                    values[running] = run(running.address, count)
                except UnavailableError as error:
                    raise UnavailableError(f"{workload} through {running.target.name}: {error}") from error
            after = used_cpu_s(targets)
            for running, since, until in zip(targets, before, after, strict=True):
                moved = 0 if workload.startswith("end") else count * RECORD_BYTES
                value = values[running]
                samples.append(RealSample(number, workload, running.target.name, value, moved, count, until - since))
            before = after
    return samples


def figures(samples: Sequence[RealSample]) -> list[RealFigures]:
    """Medians over the rounds, against direct in the same round."""
    direct = {(s.round, s.workload): s.value for s in samples if s.target == DIRECT.name}
    groups: dict[tuple[str, str], list[RealSample]] = {}
    for sample in samples:
        if sample.target != DIRECT.name:
            groups.setdefault((sample.workload, sample.target), []).append(sample)
    return [_median(group, direct) for group in groups.values()]


def _median(group: list[RealSample], direct: dict[tuple[int, str], float]) -> RealFigures:
    first = group[0]
    pairs = [(s.value, direct[s.round, s.workload]) for s in group]
    is_latency = not first.bytes
    return RealFigures(
        workload=first.workload,
        target=first.target,
        ratio=statistics.median(base / value if is_latency else value / base for value, base in pairs),
        added_us=statistics.median(value - base for value, base in pairs) if is_latency else None,
        cpu_s_per_gb=None if is_latency else statistics.median(s.cpu_s / s.bytes * _GB for s in group),
        cpu_us_per_record=statistics.median(s.cpu_s / s.records * 1e6 for s in group),
    )


class _Tools:
    """Kafka's own tools, run from the broker's jars."""

    def __init__(self, version: str) -> None:
        self._java = find_java()
        found = jars.resolve("kafka", version, ())
        self._classpath = os.pathsep.join(str(jar) for jar in found)

    def produce(self, address: str, records: int, topic: str = PRODUCED) -> float:
        """Records per second of Kafka's producer once it has sent half of them: it compiles its code in the first."""
        said = self._run(
            "ProducerPerformance",
            *("--topic", topic, "--num-records", str(records), "--warmup-records", str(records // 2)),
            *("--record-size", str(RECORD_BYTES)),
            *("--throughput", "-1", "--bootstrap-server", address),
            *("--command-property", "acks=all", "linger.ms=5", "batch.size=262144"),
        )
        return self._number(said, r"records sent, ([\d.]+) records/sec(?!.*records sent)")

    def consume(self, address: str, records: int) -> float:
        """Records per second of Kafka's consumer, without the time its group took to form."""
        said = self._run(
            "ConsumerPerformance",
            *("--bootstrap-server", address, "--topic", TOPIC, "--num-records", str(records), "--hide-header"),
        )
        return self._number(said, r"([\d.]+)\s*$")

    def latency(self, address: str, records: int) -> float:
        """Average µs from a send to the record's arrival at a consumer."""
        said = self._run("EndToEndLatency", address, TOPIC, str(records), "1", str(RECORD_BYTES))
        return self._number(said, r"Avg latency: ([\d.]+) ms") * 1000

    def _run(self, tool: str, *arguments: str) -> str:
        with tempfile.TemporaryFile("w+") as errors:
            try:
                ran = subprocess.run(
                    [str(self._java.executable), "-XX:+UseSerialGC", "-cp", self._classpath, _TOOLS + tool, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    timeout=_TOOL_TIMEOUT_S,
                )
            except subprocess.TimeoutExpired as error:
                raise UnavailableError(f"{tool} did not end in {_TOOL_TIMEOUT_S:.0f} s") from error
            if ran.returncode:
                errors.seek(0)
                raise UnavailableError(f"{tool} failed: {errors.read().strip()[-300:]}")
        return ran.stdout.strip()

    @staticmethod
    def _number(said: str, pattern: str) -> float:
        found = re.search(pattern, said, re.DOTALL)
        if found is None:
            raise UnavailableError(f"a performance tool printed no figure: {said[-300:]}")
        return float(found[1])


def _listeners(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
