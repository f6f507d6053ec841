"""One Kafka node's ports and folder: the properties it starts with and its formatted data."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.paths import cache_folder
from notleader.proxy.lab.process import Child

HOST = "127.0.0.1"


class KafkaError(LabError):
    """Kafka did not start or stopped by itself; the text has its own error line and the log's path."""


@dataclass(slots=True)
class Node:
    """One broker; `controller_port` is None for a node that is no controller, `child` when not started."""

    node_id: int
    client_port: int
    internal_port: int
    controller_port: int | None
    folder: Path
    child: Child | None = None

    @property
    def log(self) -> Path:
        return self.folder / "kafka.log"

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    def running(self) -> bool:
        return self.child is not None and self.child.running()

    def error_line(self) -> str:
        """The log's first exception, else its first error, else its last line."""
        lines = [
            line.strip() for line in self.log.read_text(errors="replace", encoding="utf-8").splitlines() if line.strip()
        ]
        for telling in (r"(\w+\.)+\w*(Exception|Error)\b: ", r"\b(ERROR|FATAL)\b|Exception\b|Error:"):
            for line in lines:
                if re.search(telling, line):
                    return line
        return lines[-1] if lines else "no output"


def new_id() -> str:
    """A UUID as Kafka writes it, URL-safe base64 without padding; never with the dash of an option first."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def prepare(node: Node, template: Path, cluster_id: str, properties: Mapping[str, str]) -> None:
    """Give a node its `server.properties` and a formatted data folder of its own."""
    data = node.folder / "data"
    shutil.copytree(template, data)
    lines = (data / "meta.properties").read_text("utf-8").splitlines()
    identity = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    # Two nodes with one directory id would be taken for the same disk.
    identity |= {"cluster.id": cluster_id, "node.id": str(node.node_id), "directory.id": new_id()}
    (data / "meta.properties").write_text(properties_file(identity), "utf-8")
    node.config.write_text(properties_file(properties), "utf-8")


def formatted_template(version: str, java_command: Sequence[str]) -> Path:
    """A data folder formatted by Kafka's StorageTool once per version and kept: saves a JVM per start."""
    template = cache_folder() / "formatted" / f"kafka-{version}"
    if template.exists():
        return template
    template.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=template.parent, prefix=".new-") as work:
        config = Path(work, "server.properties")
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:1",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:2,CONTROLLER://{HOST}:1",
            "log.dirs": _data_in(Path(work)),
        }
        config.write_text(properties_file(properties), "utf-8")
        storage_tool = [
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            new_id(),
            "--config",
            str(config),
        ]
        ran = subprocess.run(
            [*java_command, *storage_tool], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if ran.returncode != 0:
            raise KafkaError(f"Kafka's StorageTool failed: {ran.stdout.strip()[-500:]}")
        try:
            Path(work, "data").rename(template)
        except OSError:
            if not template.exists():  # else somebody else was quicker
                raise
    return template


def node_properties(node: Node, nodes: Iterable[Node], auto_create_topics: bool) -> dict[str, str]:
    """The `server.properties` of one node in a cluster of `nodes`: replicated three times where it can be."""
    nodes = list(nodes)
    copies = str(min(3, len(nodes)))
    in_sync = "2" if len(nodes) >= 3 else "1"
    listeners = {"CLIENT": node.client_port, "INTERNAL": node.internal_port}
    advertised = ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())
    if node.controller_port is not None:
        listeners["CONTROLLER"] = node.controller_port
    voters = [other for other in nodes if other.controller_port is not None]
    return {
        "process.roles": "broker,controller" if node.controller_port is not None else "broker",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{n.node_id}@{HOST}:{n.controller_port}" for n in voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": _data_in(node.folder),
        "auto.create.topics.enable": str(auto_create_topics).lower(),
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": copies,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": copies,
        "group.initial.rebalance.delay.ms": "0",
        # Twice a second the controller would write that there is nothing to write: a quarter of what idling takes.
        "metadata.max.idle.interval.ms": "5000",
        # A killed node is noticed in 4 s instead of 9.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.election.backoff.max.ms": "300",
    }


def properties_file(properties: Mapping[str, str]) -> str:
    """A Java properties file, which knows no letters but ASCII's as they are: the others as their UTF-16, escaped."""
    return "".join(f"{name}={_NOT_PLAIN.sub(_escaped, value)}\n" for name, value in properties.items())


_NOT_PLAIN = re.compile(r"[^ -~]|\\")


def _escaped(letter: re.Match[str]) -> str:
    units = letter[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _data_in(folder: Path) -> str:
    """Where a node keeps its data; KafkaError where Kafka would take it for several folders."""
    if "," in str(folder):
        raise KafkaError(f"Kafka takes no folder with a comma in its name: {folder}; set TMPDIR, or XDG_CACHE_HOME")
    return str(folder / "data")
