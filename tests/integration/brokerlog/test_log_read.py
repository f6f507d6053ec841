"""`notleader log read` before a real broker: what it reads is what Kafka's consumers read, and more."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from typer.testing import CliRunner

from notleader.proxy.brokerlog.schema import rows_of
from notleader.proxy.cli.app import app
from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.doors import PASSWORD, ManyDoors
from tests.integration.proxy.conftest import ProxyFor

pytestmark = pytest.mark.kafka


def read(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of a reading, as a process of its own."""
    command = [sys.executable, "-m", "notleader", "log", "read", "--json", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


async def consumed(kafka: KafkaCluster, topic: str, isolation_level: str) -> set[tuple[int, int, bytes]]:
    """Partition, offset and id of every record that an ordinary consumer gets."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        places = [TopicPartition(topic, index) for index in range(3)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        got = set()
        while any([await consumer.position(place) < ends[place] for place in places]):
            for place, records in (await consumer.getmany(timeout_ms=200)).items():
                got |= {(place.partition, record.offset, dict(record.headers)["notleader-id"]) for record in records}
    finally:
        await consumer.stop()
    return got


def records(folder: Path, *transactions: str | None) -> set[tuple[int, int, bytes]]:
    return {
        (row["partition"], row["offset"], row["message_id"].encode())
        for row in rows_of(folder)
        if row["event"] == "record" and (not transactions or row["transaction"] in transactions)
    }


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
async def test_it_reads_what_either_kind_of_consumer_reads(
    kafka: KafkaCluster, tmp_path: Path, compression: str | None
) -> None:
    topic = f"log-of-{compression}"
    kafka.create_topic(topic, partitions=3, config={"cleanup.policy": "compact,delete"})
    plain = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, compression_type=compression, linger_ms=20)
    transactional = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic)
    await plain.start()
    await transactional.start()
    try:
        for number in range(300):
            header = [("notleader-id", b"p%d" % number)]
            await plain.send(topic, b"v" * 400, key=b"k%d" % number, partition=number % 3, headers=header)
        await plain.flush()
        for number in range(4):
            await transactional.begin_transaction()
            header = [("notleader-id", b"t%d" % number)]
            await transactional.send_and_wait(topic, b"v", key=b"k", partition=0, headers=header)
            await (transactional.abort_transaction() if number % 2 else transactional.commit_transaction())
    finally:
        await plain.stop()
        await transactional.stop()
    code, told = read("--kafka", kafka.bootstrap, "--topic", topic, "--out", str(tmp_path))
    assert (code, told["problems"]) == (0, [])
    assert records(tmp_path) == await consumed(kafka, topic, "read_uncommitted")
    assert records(tmp_path, None, "committed") == await consumed(kafka, topic, "read_committed")
    assert {one["cleanup_policy"] for one in told["topics"].values()} == {"compact,delete"}
    assert [row["control_type"] for row in rows_of(tmp_path) if row["event"] == "control"] == ["commit", "abort"] * 2
    assert told["records"] == 304


async def test_what_cannot_be_read_is_said(kafka: KafkaCluster, tmp_path: Path, proxy_for: ProxyFor) -> None:
    kafka.create_topic("log-hidden", partitions=2)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all")
    await producer.start()
    for number in range(4):
        header = [("notleader-id", b"m%d" % number)]
        await producer.send_and_wait("log-hidden", b"v", partition=number % 2, headers=header)
    await producer.stop()
    forever = {"trigger": {"times": "forever"}}
    rules = [
        {"kind": "error", "error_code": 6, "match": {"api_key": "Fetch", "partition_index": 0}, **forever},
        {"kind": "corrupt", "phase": "after_broker", "match": {"api_key": "Fetch", "partition_index": 1}},
    ]
    async with proxy_for(kafka.bootstrap, faults=rules) as proxy:
        where = ["--kafka", str(proxy.listen), "--topic", "log-hidden", "--out", str(tmp_path), "--timeout", "1.5"]
        code, told = await asyncio.to_thread(read, *where)
    assert code == 1
    assert any("NOT_LEADER_OR_FOLLOWER" in problem for problem in told["problems"]), told
    rows = rows_of(tmp_path)
    (hidden,) = (row for row in rows if row["event"] == "partition" and row["partition"] == 0)
    assert "NOT_LEADER_OR_FOLLOWER" in hidden["problem"]
    assert (hidden["offset"], hidden["log_end_offset"]) == (0, 2), "it says how far it got"
    assert any(row["event"] == "unread" and row["partition"] == 1 for row in rows), rows


def test_bad_use_is_one_line_and_leaves_nothing(kafka: KafkaCluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ["log", "read", "--topic", "nobody-made-this", "--out", str(out)]
    for address in (kafka.bootstrap, "127.0.0.1:1"):
        ran = CliRunner().invoke(app, [*asked, "--kafka", address])
        assert ran.exit_code == 2, ran.output
        assert not out.exists()
    listed = CliRunner().invoke(app, [*asked[:2], "--kafka", "nonsense", *asked[2:]])
    assert listed.exit_code == 2


@pytest.mark.parametrize("door", ["TLS", "SASL"])
def test_before_brokers_that_want_tls_or_a_login(kafka3: ManyDoors, tmp_path: Path, door: str) -> None:
    topic = f"log-by-{door.lower()}"
    kafka3.create_topic(topic, partitions=3)
    asked = ["--kafka", kafka3.bootstrap_of(door), "--topic", topic, "--out", str(tmp_path / "log")]
    secret = tmp_path / "secret"
    if door == "TLS":
        kafka3.authority.cert_pem.write_to_path(str(secret))
        who = ["--tls-kafka", "--tls-kafka-ca", str(secret)]
    else:
        secret.write_text(PASSWORD + "\n")
        who = ["--sasl-mechanism", "PLAIN", "--sasl-username", "alice", "--sasl-password-file", str(secret)]
    code, told = read(*asked, *who)
    assert (code, told["problems"], len(told["topics"][topic]["partitions"])) == (0, [], 3)

    if door == "TLS":
        trustme.CA().cert_pem.write_to_path(str(secret))
    else:
        secret.write_text("wrong")
    ran = CliRunner().invoke(app, ["log", "read", *asked, *who])
    assert ran.exit_code == 2
    assert ("certificate" if door == "TLS" else "SASL_AUTHENTICATION_FAILED") in ran.output


def offered(line: str) -> list[str]:
    """What bash offers after Tab at the end of a line."""
    words = line.split(" ")
    asked = {"_NOTLEADER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [str(Path(sys.executable).with_name("notleader"))]
    ran = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60)
    assert not ran.stderr
    return ran.stdout.split()


def test_tab_offers_the_topics_of_the_cluster(kafka: KafkaCluster) -> None:
    for name in ("tab-one", "tab-two", "other-tab"):
        kafka.create_topic(name)
    assert offered(f"notleader log read --kafka {kafka.bootstrap} --topic tab-") == ["tab-one", "tab-two"]
    assert "other-tab" in offered(f"notleader log read --kafka {kafka.bootstrap} --topic ")
    assert not offered("notleader log read --kafka 127.0.0.1:1 --topic ")
    assert not offered("notleader log read --topic ")
