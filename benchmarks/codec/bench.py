"""What decoding and encoding cost per message shape, side by side with the libraries that can be installed.

    python benchmarks/codec/bench.py [--seconds 0.3]

Prints a Markdown table: microseconds of CPU (best of rounds) of notleader, and how many times as long the others
take. kio decodes in compiled Rust; everything else here is Python. `pip install kio kafka-python` adds those two
columns; aiokafka is always there.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from notleader.proxy.wire.codec import Codec, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.records import iter_batches

Case = Callable[[], object]


def record_batch(value_bytes: int = 100, count: int = 1) -> bytes:
    """One v2 batch, as a producer would send it."""
    size = value_bytes * count + 200 * count + 200
    builder = DefaultRecordBatchBuilder(
        2, 0, is_transactional=0, producer_id=7, producer_epoch=0, base_sequence=0, batch_size=size
    )
    for number in range(count):
        builder.append(number, 1700000000000, b"key", bytes(value_bytes), [])
    return bytes(builder.build())


def produce_body(partitions: int) -> dict[str, Any]:
    rows = [{"index": index, "records": record_batch()} for index in range(partitions)]
    return {"acks": -1, "timeout_ms": 30000, "topic_data": [{"name": "orders", "partition_data": rows}]}


def metadata_body(partitions: int) -> dict[str, Any]:
    brokers = [{"node_id": node, "host": f"kafka-{node}.example", "port": 9092} for node in range(3)]
    topics = [
        {
            "name": f"topic-{topic}",
            "partitions": [
                {
                    "partition_index": index,
                    "leader_id": index % 3,
                    "leader_epoch": 4,
                    "replica_nodes": [0, 1, 2],
                    "isr_nodes": [0, 1, 2],
                }
                for index in range(10)
            ],
        }
        for topic in range(partitions // 10)
    ]
    return {"brokers": brokers, "cluster_id": "c", "controller_id": 1, "topics": topics}


def fetch_body(record_bytes: int) -> dict[str, Any]:
    rows = [{"partition_index": 0, "high_watermark": 10, "records": record_batch(record_bytes)}]
    return {"responses": [{"topic": "orders", "partitions": rows}]}


def shapes() -> list[tuple[str, Codec, dict[str, Any]]]:
    """The messages that matter, smallest first; versions that every library knows."""
    return [
        ("Produce v9, 1 partition", request_codec(ApiKey.Produce, 9), produce_body(1)),
        ("Produce v9, 100 partitions", request_codec(ApiKey.Produce, 9), produce_body(100)),
        ("Metadata v12 answer, 10 partitions", response_codec(ApiKey.Metadata, 12), metadata_body(10)),
        ("Metadata v12 answer, 1000 partitions", response_codec(ApiKey.Metadata, 12), metadata_body(1000)),
        ("Fetch v12 answer, 1 MiB", response_codec(ApiKey.Fetch, 12), fetch_body(1 << 20)),
    ]


def ours(codec: Codec, data: bytes) -> tuple[Case, Case]:
    body = codec.decode(data)
    return lambda: codec.decode(data), lambda: codec.encode(body)


def aiokafka_schema(codec: Codec, data: bytes) -> tuple[Case, Case]:
    """The same definition put together from aiokafka's Schema, Array and Compact types."""
    from aiokafka.protocol import types

    class Optional:
        """Tagged fields, all unknown to it: aiokafka's own TaggedFields, which the definitions' ones become."""

    plain = {
        "bool": types.Boolean,
        "int8": types.Int8,
        "int16": types.Int16,
        "int32": types.Int32,
        "int64": types.Int64,
        "string": types.CompactString("utf-8"),
        "bytes": types.CompactBytes,
        "records": types.CompactBytes,
    }

    class Uuid:
        @staticmethod
        def decode(stream: Any) -> bytes:
            return bytes(stream.read(16))

        @staticmethod
        def encode(value: bytes) -> bytes:
            return value

    def schema(fields: Any) -> Any:
        rows = []
        for field in fields:
            if field.tag is None:
                kind = schema(field.fields) if field.kind == "struct" else plain.get(field.kind, Uuid)
                rows.append((field.name, types.CompactArray(kind) if field.is_array else kind))
        return types.Schema(*rows, ("_tags", types.TaggedFields))

    compiled = schema(codec.fields)
    body = compiled.decode(io.BytesIO(data))
    return lambda: compiled.decode(io.BytesIO(data)), lambda: compiled.encode(body)


def kafka_python(codec: Codec, data: bytes) -> tuple[Case, Case]:
    from kafka.protocol import consumer, metadata, producer

    module = {ApiKey.Produce: producer, ApiKey.Metadata: metadata, ApiKey.Fetch: consumer}[ApiKey(codec.api_key)]
    suffix = "Request" if codec.direction == "request" else "Response"
    message = getattr(module, ApiKey(codec.api_key).name + suffix)
    version = codec.api_version
    body = message.decode(data, version=version)
    body._header = None  # a decoded message lacks what its own encode looks at
    return lambda: message.decode(data, version=version), lambda: body.encode(version=version)


def kio(codec: Codec, data: bytes) -> tuple[Case, Case]:
    import importlib

    from kio.serial import entity_reader, entity_writer

    name = ApiKey(codec.api_key).name
    module = importlib.import_module(f"kio.schema.{name.lower()}.v{codec.api_version}.{codec.direction}")
    entity = getattr(module, f"{name}{codec.direction.capitalize()}")
    read, write = entity_reader(entity), entity_writer(entity)
    body, _ = read(data, 0)

    def encode() -> object:
        out = io.BytesIO()
        write(out, body)
        return out

    return lambda: read(data, 0), encode


PEERS = {"aiokafka's types": aiokafka_schema, "kafka-python": kafka_python, "kio": kio}


def best_us(case: Case, seconds: float) -> float:
    """The least time of one call, over several rounds that fill `seconds`."""
    case()
    count = 1
    while True:
        began = time.thread_time()
        for _ in range(count):
            case()
        took = time.thread_time() - began
        if took > seconds / 10:
            break
        count *= 2
    rounds = []
    for _ in range(9):
        began = time.thread_time()
        for _ in range(count):
            case()
        rounds.append((time.thread_time() - began) / count)
    return min(rounds) * 1e6


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each figure")
    seconds = parser.parse_args().seconds
    out = sys.stdout.write
    out("| shape | decode, µs | encode, µs |" + "".join(f" {name} |" for name in PEERS) + "\n")
    out("|---|---|---|" + "---|" * len(PEERS) + "\n")
    for name, codec, body in shapes():
        data = codec.encode(body)
        figures = [best_us(case, seconds) for case in ours(codec, data)]
        row = f"| {name} | {figures[0]:.1f} | {figures[1]:.1f} |"
        for peer in PEERS.values():
            try:
                theirs = [best_us(case, seconds) for case in peer(codec, data)]
                row += f" {theirs[0] / figures[0]:.1f} / {theirs[1] / figures[1]:.1f} |"
            except ImportError:
                row += " not installed |"
            except Exception as error:  # a peer that cannot read the shape is part of the result
                row += f" {type(error).__name__} |"
        out(row + "\n")
    walk = memoryview(record_batch() * 100)
    out(f"\nHeaders of 100 record batches: {best_us(lambda: list(iter_batches(walk)), seconds):.1f} µs\n")


if __name__ == "__main__":
    main()
