"""Conversations that somebody wrote to do harm: kept in tests/golden/hostile.jsonl, and played to a session.

    python -m tests.proxy.wire.hostile add NAME FILE     keep what the fuzzer found (its FILE, see fuzz.py)
    python -m tests.proxy.wire.hostile attacks           keep the attacks below that are not kept yet

What is kept never changes by itself. `reason` is what the proxy wrote down of it, reviewed when it was added.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cramjam

from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.wire.codec import request_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.primitives import uvarint
from tests.proxy.session.conversation import Conversation, framed, request, response
from tests.proxy.wire.frames import recorded

KEPT = Path(__file__).resolve().parents[2] / "golden" / "hostile.jsonl"
# Rules that never strike, but have the bodies of everything read.
READING = (
    {
        "kind": "error",
        "error_code": "NOT_LEADER_OR_FOLLOWER",
        "match": {"topic": "no-such-topic"},
        "trigger": {"times": "forever"},
    },
    {
        "kind": "error",
        "error_code": "NOT_LEADER_OR_FOLLOWER",
        "phase": "after_broker",
        "match": {"topic": "no-such-topic"},
        "trigger": {"times": "forever"},
    },
)


class Attack(NamedTuple):
    """What the client sent and what the broker answered, in bytes with their lengths."""

    name: str
    client: bytes
    broker: bytes = b""


def play(attack: Attack, *, reading: bool, step: int = 0, level: Level | None = None) -> list[str]:
    """What the proxy writes down of it: its events, and what it says of bodies that it could not read.

    With `reading` rules look into every body, and the capture into every record; else it forwards what it can, and the
    capture has headers only, unless it is to record at another `level`.
    `step` is how many bytes arrive at a time, 0 for all at once.
    """
    level = level or (Level.RECORD if reading else Level.HEADER)
    talk = Conversation(*(READING if reading else ()), level=level, max_frame_bytes=16 << 20)
    for data, feed in ((attack.client, talk.client), (attack.broker, talk.broker)):
        for start in range(0, len(data), step or len(data) or 1):
            feed(data[start : start + (step or len(data))])
    talk.session.gone(talk.now_us, "over")
    talk.commands()
    rows = Rows("run", "proxy", 7, level)
    said = []
    for entry in talk.records:
        detail = dict(zip(COLUMNS, rows.of(entry), strict=True))["detail"]
        if isinstance(entry, ConnectionEvent):
            said.append(f"{entry.event}: {entry.detail}")
        elif detail is not None:
            said.append(f"{ApiKey(entry.api_key).name}: {detail}" if entry.api_key in set(ApiKey) else detail)
    return said


def reason(attack: Attack) -> str:
    """The first thing that the proxy holds against it, with all bodies read."""
    return next((said for said in play(attack, reading=True) if not said.startswith("disconnect: over")), "")


def kept() -> Iterator[tuple[Attack, str]]:
    """Every kept attack, and what is written down of it."""
    for line in KEPT.read_text().splitlines():
        row = json.loads(line)
        client, broker = (zlib.decompress(base64.b64decode(row[side])) for side in ("client", "broker"))
        yield Attack(row["name"], client, broker), row["reason"]


def keep(attacks: Iterator[Attack]) -> None:
    """Add those whose names are not taken."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    names = {json.loads(line)["name"] for line in lines}
    for attack in attacks:
        if attack.name not in names:
            packed = {side: base64.b64encode(zlib.compress(getattr(attack, side), 9)).decode() for side in _SIDES}
            lines.append(json.dumps({"name": attack.name, "reason": reason(attack), **packed}))
    KEPT.write_text("".join(f"{line}\n" for line in lines))


_SIDES = ("client", "broker")


def from_fuzzer(name: str, data: bytes) -> Attack:
    """The fuzzer's one string of bytes as a conversation: how long the client's part is, then both."""
    size = int.from_bytes(data[:3], "big")
    return Attack(name, data[3 : 3 + size], data[3 + size :])


def to_fuzzer(attack: Attack) -> bytes:
    """The other way round."""
    return len(attack.client).to_bytes(3, "big") + attack.client + attack.broker


def honest() -> Iterator[Attack]:
    """What recorded clients and brokers said, as conversations of one exchange: where fuzzing starts."""
    for number, exchange in enumerate(recorded()):
        answer = b"" if exchange.response is None else framed(exchange.response)
        yield Attack(f"{exchange!r}-{number}", framed(exchange.request), answer)


def attacks() -> Iterator[Attack]:
    """One of each kind of lie."""
    fetch = request(ApiKey.Fetch, 16, 1)
    produce = request(ApiKey.Produce, 9, 1, {"acks": 1})
    metadata = request(ApiKey.Metadata, 12, 1, {"topics": None})
    yield Attack("http", b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")
    yield Attack("tls", bytes.fromhex("1603010200010001fc0303") + bytes(500))
    yield Attack("length-negative", struct.pack(">i", -1) + bytes(100))
    yield Attack("length-of-2-gib", struct.pack(">i", (1 << 31) - 1) + bytes(100))
    yield Attack("length-too-small", struct.pack(">i", 3) + bytes(100))
    yield Attack("api-key-unknown", framed(struct.pack(">hhih", 999, 0, 1, -1)))
    yield Attack("api-key-negative", framed(struct.pack(">hhih", -5, 0, 1, -1)))
    yield Attack("client-id-longer-than-frame", framed(struct.pack(">hhih", 3, 0, 1, 30_000)))
    yield Attack("answer-nobody-asked-for", b"", response(ApiKey.Metadata, 1, 9))
    yield Attack("answer-with-another-correlation-id", metadata, response(ApiKey.Metadata, 12, 2))
    yield Attack("answer-twice", metadata, response(ApiKey.Metadata, 12, 1) * 2)
    yield Attack("answer-of-2-gib", metadata, struct.pack(">ii", (1 << 31) - 1, 1))
    yield Attack("answer-of-nothing", metadata, struct.pack(">ii", 0, 1))
    for name, tail in {
        "varint-bomb": b"\xff" * 300_000,
        "tag-bomb": b"\xff\xff\xff\xff\x0f" + bytes(300_000),
        "array-bomb": b"\xfe\xff\xff\xff\x07" + b"\x02" * 300_000,
        "deep-arrays": b"\x02" * 300_000,
    }.items():
        head = encode_request_header(ApiKey.Metadata, 12, 1, "c")
        yield Attack(f"{name}-in-header", framed(head[:-1] + tail))
        for key, version in ((ApiKey.Metadata, 12), (ApiKey.Produce, 9), (ApiKey.OffsetCommit, 8), (ApiKey.Fetch, 16)):
            yield Attack(f"{name}-in-{key.name}", framed(encode_request_header(key, version, 1, "c") + tail))
        for asked, key, version in ((fetch, ApiKey.Fetch, 16), (metadata, ApiKey.Metadata, 12)):
            answer = encode_response_header(key, version, 1)
            fixed = bytes(10 if key == ApiKey.Fetch else 4)
            yield Attack(f"{name}-in-{key.name}-answer", asked, framed(answer + fixed + tail))
    empties = [{"name": "t", "partitions": []}] * 450_000
    yield Attack("half-a-million-objects", metadata, response(ApiKey.Metadata, 12, 1, {"topics": empties}))
    transactions = [{"producer_id": 1, "first_offset": 1}] * 60_000
    partition = {"partition_index": 0, "aborted_transactions": transactions}
    yield Attack(
        "aborted-transactions", fetch, response(ApiKey.Fetch, 16, 1, {"responses": [{"partitions": [partition]}]})
    )
    for compression in ("gzip", "snappy", "lz4", "zstd"):
        yield Attack(f"bomb-{compression}", _produce([bomb(compression)]))
    yield Attack("many-bombs", _produce([bomb("zstd", 40 << 20)] * 20))
    yield Attack("batch-length-negative", _produce([struct.pack(">qiib", 0, -5, 0, 2) + bytes(60)]))
    yield Attack("batch-magic-unknown", _produce([struct.pack(">qiib", 0, 60, 0, 9) + bytes(60)]))
    yield Attack("record-count-negative", _produce([_batch(b"", count=-1)]))
    yield Attack("record-count-huge", _produce([_batch(b"\x02\x00", count=(1 << 31) - 1)]))
    yield Attack("record-length-lies", _produce([_batch(b"\xfe\xff\xff\xff\x0f" + bytes(20), count=1)]))
    yield Attack("tiny-messages", _message_sets(_message(b"", 0) * 20_000))
    yield Attack("message-inside-message", _message_sets(_message(_gzip(_message(_gzip(b""), 1)), 1)))
    yield Attack("acks-cut-off", struct.pack(">i", 14) + produce[4:18])
    yield Attack("handshake-then-garbage", request(ApiKey.SaslHandshake, 0, 1, {"mechanism": "PLAIN"}) + b"\xff" * 99,
                 response(ApiKey.SaslHandshake, 0, 1, {"error_code": 0, "mechanisms": ["PLAIN"]}))  # fmt: skip
    versions = request_codec(ApiKey.ApiVersions, 3).encode({"client_software_name": "\n\x1b[31m" * 200})
    yield Attack(
        "control-characters-in-names", framed(encode_request_header(ApiKey.ApiVersions, 3, 1, "\x00\n") + versions)
    )
    for number, exchange in enumerate(recorded()):
        if number % 9 == 0 and exchange.response is not None:
            cut = exchange.response[: len(exchange.response) * 2 // 3]
            yield Attack(f"cut-answer-{exchange!r}", framed(exchange.request), framed(cut))
        if number % 9 == 4:
            flipped = bytes(byte ^ (0x55 if place % 17 == 13 else 0) for place, byte in enumerate(exchange.request))
            yield Attack(f"flipped-{exchange!r}", framed(flipped))


def bomb(compression: str, size: int = 200 << 20) -> bytes:
    """A batch of one record, whose value is `size` bytes of nothing."""
    content = b"\0\0\0\x01" + _varint(size) + bytes(size) + b"\0"
    plain = _varint(len(content)) + content
    pack = {
        "gzip": lambda: gzip.compress(plain, 9, mtime=0),
        "snappy": lambda: bytes(cramjam.snappy.compress_raw(plain)),
        "lz4": lambda: bytes(cramjam.lz4.compress(plain)),
        "zstd": lambda: bytes(cramjam.zstd.compress(plain, 19)),
    }[compression]
    return _batch(pack(), attributes=("none", "gzip", "snappy", "lz4", "zstd").index(compression))


def _varint(value: int) -> bytes:
    """A number of a record, zigzag."""
    return uvarint(2 * value)


def _batch(content: bytes, *, count: int = 1, attributes: int = 0) -> bytes:
    head = struct.pack(">ibIhiqqqhii", 0, 2, 0, attributes, 0, 0, 0, -1, -1, -1, count)
    return struct.pack(">qi", 0, len(head) + len(content)) + head + content


def _produce(batches: list[bytes]) -> bytes:
    partitions = [{"index": index, "records": records} for index, records in enumerate(batches)]
    return request(ApiKey.Produce, 9, 1, {"acks": 1, "topic_data": [{"name": "t", "partition_data": partitions}]})


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _message(value: bytes, attributes: int) -> bytes:
    body = struct.pack(">bbii", 0, attributes, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def _message_sets(records: bytes) -> bytes:
    body: dict[str, Any] = {
        "acks": 1,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
    }
    return request(ApiKey.Produce, 2, 1, body)


def main() -> None:
    """Adds to what is kept."""
    match sys.argv[1:]:
        case ["add", name, file]:
            keep(iter([from_fuzzer(name, Path(file).read_bytes())]))
        case ["attacks"]:
            keep(attacks())
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
