"""Captures and outcomes made by hand, for tests and benchmarks: real Parquet in the capture's own layout."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

START_US = 1_750_000_000_000_000
MS = 1000

PARTITION = pa.struct(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition_index", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("record_count", pa.int32()),
        ("batch_bytes", pa.int64()),
        ("compression", pa.string()),
        ("base_offset", pa.int64()),
        ("error_code", pa.int16()),
        ("leader_epoch", pa.int32()),
        ("message_ids", pa.list_(pa.string())),
        ("key_hashes", pa.list_(pa.int64())),
    ]
)
EFFECT = pa.struct(
    [
        ("rule", pa.string()),
        ("kind", pa.string()),
        ("did", pa.string()),
        ("error_code", pa.int16()),
        ("partitions", pa.list_(pa.int32())),
        ("held_us", pa.int64()),
        ("offsets_before", pa.list_(pa.int64())),
    ]
)
EXCHANGE = pa.schema(
    [
        ("run_id", pa.string()),
        ("proxy_id", pa.string()),
        ("connection_id", pa.int64()),
        ("exchange_seq", pa.int64()),
        ("event", pa.string()),
        ("client_addr", pa.string()),
        ("listener", pa.string()),
        ("node_id", pa.int32()),
        ("client_id", pa.string()),
        ("client_software_name", pa.string()),
        ("client_software_version", pa.string()),
        ("principal", pa.string()),
        ("api_key", pa.int16()),
        ("api_name", pa.string()),
        ("api_version", pa.int16()),
        ("correlation_id", pa.int32()),
        ("request_at_us", pa.int64()),
        ("forwarded_at_us", pa.int64()),
        ("broker_responded_at_us", pa.int64()),
        ("response_at_us", pa.int64()),
        ("request_bytes", pa.int64()),
        ("response_bytes", pa.int64()),
        ("outcome", pa.string()),
        ("error_code", pa.int16()),
        ("throttle_time_ms", pa.int32()),
        ("fault_names", pa.list_(pa.string())),
        ("fault_kinds", pa.list_(pa.string())),
        ("fault_phase", pa.string()),
        ("effects", pa.list_(EFFECT)),
        ("seed", pa.int64()),
        ("transactional_id", pa.string()),
        ("group_id", pa.string()),
        ("acks", pa.int16()),
        ("partitions", pa.list_(PARTITION)),
        ("detail", pa.string()),
        ("request_frame", pa.binary()),
        ("response_frame", pa.binary()),
    ]
)
LOG = pa.schema(
    [
        ("run_id", pa.string()),
        ("event", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("message_id", pa.string()),
        ("key_hash", pa.int64()),
        ("transaction", pa.string()),
        ("log_start_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("cleanup_policy", pa.string()),
        ("delete_retention_ms", pa.int64()),
        ("read_at_us", pa.int64()),
        ("problem", pa.string()),
    ]
)
API_KEYS = {"Produce": 0, "Fetch": 1, "Metadata": 3, "OffsetCommit": 8, "FindCoordinator": 10, "ApiVersions": 18}


@dataclass
class Story:
    """What happened, told in ms since the start; write it out as a capture folder and an outcomes file."""

    run_id: str = "run-1"
    client: str = "app"
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)

    def exchange(self, at_ms: float, api_name: str, **given: Any) -> dict[str, Any]:
        """One exchange row; `took_ms` None means no response. Returns the row for further changes."""
        took_ms = given.pop("took_ms", 2.0)
        at_us = START_US + int(at_ms * MS)
        ended = None if took_ms is None else at_us + int(took_ms * MS)
        fault = given.pop("fault", None)
        row = {
            **dict.fromkeys(EXCHANGE.names),
            "run_id": self.run_id,
            "proxy_id": "proxy-1",
            "connection_id": 1,
            "exchange_seq": len(self.exchanges) + 1,
            "event": "exchange",
            "client_addr": "127.0.0.1:40000",
            "listener": "broker-1",
            "node_id": 1,
            "client_id": self.client,
            "api_key": API_KEYS.get(api_name, 99),
            "api_name": api_name,
            "api_version": 9,
            "request_at_us": at_us,
            "forwarded_at_us": at_us,
            "response_at_us": ended,
            "outcome": "answered" if ended else "no_response",
            "error_code": 0,
            "fault_names": [fault[0]] if fault else [],
            "fault_kinds": [fault[1]] if fault else [],
            "fault_phase": "before_broker" if fault else None,
            "partitions": [],
            **given,
        }
        self.exchanges.append(row)
        return row

    def produce(self, at_ms: float, partition: int = 0, **given: Any) -> dict[str, Any]:
        """One Produce of one batch; the batch's own facts by PARTITION's names."""
        names = {f.name for f in PARTITION} - {"error_code"}
        batch = {name: given.pop(name) for name in names & set(given)}
        code = given.get("error_code", 0)
        batch = {
            **dict.fromkeys(f.name for f in PARTITION),
            "topic": "orders",
            "partition_index": partition,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "record_count": len(batch.get("message_ids") or [0]),
            "base_offset": -1,
            "error_code": code,
            **batch,
        }
        return self.exchange(at_ms, "Produce", partitions=[batch], **{"acks": -1, **given})

    def send(self, at_ms: float, message_id: str | None, **given: Any) -> dict[str, Any]:
        """One send as a recorder tells it; `took_ms` None with outcome pending."""
        took_ms = given.pop("took_ms", 5.0)
        blocked_ms = given.pop("blocked_ms", 0.1)
        called = START_US + int(at_ms * MS)
        row = {
            "client": self.client,
            "run_id": self.run_id,
            "client_version": "1.0",
            "operation": "send",
            "message_id": message_id,
            "topic": "orders",
            "partition": 0,
            "offset": None,
            "called_at_us": called,
            "returned_at_us": None if blocked_ms is None else called + int(blocked_ms * MS),
            "completed_at_us": None if took_ms is None else called + int(took_ms * MS),
            "outcome": "pending" if took_ms is None else "ok",
            "error": None,
            "thread": "main",
            **given,
        }
        self.outcomes.append(row)
        return row

    def poll(self, at_ms: float, message_id: str | None, offset: int | None, **given: Any) -> dict[str, Any]:
        """One record that a consumer got; without `offset` a call that brought none."""
        at_us = START_US + int(at_ms * MS)
        row = {
            "client": f"{self.client}-reader",
            "run_id": self.run_id,
            "operation": "poll",
            "message_id": message_id,
            "topic": "orders",
            "partition": 0,
            "offset": offset,
            "called_at_us": at_us,
            "returned_at_us": at_us,
            "completed_at_us": at_us,
            "outcome": "ok",
            **given,
        }
        self.outcomes.append(row)
        return row

    def holds(self, *messages: str | None, start: int = 0, **given: Any) -> None:
        """The log as it was read at the end, a partition with these messages from `start` on.

        A message is `id`, `id:aborted`, `id@key_hash`, "" for a record without id, or None where there is none.
        `written_ms` has the timestamps of the first of them, since the start.
        """
        written = [START_US // 1000 + at_ms for at_ms in given.pop("written_ms", ())]
        place = {"run_id": self.run_id, "topic": given.pop("topic", "orders"), "partition": given.pop("partition", 0)}
        for offset, message in enumerate(messages, start):
            if message is not None:
                name, _, transaction = message.partition(":")
                name, _, key = name.partition("@")
                record = {"message_id": name or None, "transaction": transaction or None, "event": "record"}
                record["event"] = "control" if name == "marker" else "record"
                at_ms = written[offset - start] if offset - start < len(written) else None
                row = {**place, **record, "offset": offset, "key_hash": int(key) if key else None}
                self.log.append({**row, "timestamp_ms": at_ms})
        about = {
            "event": "partition",
            "log_start_offset": start,
            "log_end_offset": start + len(messages),
            "cleanup_policy": "delete",
            "delete_retention_ms": 86_400_000,
            "read_at_us": START_US + 3_600_000_000,
        }
        self.log.append({**place, **about, **given})

    def add(self, other: Story) -> None:
        """Take in another story's rows."""
        self.exchanges += other.exchanges
        self.outcomes += other.outcomes
        self.log += other.log

    def write(self, folder: Path) -> tuple[Path, Path]:
        """(capture folder, outcomes file)."""
        capture = folder / "capture"
        segment = capture / "date=2025-06-15" / f"run={self.run_id}" / "proxy-1-000001.parquet"
        segment.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(self.exchanges, schema=EXCHANGE), segment, compression="zstd")
        if self.log:
            (folder / "log").mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist(self.log, schema=LOG), folder / "log" / "log-orders-0.parquet")
        said = folder / "outcomes.jsonl"
        said.write_text("".join(json.dumps(row) + "\n" for row in self.outcomes))
        return capture, said


def incident(messages: int = 200, partitions: int = 2) -> Story:
    """A run with one of everything: a lost leader, a stall, a dropped answer; records doubled, lost and pending."""
    story = Story()
    offsets = dict.fromkeys(range(partitions), 0)
    for number in range(messages):
        at, partition, message = 20.0 * number, number % partitions, f"m{number}"
        sequence = number // partitions
        batch = {"message_ids": [message], "producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        took = 4.0
        if partition == 0 and 1000 <= at < 1200:
            for attempt in range(3):
                story.produce(
                    at + 0.5 + 600 * attempt, partition, **batch, error_code=6, outcome="injected", took_ms=0.3,
                    fault=("lose-leader", "error"),
                )  # fmt: skip
            story.produce(at + 2000, partition, **batch, base_offset=offsets[partition], took_ms=3)
            took = 2004.0
        elif number == 101:
            story.produce(
                at + 0.5, partition, **batch, outcome="dropped", took_ms=None, base_offset=offsets[partition],
                fault=("swallow-answer", "drop_response"), fault_phase="after_broker",
            )  # fmt: skip
            story.poll(at + 40, message, offsets[partition], partition=partition)
            offsets[partition] += 1
            story.produce(at + 900, partition, **batch, base_offset=offsets[partition])
            took = 905.0
        elif number == 131:
            story.produce(
                at + 0.5, partition, **batch, base_offset=offsets[partition], took_ms=1500,
                fault=("slow-answer", "stall"), fault_phase="after_broker",
            )  # fmt: skip
            took = 1502.0
        elif number == 151:
            story.produce(at + 0.5, partition, **batch, outcome="dropped", took_ms=None, fault=("eat", "drop_request"))
            story.send(at, message, partition=None, took_ms=None)
            continue
        else:
            story.produce(at + 0.5, partition, **batch, base_offset=offsets[partition])
        offset = offsets[partition]
        offsets[partition] += 1
        story.send(at, message, partition=partition, offset=offset, took_ms=took)
        if number != 120:
            story.poll(at + took + 20, message, offset, partition=partition)
        if number % 10 == 0:
            story.exchange(at + 1, "Metadata", took_ms=1.0)
        story.exchange(at, "Fetch", took_ms=18.0, client_id=f"{story.client}-reader", connection_id=2)
    return story
