"""What a real client did, exported: Wireshark's own Kafka dissector reads it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
import subprocess
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.capture.conftest import RunProxy, notleader
from tests.tools.programs import need

pytestmark = pytest.mark.kafka

FAULTS = """
faults:
  - name: lost-leader
    kind: error
    error_code: NOT_LEADER_OR_FOLLOWER
    match: {api_key: Produce, topic: exported}
    trigger: {times: 1, skip: 2}
  - name: cut
    kind: reset
    match: {api_key: Produce, topic: exported}
    trigger: {times: 1, skip: 6}
"""


@pytest.fixture
async def capture(kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path) -> Path:
    """Twelve records produced and consumed at payload level, one refusal and one reset on the way."""
    topic = "exported"
    kafka.create_topic(topic, partitions=1)
    folder = tmp_path / "capture"
    config = tmp_path / "faults.yaml"
    config.write_text(FAULTS)
    with run_proxy(
        "--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-level", "payload", "--config", str(config)
    ) as running:
        address = str(running.listen)
        async with AIOKafkaProducer(bootstrap_servers=address, client_id="exporter") as producer:
            for number in range(12):
                await producer.send_and_wait(topic, b"value %d" % number + b"x" * (70_000 if number == 5 else 0))
        async with AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            for _ in range(12):
                await consumer.getone()
        process = running.process
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0
    return folder


def fields(file: Path, *arguments: str) -> list[list[str]]:
    done = subprocess.run(
        [need("tshark"), "-r", str(file), "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


async def test_tshark_reads_the_exported_packets(capture: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.pcapng"
    told = json.loads(notleader("capture", "export", str(capture), str(file), "--to", "pcapng", "--json").stdout)
    rows = [
        json.loads(line)
        for line in notleader("capture", "export", str(capture), "-", "--to", "jsonl").stdout.splitlines()
    ]
    exchanges = [row for row in rows if row["event"] == "exchange"]
    assert told["exchanges"] == len(exchanges)
    assert told["without_frames"] == 0

    # Every request is found, with its API, version and correlation id, on the stream of its connection.
    requests = fields(
        file, "-Y", "kafka.request_key", "-T", "fields", "-E", "occurrence=a",
        "-e", "tcp.srcport", "-e", "kafka.request_key", "-e", "kafka.request.version", "-e", "kafka.correlation_id",
    )  # fmt: skip
    sent = []
    for port, *columns in requests:
        api_keys, versions, ids = (column.split(",") for column in columns)
        sent += [(port, *one) for one in zip(api_keys, versions, ids, strict=False)]
    expected = [
        (
            row["client_addr"].rpartition(":")[2],
            str(row["api_key"]),
            str(row["api_version"]),
            str(row["correlation_id"]),
        )
        for row in exchanges
    ]
    assert sorted(set(sent) & set(expected)) == sorted(set(expected))

    # One stream per connection, no hole, no repetition, no wrong checksum, nothing malformed.
    connections = {row["connection_id"] for row in rows if row["connection_id"] is not None}
    streams = {stream for (stream,) in fields(file, "-T", "fields", "-e", "tcp.stream")}
    assert len(streams) == len(connections)
    odd = [f"tcp.analysis.{what}" for what in ("lost_segment", "retransmission", "out_of_order", "ack_lost_segment")]
    odd += ["tcp.checksum.status == 0", "ip.checksum.status == 0"]
    assert fields(file, "-Y", " or ".join(odd)) == []
    times = [float(at) for (at,) in fields(file, "-T", "fields", "-e", "frame.time_epoch")]
    assert times == sorted(times)
    assert times[0] == pytest.approx(min(row["request_at_us"] for row in rows) / 1e6, abs=1e-5)

    # The records can be followed into the answers, and the faults stand beside them.
    topics = fields(file, "-Y", "kafka.request_key == 0", "-T", "fields", "-e", "kafka.topic_name")
    assert {topic.split(",")[0] for (topic,) in topics} == {"exported"}
    refused = fields(file, "-Y", "kafka.error == 6", "-T", "fields", "-e", "tcp.dstport")
    assert len(refused) == 1
    comments = [comment for (comment,) in fields(file, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")]
    faults = [comment for comment in comments if comment.startswith("notleader fault")]
    assert faults == [
        "notleader fault: lost-leader (error), before_broker; injected",
        "notleader fault: cut (reset), before_broker; closed",
    ]
    assert fields(file, "-Y", "tcp.flags.reset == 1", "-T", "fields", "-e", "frame.comment") == [
        ["notleader: reset by fault cut"]
    ]


async def test_csv_and_json_lines_have_every_row_and_a_filter_fewer(capture: Path, tmp_path: Path) -> None:
    lines = notleader("capture", "export", str(capture), "-", "--to", "jsonl", "--filter", "api == Produce").stdout
    documents = [json.loads(line) for line in lines.splitlines()]
    assert {row["api_name"] for row in documents} == {"Produce"}
    text = notleader("capture", "export", str(capture), "-", "--to", "csv", "--filter", "api == Produce").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["correlation_id"] for row in rows] == [str(row["correlation_id"]) for row in documents]
    assert json.loads(rows[0]["partitions"])[0]["topic"] == "exported"

    (tmp_path / "target").mkdir()
    notleader("capture", "export", str(capture), str(tmp_path / "target"), "--to", "csv", code=2)
    notleader("capture", "export", str(capture), "-", "--to", "pcap", code=2)


async def test_one_exchange_is_shown_in_full(capture: Path) -> None:
    (one,) = json.loads(notleader("capture", "show", str(capture), "fault == lost-leader", "--json").stdout)
    assert one["outcome"] == "injected"
    assert one["request"]["body"]["topic_data"][0]["name"] == "exported"
    (batch,) = one["request"]["body"]["topic_data"][0]["partition_data"][0]["records"]
    assert batch["records"][0]["value"].startswith("value 2")
    answer = one["response"]["body"]["responses"][0]["partition_responses"][0]
    assert answer["error_code"] == "6 NOT_LEADER_OR_FOLLOWER"
    drawn = notleader("capture", "show", str(capture), "fault == lost-leader").stdout
    assert "error_code: 6 NOT_LEADER_OR_FOLLOWER" in drawn
    assert "\x1b[" not in drawn


async def test_below_payload_level_there_are_no_packets(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    from tests.integration.capture.load import Load

    folder = tmp_path / "capture"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder)) as running:
        await Load(running.listen).run(requests=3)
        assert await asyncio.to_thread(running.end, signal.SIGTERM) == 0
    done = notleader("capture", "export", str(folder), str(tmp_path / "x.pcapng"), "--to", "pcapng", code=1)
    assert done.stderr.strip() == "the capture holds no frames: record with --capture-level payload"
    assert not (tmp_path / "x.pcapng").exists()
