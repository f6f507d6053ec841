"""One client's scenario, directly and through the proxy, and everything that has to be the same."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset

from notleader.proxy.lab.process import Child
from notleader.proxy.wire.names import ApiKey
from tests.clients.catalog import Client
from tests.clients.identity import assert_same_bytes
from tests.clients.scenario import Result
from tests.clients.tap import FRONT_HOST, Asked, Conversation, TappedCluster, before, spoken
from tests.faults.unhittable import unhittable

_SCENARIO_S = 180
_READY_S = 30
NOTLEADER = [sys.executable, "-m", "notleader"]
# How often these are sent depends on how long things take.
_TIMED = {ApiKey.Heartbeat}
# The answers that carry broker addresses, or versions: the only ones whose size may change.
_REWRITTEN = {
    ApiKey.Metadata,
    ApiKey.FindCoordinator,
    ApiKey.DescribeCluster,
    ApiKey.ApiVersions,
    ApiKey.ShareFetch,
    ApiKey.ShareAcknowledge,
}

Row = dict[str, Any]
LEVELS = ("header", "partition", "record", "payload")


@dataclass(slots=True)
class Running:
    """A proxy in a process of its own: where clients bootstrap, its brokers' addresses and its process id."""

    listen: str
    brokers: list[str]
    pid: int
    broker_ports: dict[int, int]
    admin: str | None = None

    @property
    def ports(self) -> list[int]:
        """Every port it listens on, the one for bootstrapping first."""
        return [int(self.listen.rpartition(":")[2]), *self.broker_ports.values()]


@contextlib.contextmanager
def notleader_run(kafka: str, capture: Path, log: Path, *flags: str) -> Iterator[Running]:
    """`notleader run` in front of `kafka`, stopped by SIGTERM, after which the capture is complete."""
    listen = () if "--listen" in flags else ("--listen", "127.0.0.1:0")
    admin = () if "--admin" in flags else ("--admin", "none")
    command = [*NOTLEADER, "run", "--kafka", kafka, "--seed", "1", "--json"]
    child = Child(
        [*command, "--capture", str(capture), *listen, *admin, *flags],
        log=log,
        stdout="pipe",
    )
    try:
        assert child.popen.stdout is not None
        line = child.popen.stdout.readline()
        assert line, f"the proxy ended: {log.read_text()}"
        ready = json.loads(line)
        ports = {int(node_id): int(address.rpartition(":")[2]) for node_id, address in ready["brokers"].items()}
        yield Running(ready["listen"], sorted(ready["brokers"].values()), child.pid, ports, ready["admin"])
        child.send_signal(signal.SIGTERM)
        assert child.wait(_READY_S) == 0, log.read_text()
    finally:
        if child.running():
            child.kill()
        if child.popen.stdout is not None:
            child.popen.stdout.close()


def captured(folder: Path) -> list[Row]:
    """The rows of a capture in the order of their connections and exchanges."""
    rows: list[Row] = dataset.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["connection_id"] or 0, row["exchange_seq"] or 0))


def play(client: Client, bootstrap: str, prefix: str, replicas: int, log: Path) -> Result:
    """Run the scenario against `bootstrap`; what the client says of it."""
    command, environment = client.command()
    variables = {
        "BOOTSTRAP": bootstrap,
        "PREFIX": prefix,
        "CODECS": ",".join(client.codecs),
        "REPLICAS": str(replicas),
    }
    with log.open("wb") as errors:
        ran = subprocess.run(
            command,
            env={**os.environ, **environment, **client.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=_SCENARIO_S,
            cwd=log.parent,
        )
    said = ran.stdout.decode()
    assert ran.returncode == 0, f"{client.name} ended with {ran.returncode}: {said[-2000:]}{log.read_text()[-4000:]}"
    result: Result = json.loads(said)
    return result


def armed(folder: Path) -> tuple[str, ...]:
    """Flags that put a rule of every kind in force, of which none can hit."""
    config = folder / "unhittable.yaml"
    config.write_text(json.dumps({"faults": unhittable()}))
    return ("--config", str(config))


def check(client: Client, cluster: TappedCluster, folder: Path, level: str = "partition", *rules: str) -> None:
    """Play the scenario both ways and hold the two, the capture and the tap against each other.

    ``rules`` are flags with rules that must change nothing.
    """
    replicas = len(cluster.nodes)
    ways = [f"{client.name}-{level}{'-armed' if rules else ''}-{way}" for way in ("direct", "proxied")]
    for prefix in ways if not client.makes_topics else ():
        cluster.create_topic(f"{prefix}-orders", partitions=2)
        cluster.create_topic(f"{prefix}-moves")

    cluster.forget()
    direct = play(client, cluster.tapped, ways[0], replicas, folder / "direct.log")
    assert in_order(direct) == client.expected(list(cluster.addresses.values()), replicas)
    direct_kinds = kinds(cluster.conversations())

    capture, log = folder / "capture", folder / "proxy.log"
    flags = ("--capture-level", level, "--advertise", FRONT_HOST, *rules)
    with notleader_run(cluster.tapped, capture, log, *flags) as proxy, before(proxy.ports) as front:
        cluster.forget(proxy.pid)
        bootstrap = f"{FRONT_HOST}:{proxy.ports[0]}"
        through = play(client, bootstrap, ways[1], replicas, folder / "through.log")
        until_quiet(cluster)
    told = {node_id: (FRONT_HOST, port) for node_id, port in proxy.broker_ports.items()}
    assert in_order(through) == client.expected([f"{host}:{port}" for host, port in told.values()], replicas)

    rows = captured(capture)
    conversations = cluster.conversations(but_of="notleader")
    assert conversations, "the client spoke to a broker through the proxy"
    assert all(each.by_watched for each in conversations), "only the proxy connects to a broker"
    assert_complete(rows, conversations)
    assert_same_bytes(spoken(front), conversations, told)
    # An event `fault` says that a rule was put in force.
    troubles = [row for row in rows if row["event"] not in ("exchange", "connect", "disconnect", "fault")]
    assert not troubles, troubles
    unread = [
        (row["api_name"], row["api_version"], row["detail"])
        for row in exchanges(rows)
        if row["detail"] is not None and "not read" in row["detail"]
    ]
    assert not unread, f"bodies that the proxy could not read: {unread}"
    touched = [row for row in exchanges(rows) if row["outcome"] not in ("answered", "no_response")]
    assert not touched, touched
    assert not any(row["fault_names"] for row in rows if row["event"] != "fault")
    assert " ERROR " not in log.read_text()
    assert "broke the protocol" not in log.read_text()
    # Nothing made the client choose another API or version than it uses without the proxy.
    assert kinds(conversations) == direct_kinds


def in_order(result: Result) -> Result:
    """Brokers come in no order of their own."""
    return result | {"brokers": sorted(result["brokers"])} if "brokers" in result else result


def exchanges(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["event"] == "exchange"]


def kinds(conversations: list[Conversation]) -> set[tuple[str, int]]:
    """The APIs and versions that were used, but for those that only time calls for."""
    used = {(asked.api_key, asked.api_version) for each in conversations for asked in each.asked}
    return {(ApiKey(api_key).name, version) for api_key, version in used if api_key not in _TIMED}


def assert_complete(rows: list[Row], conversations: list[Conversation]) -> None:
    """Every request that reached a broker has its row: same connection, same place, same header, same size."""
    sequences: dict[int, list[Row]] = {}
    for row in exchanges(rows):
        sequences.setdefault(row["connection_id"], []).append(row)
    for connection_id, said in sequences.items():
        assert [row["exchange_seq"] for row in said] == list(range(1, len(said) + 1)), connection_id
    unclaimed = sorted(sequences.values(), key=len)
    for conversation in sorted(conversations, key=lambda each: -len(each.asked)):
        # A client that leaves may cut off its last request on the way; what the broker got must be there.
        size = len(conversation.asked)
        alike = [said for said in unclaimed if list(map(_asked, said[:size])) == conversation.asked]
        assert alike, f"no captured connection has these requests: {conversation.asked}"
        # Connections that asked the same are told apart by what they were answered.
        troubles = [_trouble(said[:size], conversation) for said in alike]
        assert None in troubles, troubles
        unclaimed.remove(alike[troubles.index(None)])
    assert not unclaimed, f"captured, but never seen by a broker: {[list(map(_asked, said)) for said in unclaimed]}"


def _asked(row: Row) -> Asked:
    return Asked(row["api_key"], row["api_version"], row["correlation_id"], row["request_bytes"])


def _trouble(rows: list[Row], conversation: Conversation) -> str | None:
    """What is wrong with the answers in these rows, if they are those of this conversation."""
    reused = Counter(asked.correlation_id for asked in conversation.asked)
    for row in rows:
        sent = conversation.answers.get(row["correlation_id"])
        if row["outcome"] == "no_response":
            if not (row["acks"] == 0 or row is rows[-1] or sent is None):
                return f"the broker's answer never left the proxy: {row}"
            continue
        if sent is None:
            return f"an answer that no broker gave: {row}"
        led = row["api_key"] in (ApiKey.Produce, ApiKey.Fetch) and row["error_code"]  # may name the new leader
        rewritten = row["api_key"] in _REWRITTEN or led
        if not rewritten and reused[row["correlation_id"]] == 1 and row["response_bytes"] != sent:
            return f"{sent} bytes were sent: {row}"
    return None


def until_quiet(cluster: TappedCluster) -> None:
    """Let the last bytes of a client that has ended arrive."""
    last, stop = -1, time.monotonic() + 5
    while time.monotonic() < stop:
        seen = sum(len(each.asked) + len(each.answers) for each in cluster.conversations())
        if seen == last:
            return
        last = seen
        time.sleep(0.2)
