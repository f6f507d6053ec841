"""What `session.cutting` plays, and where it cuts: recorded exchanges, one of each API and version, large ones.

Small frames are cut at every place, large ones around what they are made of and around the sizes that the code knows.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from notleader.proxy.record.rows import Level
from notleader.proxy.wire.addresses import carriers
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from tests.faults.script import random_body
from tests.faults.unhittable import unhittable
from tests.proxy.record.batches import built
from tests.proxy.session.conversation import framed
from tests.proxy.session.cutting import Said, Stage

_FRAMES: Final = Path(__file__).resolve().parents[2] / "golden" / "frames"
_BEHIND: Final = 12  # so far into what follows a frame it is cut, too
SIZES: Final = (512, 1024, 4 << 10, 64 << 10, 256 << 10)
"""Where the code does something else: what is copied, searched for acks, kept of a head, walked over, joined."""
_BROKER: Final = {"node_id": 2, "host": "real", "port": 9092, "rack": None}
_TOPIC_ID: Final = UUID(int=7)
_NUMBER: Final = 11

Cuts = Iterable[tuple[Sequence[int], Sequence[int]]]


def plays(exhaustive: bool) -> Iterator[tuple[Stage, Said, Cuts]]:
    """Every exchange with each stage that it is played on, and its cuts.

    ``exhaustive`` cuts the small ones at every place on every stage, and the large ones at many more.
    """
    random = Random(25)
    stages = [Stage(None), Stage(Level.HEADER), Stage(Level.PARTITION), Stage(Level.RECORD), Stage(Level.PAYLOAD)]
    elsewhere = Stage(Level.PARTITION, unhittable())  # every frame is put together, and most are read
    shedding = Stage(Level.RECORD, most_kept_bytes=1)  # of all but small frames no more is kept than is told
    main = stages[2]
    small = [*recorded(exhaustive), *of_every_api(random)]
    for said in small:
        # Half of an exchange at every place takes as long as all of the others.
        every = exhaustive or (len(said.request) + len(said.answer) < 500 and random.random() < 0.1)
        yield main, said, cuts(said, random, every=every, most=6)
    for number, said in enumerate([*small, *fetches(), *produces()]):
        chosen = [*stages, elsewhere, shedding] if exhaustive else [elsewhere, stages[number % 5]]
        for stage in chosen:
            yield stage, said, cuts(said, random, every=exhaustive, most=4)
    large = [*large_fetches(), *large_produces()]
    for number, said in enumerate(large if exhaustive else random.sample(large, len(large) // 2)):
        third = (stages[number % 5], elsewhere)[number % 3 == 0]
        for stage in (*stages, elsewhere, shedding) if exhaustive else (stages[0], main, third):
            yield stage, said, large_cuts(said, random, 400 if exhaustive else 9)


def cuts(said: Said, random: Random, *, every: bool, most: int = 40) -> Cuts:
    """In two pieces, at every place or at some, and now and then in three; both directions at once."""
    sizes = [len(frame) + _BEHIND for frame in (said.request, said.answer)]
    if every:
        places: list[list[int]] = [list(range(1, size)) for size in sizes]
    else:
        places = [sorted(random.sample(range(1, size), min(most, size - 1))) for size in sizes]
    for asked, answered in zip_longest(*places):
        yield (() if asked is None else (asked,)), (() if answered is None else (answered,))
    for _ in range(max(map(len, places)) // 4):
        yield tuple(_two(random, sizes[0])), tuple(_two(random, sizes[1]))
    yield range(1, sizes[0]), range(1, sizes[1])


def large_cuts(said: Said, random: Random, most: int) -> Cuts:
    """Around where the parts of a large frame begin and end, and around the sizes that mean something."""
    asked, answered = (_around(frame, random, most) for frame in (said.request, said.answer))
    for one, other in zip_longest(asked, answered):
        yield (() if one is None else (one,)), (() if other is None else (other,))
    for _ in range(most // 2):
        yield (
            sorted({random.choice(asked), random.choice(asked)}),
            sorted({random.choice(answered), random.choice(answered)}),
        )
    for piece in (1000, 4096, 16 << 10, 64 << 10, 256 << 10):
        yield range(piece, len(said.request), piece), range(piece, len(said.answer), piece)


def _around(frame: bytes, random: Random, most: int) -> list[int]:
    """Places to cut: all of a short frame's beginning and end, ends of the batches in it, and near `SIZES`."""
    size = len(frame) + _BEHIND
    ends = {place for edge in _edges(frame) for place in range(edge - 3, edge + 9)}
    near = {edge + by for edge in SIZES for by in (-5, -4, -1, 0, 1, 4)}
    near |= {size - edge for edge in SIZES}
    start = set(range(1, 150)) | set(range(size - 60, size))
    exact = _edges(frame)
    chosen = [place for place in {*ends, *near, *start} if 0 < place < size]
    kept = random.sample(sorted(chosen), min(most, len(chosen)))
    return sorted({*kept, *(place for place in exact if 0 < place < size)})


def _edges(frame: bytes) -> set[int]:
    """Where record batches begin and end, and their headers; `_batch` has them all from one producer."""
    edges: set[int] = set()
    at = frame.find(_PRODUCER)
    while at >= 0:
        start = at - _PRODUCER_AT
        size = int.from_bytes(frame[start + 8 : start + 12]) + 12
        edges |= {start, start + 61, start + size}
        at = frame.find(_PRODUCER, start + size)
    return edges


_PRODUCER_ID: Final = 0x0BA7C4_0BA7C4
_PRODUCER: Final = _PRODUCER_ID.to_bytes(8)
_PRODUCER_AT: Final = 43


@cache
def _batch(size: int) -> bytes:
    """A batch of one record, of this many bytes in all or one less."""

    def of(value_bytes: int) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, 0, _PRODUCER_ID, 1, 0, 1 << 24)
        builder.append(0, timestamp=1, key=None, value=bytes(value_bytes), headers=[])
        return bytes(builder.build())

    return of(size - (len(of(size)) - size))


def _two(random: Random, size: int) -> list[int]:
    return sorted({random.randrange(1, size), random.randrange(1, size)})


# ---- what is said -------------------------------------------------------------------------------


def _said(
    name: str, api_key: ApiKey, version: int, asked: dict[str, Any], answer: dict[str, Any] | None, client_id: str = "c"
) -> Said:
    request = encode_request_header(api_key, version, _NUMBER, client_id) + request_codec(api_key, version).encode(
        asked
    )
    codec = response_codec(api_key, version)
    whole = b""
    if answer is not None:
        whole = framed(encode_response_header(api_key, version, _NUMBER) + codec.encode(answer))
    rewritten = api_key == ApiKey.ApiVersions or bool(carriers(codec))
    hidden = b""
    if api_key in (ApiKey.Produce, ApiKey.Fetch):
        rewritten = answer is not None and bool(answer.get("node_endpoints"))
        if answer is not None and rewritten:
            # The body without its last byte (no tagged fields), how many there are, and the number of the one.
            at = len(codec.encode({**answer, "node_endpoints": []})) - 1 - len(codec.encode(answer))
            assert whole[at:][:2] == b"\1\0"
            hidden = whole[: at + 1] + b"\x7f" + whole[at + 2 :]
    return Said(f"{name} v{version}", framed(request), whole, rewritten, hidden)


def recorded(every: bool) -> Iterator[Said]:
    """Exchanges of real clients and brokers: each API and version of each client, or all that there are."""
    found: set[Any] = set()
    for path in sorted(_FRAMES.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines()[1:]:
            row = json.loads(line)
            request, answer = base64.b64decode(row["request"]), base64.b64decode(row.get("response") or "")
            key = (request, answer) if every else (request[:4], bool(answer))
            if key in found:
                continue
            found.add(key)
            api_key, version = int.from_bytes(request[:2]), int.from_bytes(request[2:4])
            rewritten = api_key == ApiKey.ApiVersions or bool(carriers(response_codec(api_key, version)))
            if api_key in (ApiKey.Produce, ApiKey.Fetch):
                rewritten = False  # what was recorded names no endpoints
            yield Said(f"{path.stem} {row['api']}", framed(request), framed(answer) if answer else b"", rewritten)


def of_every_api(random: Random) -> Iterator[Said]:
    """Each version of each API, with something in every field."""
    for api_key in ApiKey:
        for version in known_versions(api_key):
            asked = random_body(request_codec(api_key, version).fields, random)
            answer = random_body(response_codec(api_key, version).fields, random)
            if api_key == ApiKey.SaslHandshake:
                answer["error_code"] = 33  # else what follows is no Kafka
            if api_key == ApiKey.Produce:
                asked["acks"] = -1
            yield _said(api_key.name, api_key, version, asked, answer)


def _fetch(version: int, partitions: list[dict[str, Any]], topics: int, **answer: Any) -> Said:
    named = [{"topic": f"orders-{number}", "topic_id": _TOPIC_ID} for number in range(topics)]
    asked = {
        "max_wait_ms": 1,
        "topics": [
            {**topic, "partitions": [{"partition": p["partition_index"]} for p in partitions]} for topic in named
        ],
    }
    responses = [{**topic, "partitions": partitions} for topic in named]
    sizes = [len(partition.get("records") or b"") for partition in partitions]
    return _said(f"Fetch of {topics} times {sizes}", ApiKey.Fetch, version, asked, {"responses": responses, **answer})


def _partition(index: int, records: bytes | None, **fields: Any) -> dict[str, Any]:
    return {"partition_index": index, "high_watermark": 9, "records": records, "aborted_transactions": None, **fields}


_LEADER: Final = {"error_code": 6, "current_leader": {"leader_id": 2, "leader_epoch": 4}}


def fetches() -> Iterator[Said]:
    """Fetch answers of all versions: topics, partitions, batches, aborted transactions, tagged fields, endpoints."""
    real = built([(b"k", b"v" * 20, [("h", b"x")]), (None, b"w", [])])
    aborted = [{"producer_id": n, "first_offset": n} for n in range(3)]
    for version in range(4, known_versions(ApiKey.Fetch).stop):
        several = [
            _partition(0, real + real),
            _partition(1, b""),
            _partition(2, None),
            _partition(3, real, aborted_transactions=aborted),
            _partition(4, real + real[:70]),
        ]
        yield _fetch(version, several, 2)
        yield _fetch(version, [_partition(0, real)], 1)
        yield _fetch(version, [], 0)
        if version >= 12:
            odd = [_partition(0, b"", **_LEADER), _partition(1, real, diverging_epoch={"epoch": 3, "end_offset": 9})]
            yield _fetch(version, odd, 1)
        if version >= 16:
            odd = [_partition(0, b"", **_LEADER), _partition(1, real)]
            yield _fetch(version, odd, 1, node_endpoints=[_BROKER, {**_BROKER, "node_id": 3}])


def produces() -> Iterator[Said]:
    """Produces of all versions: acks, transactions, several partitions, refusals, endpoints, long names."""
    real = built([(b"k", b"v" * 20, [])])
    for version in range(3, known_versions(ApiKey.Produce).stop):
        for acks, transactional_id, client_id, partitions in (
            (-1, None, "c", 1),
            (0, None, "c", 1),
            (1, "tx", "x" * 300, 3),
            (0, "t" * 700, "c", 2),
        ):
            data = [{"index": index, "records": real} for index in range(partitions)]
            topics = [{"name": "orders", "topic_id": _TOPIC_ID, "partition_data": data}]
            asked = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 1, "topic_data": topics}
            told = [{"index": index, "base_offset": 5} for index in range(partitions)]
            endpoints: list[Any] = []
            if version >= 10 and partitions == 3:
                told[1] |= _LEADER
                endpoints = [_BROKER]
            answers = [{"name": "orders", "topic_id": _TOPIC_ID, "partition_responses": told}]
            answer = {"responses": answers, "node_endpoints": endpoints} if acks else None
            yield _said(f"Produce acks={acks}", ApiKey.Produce, version, asked, answer, client_id)


def large_fetches() -> Iterator[Said]:
    """Answers whose partitions, batches and whole are as large as the code's own sizes, or one byte off."""
    for number, size in enumerate((4 << 10, 64 << 10, 256 << 10)):
        for by in (-1, 0, 1):
            for version in (11, 13, 16 + number, 18):
                one = [_partition(0, _batch(size + by))]
                yield _fetch(version, one, 1)
                yield _fetch(version, [_partition(0, _batch(size + by)), _partition(1, _batch(200) + _batch(5000))], 1)
        for version in (4, 12, 17):
            several = [_partition(0, _batch(size) + _batch(70_000)), _partition(1, b""), _partition(2, _batch(size))]
            yield _fetch(version, several, 2)
            if version >= 16:
                odd = [*several, _partition(3, b"", **_LEADER)]
                yield _fetch(version, odd, 1, node_endpoints=[_BROKER])
    # The whole frame of just that size, and records that are no batches.
    for size in SIZES:
        for by in (-1, 0, 1):
            empty = len(_fetch(17, [_partition(0, b"x" * size)], 1).answer) - size
            yield _fetch(17, [_partition(0, b"x" * (size + by - empty))], 1)


def large_produces() -> Iterator[Said]:
    """Requests likewise, and one whose transactional id is longer than what is looked at first."""
    for version in (3, 8, 9, 13):
        data = [{"index": 0, "records": _batch(70_000)}]
        topics = [{"name": "orders", "topic_id": _TOPIC_ID, "partition_data": data}]
        told = [{"name": "orders", "topic_id": _TOPIC_ID, "partition_responses": [{"index": 0, "base_offset": 5}]}]
        for size in (500, 700, 5000):
            asked = {"transactional_id": "t" * size, "acks": -1, "timeout_ms": 1, "topic_data": topics}
            yield _said(f"Produce of {size} t", ApiKey.Produce, version, asked, {"responses": told})
    for size in (4 << 10, 64 << 10, 256 << 10):
        for by in (-1, 0, 1):
            for version, acks in ((7, -1), (9, 0), (12, -1), (13, 1)):
                for records in ([_batch(size + by)], [_batch(size), _batch(300) + _batch(70_000)]):
                    data = [{"index": index, "records": each} for index, each in enumerate(records)]
                    topics = [{"name": "orders", "topic_id": _TOPIC_ID, "partition_data": data}]
                    told = [{"index": index, "base_offset": 5} for index in range(len(records))]
                    answer = {"responses": [{"name": "orders", "topic_id": _TOPIC_ID, "partition_responses": told}]}
                    asked = {"acks": acks, "timeout_ms": 1, "topic_data": topics}
                    name = f"Produce of {[len(each) for each in records]} acks={acks}"
                    yield _said(name, ApiKey.Produce, version, asked, answer if acks else None)
