"""What real outages do to the clients of three incidents, beside what the proxy does to them: prints one JSON document.

    python -m tests.integration.lab.world two-minutes|deadlock FOLDER     in a network namespace of its own, as root
    python -m tests.integration.lab.world hang FOLDER                     anywhere

No proxy has a part in the halves called `world`: a firewall's DROP, a frozen machine, a rolling restart of three.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from notleader.proxy.lab.clients import command, dump_stacks
from notleader.proxy.lab.incident import Program, load_incident
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.outcome import Outcome, read_outcomes
from notleader.proxy.lab.process import Child
from notleader.proxy.lab.stages import Stages
from notleader.proxy.lab.testing import NotLeader

_PATIENCE_S = 120.0
_WENT_WRONG = re.compile(r'"outcome": ?"(fail|info)"')
_SILENT_S = 10.0
_MOST_RESTARTS = 8


class Client:
    """One of the incidents' own programs, at work somewhere."""

    def __init__(self, incident: str, version: str, name: str, bootstrap: str, folder: Path, **arguments: Any) -> None:
        template = load_incident(incident).clients[0]
        self.program: Program = template.model_copy(
            update={"name": name, "version": version, "arguments": template.arguments | arguments}
        )
        self.file, self.log = folder / f"{name}.jsonl", folder / f"{name}.log"
        argv = [*command(self.program, Stages(quiet=True)), *self.program.command_line(bootstrap)]
        self.child = Child(argv, log=self.log, stdout=self.file)

    def outcomes(self) -> list[Outcome]:
        return read_outcomes([self.file])

    def settled(self) -> int:
        """How many sends have had their last word."""
        return len(re.findall(r'"outcome":"(?:ok|fail)"', self.file.read_text()))

    def until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not reached():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.program.name}: {what} did not happen; log: {self.log.read_text()[-600:]}")
            time.sleep(0.02)

    def until_first_success(self) -> None:
        self.until(lambda: '"outcome":"ok"' in self.file.read_text(), "a first success")

    def until_end(self) -> None:
        self.until(lambda: not self.child.running(), "its end")


@contextmanager
def firewall(kafka: KafkaCluster) -> Iterator[None]:
    """Nothing goes to the broker's port for a while, nor comes from it, and nobody is told."""
    port = str(kafka.nodes[1].client_port)
    rules = [["INPUT", "-p", "tcp", side, port, "-j", "DROP"] for side in ("--dport", "--sport")]
    for rule in rules:
        subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        for rule in rules:
            subprocess.run(["iptables", "-D", *rule], check=True)


@contextmanager
def power_off(kafka: KafkaCluster) -> Iterator[None]:
    """The broker's machine is gone: its process does nothing, its kernel acknowledges nothing."""
    with firewall(kafka):
        os.kill(kafka.pids[1], signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(kafka.pids[1], signal.SIGCONT)


def two_minutes(folder: Path) -> dict[str, Any]:
    """Time to error behind a DROP, and behind `blackhole`."""
    measured: dict[str, Any] = {}
    form = load_incident("sarama-two-minutes").forms["measured"]
    with KafkaCluster("4", auto_create_topics=False) as kafka:
        kafka.create_topic("orders")
        for version in ("1.27.2", "1.61.1"):

            def told(where: str, client: Client, version: str = version) -> None:
                client.until_end()
                last = client.outcomes()[-1]
                measured.setdefault(version, {})[where] = {
                    "outcome": last.outcome,
                    "seconds": round((last.took_ms or 0) / 1000, 3),
                    "error": last.error,
                }

            def start(where: str, bootstrap: str, version: str = version) -> Client:
                client = Client(
                    "sarama-two-minutes", version, f"{where}-{version}", bootstrap, folder, **form.arguments
                )
                client.until_first_success()
                return client

            client = start("world", kafka.bootstrap)
            with firewall(kafka):
                told("world", client)
            with NotLeader(kafka.bootstrap, folder / version) as beside:
                client = start("proxy", beside.bootstrap)
                with beside.fault(kind="blackhole", trigger={"times": "forever"}, may_miss=True):
                    told("proxy", client)
    return measured


def deadlock(folder: Path) -> dict[str, Any]:
    """A producer whose callback sends again and waits, and a leader that is powered off for some seconds."""
    measured: dict[str, Any] = {}
    settings = {
        # Slowly: the first callback has to wait before the buffer is full, or a sender of its own may wait for ever.
        "messages": 24,
        "interval_ms": 600,
        "request.timeout.ms": 1000,
        "delivery.timeout.ms": 8000,
        "wait_ms": 5000,
        # 4.x would forget the topic after the first failed connection, and fail each send for that instead.
        "metadata.recovery.strategy": "none",
    }

    def told(client: Client, lifted_us: int) -> dict[str, Any]:
        client.until_end()
        every = client.outcomes()
        fresh = [said for said in every if said.client.endswith("-fresh")]
        late = [said for said in every if said not in fresh and (said.called_at_us or 0) > lifted_us]
        stacks = client.log.read_text()
        thread = re.search(r'^"kafka-producer-network-thread.*?(?=^"|\Z)', stacks, re.DOTALL | re.MULTILINE)
        return {
            "sends_after_the_outage": len(late),
            "of_these_acknowledged": sum(said.outcome == "ok" for said in late),
            "longest_call_ms": round(max(said.blocked_ms or 0 for said in late)),
            "network_thread_waits_in_callback": thread is not None and "FutureRecordMetadata.get" in thread[0],
            "fresh_producer": fresh[0].outcome if fresh else None,
            "fresh_producer_ms": round(fresh[0].took_ms or 0) if fresh else None,
        }

    def waits(client: Client) -> bool:
        """A record that was on its way has failed: its callback, on the network thread, has begun to wait."""
        failed = (line for line in client.file.read_text().splitlines() if _WENT_WRONG.search(line))
        return any("metadata" not in line and "allocate" not in line for line in failed)

    with KafkaCluster("4", auto_create_topics=False) as kafka:
        kafka.create_topic("orders")
        for version in ("0.11.0.3", "4.4.0"):
            of_version: dict[str, Any] = measured.setdefault(version, {})
            incident = "java-callback-deadlock"
            client = Client(incident, version, f"world-{version}", kafka.bootstrap, folder, **settings)
            client.until_first_success()
            with power_off(kafka):
                client.until(lambda client=client: waits(client), "a failure")  # type: ignore[misc]
            of_version["world"] = told(client, time.time_ns() // 1000)
            with NotLeader(kafka.bootstrap, folder / version) as beside:
                client = Client(incident, version, f"proxy-{version}", beside.bootstrap, folder, **settings)
                client.until_first_success()
                with beside.fault(kind="blackhole", trigger={"times": "forever"}, may_miss=True):
                    client.until(lambda client=client: waits(client), "a failure")  # type: ignore[misc]
                of_version["proxy"] = told(client, time.time_ns() // 1000)
    return measured


def hang(folder: Path) -> dict[str, Any]:
    """Idempotent producers of the affected version and of the control while three brokers restart one after the other.

    Ends when a producer of the affected version has said nothing for ten seconds, with all brokers up.
    """
    versions = {"affected": "1.37.2", "control": "1.38.0"}
    with KafkaCluster("4", nodes=3, auto_create_topics=False) as kafka:
        kafka.create_topic("orders", partitions=12)
        clients = {
            f"{role}-{index}": Client(
                "sarama-hang",
                version,
                f"{role}-{index}",
                kafka.bootstrap,
                folder,
                partition=index + (6 if role == "control" else 0),
                batches=10_000_000,
                interval_ms=2,
            )
            for role, version in versions.items()
            for index in range(6)
        }
        for client in clients.values():
            client.until_first_success()
        restarts = 0
        silent: list[str] = []
        while not any(name.startswith("affected") for name in silent) and restarts < _MOST_RESTARTS:
            restarts += 1
            for node_id in (1, 2, 3):
                kafka.stop_node(node_id)
                kafka.start_node(node_id)
            silent = _silent(clients)
        measured: dict[str, Any] = {"rolling_restarts": restarts}
        for role in versions:
            own = {name: client for name, client in clients.items() if name.startswith(role)}
            hung = [name for name in own if name in silent]
            for name in hung:
                dump_stacks(own[name].program, own[name].child)
            logs = [own[name].log.read_text() for name in hung]
            measured[role] = {
                "clients": len(own),
                "hung": len(hung),
                "in_SendMessages": sum("(*syncProducer).SendMessages" in log for log in logs),
                "rolled_over_epoch": sum("rolling over epoch due to publish failure" in log for log in logs),
                "pending": sum(said.outcome == "pending" for name in hung for said in own[name].outcomes()),
                "failed": sum(_WENT_WRONG.search(line) is not None for c in own.values() for line in c.file.open()),
            }
        for client in clients.values():
            client.child.kill()
    return measured


def _silent(clients: dict[str, Client]) -> list[str]:
    """The names of those that had no last word in ten seconds, while they ran."""
    before = {name: client.settled() for name, client in clients.items()}
    time.sleep(_SILENT_S)
    return [name for name, client in clients.items() if client.child.running() and client.settled() == before[name]]


if __name__ == "__main__":
    outage = {"two-minutes": two_minutes, "deadlock": deadlock, "hang": hang}[sys.argv[1]]
    print(json.dumps(outage(Path(sys.argv[2]))))
