"""Real Kafka brokers (KRaft) on loopback, started from their jars and gone when the caller is."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from notleader.proxy.lab import class_archive, jars, probe
from notleader.proxy.lab.java import Java, find_java
from notleader.proxy.lab.node import HOST, KafkaError, Node, formatted_template, new_id, node_properties, prepare
from notleader.proxy.lab.ports import free_ports, is_free
from notleader.proxy.lab.process import Child, keep_folder, temporary_folder

NEWEST = "4"
_READY_TIMEOUT_S = 90.0
_POMS = ("org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-tools", "org.slf4j:slf4j-simple:1.7.36")
# A broker that lives for minutes gains more from a quick start than from the optimising compiler.
_JVM_FLAGS = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

Say = Callable[[str], None]
"""Called with one short line on what is going on."""


def full_version(wanted: str) -> str:
    """The newest known version that begins with `wanted`: `4` → `4.3.1`; a complete one is taken as it is."""
    known = [
        version for version in jars.locked_versions("kafka") if version == wanted or version.startswith(f"{wanted}.")
    ]
    if known:
        return known[-1]
    if re.fullmatch(r"\d+\.\d+\.\d+", wanted):
        return wanted
    locked = ", ".join(jars.locked_versions("kafka"))
    raise KafkaError(
        f"unknown Kafka version {wanted}: the beginning is enough for {locked}; "
        "of any other say all three numbers, as 3.5.2"
    )


class KafkaCluster:
    """A cluster of `nodes` brokers with node ids from 1, each with a port for clients and one for brokers.

    The brokers' own listener is separate because their transaction and share-state calls follow the
    advertised addresses: on one listener those calls would go through a proxy put in front of it.
    Data and logs live in a temporary folder and go with the cluster; a `folder` of the caller's own stays.
    With three nodes or more every node is a controller too, so that any single one may be killed.
    """

    def __init__(
        self,
        version: str = NEWEST,
        nodes: int = 1,
        *,
        port: int | None = None,
        auto_create_topics: bool = True,
        properties: Mapping[str, str] | None = None,
        folder: Path | None = None,
        say: Say | None = None,
    ) -> None:
        self.version = full_version(version)
        self.nodes: dict[int, Node] = {}
        self._size = nodes
        self._port = port
        self._auto_create_topics = auto_create_topics
        self._properties = dict(properties or {})
        self._folder = folder
        self._own_folder = folder is None
        self.say: Say = say or (lambda _: None)
        self._cluster_id = new_id()
        self._java: Java | None = None
        self._classpath = ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start all nodes and return once every one of them answers and is known to the others."""
        self._java = find_java()
        found = jars.resolve(
            "kafka", self.version, _POMS, lambda done, total: self.say(f"fetching jars {done}/{total}")
        )
        self._classpath = os.pathsep.join(str(jar) for jar in found)
        if self._folder is None:
            self._folder = temporary_folder("notleader-kafka-")
        self.say(f"starting {self._size} node{'s' if self._size > 1 else ''}")
        try:
            template = formatted_template(self.version, self._java_command())
            self._lay_out()
            for node in self.nodes.values():
                properties = node_properties(node, self.nodes.values(), self._auto_create_topics)
                prepare(node, template, self._cluster_id, properties | self._properties)
                self._launch(node)
            self._wait_until_ready(set(self.nodes))
        except BaseException as error:
            for node in self.nodes.values():
                if node.child is not None:
                    node.child.kill()
            # A failure's text names the log; anything else leaves nothing to read.
            if isinstance(error, KafkaError) and any(node.log.exists() for node in self.nodes.values()):
                keep_folder(self.folder)
            else:
                self._delete_data()
            raise
        return self

    def stop(self) -> None:
        """End every node at once and delete the data: nobody is left to miss an orderly shutdown."""
        try:
            if self._java is not None and (pids := self.pids):
                archive = class_archive.archive_of(self._java, self._classpath)
                class_archive.keep(archive, self._java, next(iter(pids.values())))
        finally:
            for node in self.nodes.values():
                if node.child is not None:
                    node.child.kill()
                    node.child = None
            self.nodes.clear()
            self._delete_data()

    def ended_nodes(self) -> dict[int, str]:
        """A sentence on each node that ended by itself, with its own error line, by node id; empty when all run."""
        return {
            node.node_id: f"node {node.node_id} ended with code {node.child.popen.returncode}: {node.error_line()} "
            f"(log: {node.log})"
            for node in self.nodes.values()
            if node.child is not None and not node.running()
        }

    def release(self) -> None:
        """Let the nodes outlive this process; their folder stays too."""
        keep_folder(self.folder)
        for node in self.nodes.values():
            if node.child is not None:
                node.child.release()

    @property
    def bootstrap(self) -> str:
        """`host:port` of every node's client listener, comma-separated."""
        return ",".join(f"{HOST}:{node.client_port}" for node in self.nodes.values())

    @property
    def pids(self) -> dict[int, int]:
        """Process ids of the running nodes by node id."""
        return {n.node_id: n.child.pid for n in self.nodes.values() if n.child is not None and n.running()}

    @property
    def folder(self) -> Path:
        """Where the nodes keep data and logs while they run."""
        assert self._folder is not None, "not started"
        return self._folder

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until every partition's leader serves it; an existing topic is left as it is."""
        factor = replication_factor or min(3, len(self.nodes))
        port = self._any_running().client_port
        probe.create_topic(HOST, port, topic, partitions=partitions, replication_factor=factor, config=config or {})

        def served(view: probe.ClusterView) -> bool:
            led: dict[int, list[int]] = {}
            for index in range(partitions):
                led.setdefault(view.leaders.get((topic, index), -1), []).append(index)
            return led.keys() <= view.brokers.keys() and all(
                probe.leads(*view.brokers[node_id], topic, indexes) for node_id, indexes in led.items()
            )

        self._until(served, f"topic {topic} has no leader on every partition")

    def leader(self, topic: str, partition_index: int) -> int:
        """The node id that leads a partition now, -1 for none."""
        return self._view().leaders.get((topic, partition_index), -1)

    def stop_node(self, node_id: int) -> None:
        """Shut a node down in order: it hands its leaderships over first (SIGTERM)."""
        node = self.nodes[node_id]
        if node.child is not None:
            node.child.stop(grace_s=30)
            node.child = None

    def kill_node(self, node_id: int) -> None:
        """End a node as a power cut would (SIGKILL); the cluster notices after its session timeout."""
        node = self.nodes[node_id]
        if node.child is not None:
            node.child.kill()
            node.child = None

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again on its ports and data; returns once the cluster counts it in."""
        node = self.nodes[node_id]
        if not node.running():
            self._launch(node)
            self._wait_until_ready({n.node_id for n in self.nodes.values() if n.running()})

    def _lay_out(self) -> None:
        clients = list(range(self._port, self._port + self._size)) if self._port else free_ports(self._size)
        for port in clients:
            if not is_free(port):
                raise KafkaError(f"port {port} on {HOST} is in use")
        others = free_ports(2 * self._size, besides=clients)
        for index in range(self._size):
            node_id = index + 1
            folder = self.folder / f"node-{node_id}"
            folder.mkdir(parents=True)
            controls = self._size >= 3 or node_id == 1
            controller_port = others[self._size + index] if controls else None
            self.nodes[node_id] = Node(node_id, clients[index], others[index], controller_port, folder)

    def _java_command(self) -> list[str]:
        assert self._java is not None
        archive = class_archive.archive_of(self._java, self._classpath)
        return [str(self._java.executable), *_JVM_FLAGS, *class_archive.flags(archive), "-cp", self._classpath]

    def _launch(self, node: Node) -> None:
        node.child = Child(
            [*self._java_command(), "kafka.Kafka", str(node.config)],
            log=node.log,
            cwd=node.folder,
        )

    def _delete_data(self) -> None:
        if self._own_folder and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _any_running(self) -> Node:
        for node in self.nodes.values():
            if node.running():
                return node
        raise KafkaError("no node is running")

    def _view(self) -> probe.ClusterView:
        return probe.cluster_view(HOST, self._any_running().client_port)

    def _wait_until_ready(self, node_ids: set[int]) -> None:
        for node_id in node_ids:
            port = self.nodes[node_id].client_port

            def serves(view: probe.ClusterView, port: int = port) -> bool:
                return node_ids <= set(view.brokers) and probe.serves_producers_and_groups(HOST, port)

            self._until(serves, f"node {node_id} does not serve with all nodes in view", port=port)

    def _until(self, reached: Callable[[probe.ClusterView], bool], otherwise: str, *, port: int | None = None) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        last = ""
        while time.monotonic() < deadline:
            if ended := self.ended_nodes():
                raise KafkaError(f"Kafka {'; '.join(ended.values())}")
            try:
                if reached(probe.cluster_view(HOST, port or self._any_running().client_port)):
                    return
            except probe.ProbeError as error:
                last = f": {error}"
            time.sleep(0.05)
        logs = ", ".join(str(node.log) for node in self.nodes.values())
        raise KafkaError(f"after {_READY_TIMEOUT_S:.0f} s {otherwise}{last} (logs: {logs})")
