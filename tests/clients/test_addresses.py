"""Where the proxy listens and what it tells clients: IPv6, a name of its own, a dead bootstrap address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.ports import free_ports
from tests.clients.comparison import captured, notleader_run
from tests.clients.raw import address_of

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("4", auto_create_topics=False) as plain:
        yield plain


async def round_trip(bootstrap: str, topic: str) -> set[tuple[str, int]]:
    """Send a record and read it as a group; the addresses that the client was told of."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"here")
        told = {(broker.host, broker.port) for broker in producer.client.cluster.brokers()}
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone()).value == b"here"
        await consumer.commit()
        assert {(broker.host, broker.port) for broker in consumer._client.cluster.brokers()} == told
    return told


async def test_an_ipv6_listener(cluster: KafkaCluster, tmp_path: Path) -> None:
    cluster.create_topic("six")
    with notleader_run(cluster.bootstrap, tmp_path / "capture", tmp_path / "log", "--listen", "[::1]:0") as proxy:
        assert proxy.listen.startswith("[::1]:")
        assert [address_of(broker)[0] for broker in proxy.brokers] == ["::1"]
        assert all(broker.startswith("[::1]:") for broker in proxy.brokers), "what is printed can be connected to"
        assert await round_trip(proxy.listen, "six") == {address_of(broker) for broker in proxy.brokers}
    clients = {row["client_addr"].rpartition(":")[0] for row in captured(tmp_path / "capture")}
    assert clients == {"[::1]"}


async def test_a_listener_on_all_addresses_tells_the_one_that_was_reached(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    cluster.create_topic("wild")
    with notleader_run(cluster.bootstrap, tmp_path / "capture", tmp_path / "log", "--listen", "0.0.0.0:0") as proxy:
        port = address_of(proxy.listen)[1]
        told = await round_trip(f"127.0.0.1:{port}", "wild")
        assert told == {("127.0.0.1", address_of(broker)[1]) for broker in proxy.brokers}


async def test_a_name_other_than_the_address_bound(cluster: KafkaCluster, tmp_path: Path) -> None:
    cluster.create_topic("named")
    flags = ("--listen", "127.0.0.1:0", "--advertise", "localhost")
    with notleader_run(cluster.bootstrap, tmp_path / "capture", tmp_path / "log", *flags) as proxy:
        told = await round_trip(proxy.listen, "named")
        assert told == {("localhost", address_of(broker)[1]) for broker in proxy.brokers}


async def test_a_dead_bootstrap_address_before_a_living_one(cluster: KafkaCluster, tmp_path: Path) -> None:
    cluster.create_topic("second")
    # The first refuses, the second takes connections and never says anything.
    with socket.create_server(("127.0.0.1", 0)) as mute:
        dead = [f"127.0.0.1:{free_ports(1)[0]}", f"127.0.0.1:{mute.getsockname()[1]}"]
        kafka = ",".join([*dead, cluster.bootstrap])
        flags = ("--connect-timeout-ms", "500")
        with notleader_run(kafka, tmp_path / "capture", tmp_path / "log", *flags) as proxy:
            mute.close()
            assert len(proxy.brokers) == 1
            assert await round_trip(proxy.listen, "second") == {address_of(broker) for broker in proxy.brokers}
