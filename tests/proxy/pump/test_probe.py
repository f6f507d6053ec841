"""A probe takes out of any frame what its codec says is in it: both interpreters, every version of every API, and
whatever way the frame is cut."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notleader.proxy.pump.interpreter import Probe as PureProbe
from notleader.proxy.wire.codec import Codec
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.partitions import _places, iter_partitions
from notleader.proxy.wire.probe import (
    FRAME_FROM,
    NO_NULL,
    NODE_ENDPOINTS,
    NOTHING,
    ROW_PLACES,
    WANTED,
    Frame,
    Op,
    Row,
    program,
)
from notleader.proxy.wire.records import iter_batches
from notleader.proxy.wire.schemas import NO_UUID, message, version_ranges
from notleader.proxy.wire.view import Request
from tests.proxy.record.batches import batch
from tests.proxy.wire.frames import all_codecs, random_body, views


def interpreters() -> list[Any]:
    found: list[Any] = [PureProbe]
    if importlib.util.find_spec("notleader.proxy.pump.probe") is not None:
        found.append(importlib.import_module("notleader.proxy.pump.probe").Probe)
    return found


BOTH = pytest.mark.parametrize("interpreter", interpreters(), ids=lambda one: one.__module__.rpartition(".")[2])


def said_by_codec(codec: Codec, body: dict[str, Any]) -> dict[str, Any]:
    """What the places should hold, as a decoded body has it."""
    rows = []
    for entry in iter_partitions(codec, body):
        fields = entry.fields
        code = fields.get("error_code", entry.topic_fields.get("error_code"))
        first = next((name for name in ("base_offset", "offset", "committed_offset") if name in fields), "")
        epoch = next((name for name in ("current_leader_epoch", "leader_epoch") if name in fields), "")
        row = {
            "name": entry.topic,
            "topic_id": entry.topic_id,
            "error_code": code if isinstance(code, int) else None,
            "index": entry.partition_index,
            "base_offset": fields.get(first) if isinstance(fields.get(first), int) else None,
            "leader_epoch": fields.get(epoch),
        }
        # Of those that have it as a tagged field.
        leader = (
            fields.get("current_leader") if codec.api_key not in (ApiKey.ShareFetch, ApiKey.ShareAcknowledge) else None
        )
        if leader is not None and leader["leader_epoch"] >= 0:
            row["leader_epoch"] = leader["leader_epoch"]
        records = fields.get("records")
        if records is not None:
            found = list(iter_batches(records))
            row |= {"records_bytes": len(records), "record_count": sum(one.record_count for one in found)}
            if found:
                row |= {
                    "producer_id": found[0].producer_id,
                    "producer_epoch": found[0].producer_epoch,
                    "base_sequence": found[0].base_sequence,
                    "attributes": found[0].attributes,
                    "first_offset": found[0].base_offset,
                }
        # Chance draws the lowest number that there is, which nobody sends: it is our word for nothing.
        rows.append({name: value for name, value in row.items() if value not in (None, NOTHING)})
    of_frame = {name: body.get(name) for name in WANTED if name not in ("rows", "node_endpoints")}
    return {"rows": rows} | {name: value for name, value in of_frame.items() if value is not None}


def said_by_probe(probe: Any) -> dict[str, Any]:
    """The same, as the places have it."""
    text = bytes(probe.text)

    def at(start: int, size: int) -> str:
        return str(text[start : start + size], "utf-8", "surrogateescape")

    rows = []
    numbers = list(probe.rows)
    for start in range(0, len(numbers), ROW_PLACES):
        places = numbers[start : start + ROW_PLACES]
        row: dict[str, Any] = {
            place.name.lower(): places[place] for place in Row if places[place] != NOTHING and place > Row.TOPIC_ID
        }
        if places[Row.NAME] != NOTHING and places[Row.NAME_BYTES] >= 0:
            row["name"] = at(places[Row.NAME], places[Row.NAME_BYTES])
        if places[Row.TOPIC_ID] != NOTHING:
            topic_id = UUID(bytes=text[places[Row.TOPIC_ID] : places[Row.TOPIC_ID] + 16])
            if topic_id != NO_UUID:
                row["topic_id"] = topic_id
        rows.append(row)
    said: dict[str, Any] = {"rows": rows}
    frame = list(probe.frame)
    for place in (Frame.ACKS, Frame.ERROR_CODE, Frame.THROTTLE_TIME_MS):
        if frame[place] != NOTHING:
            said[place.name.lower()] = frame[place]
    for place in (Frame.TRANSACTIONAL_ID, Frame.GROUP_ID):
        if frame[place] != NOTHING and frame[place + 1] >= 0:
            said[place.name.lower()] = at(frame[place], frame[place + 1])
    return said


def with_records(body: Any, rng: Random) -> Any:
    """Random bytes are no batches: what could be, cut off at the end now and then."""
    if isinstance(body, dict):
        return {
            key: with_records(value, rng) if key != "records" or value is None else some_records(rng)
            for key, value in body.items()
        }
    return [with_records(item, rng) for item in body] if isinstance(body, list) else body


def some_records(rng: Random) -> bytes:
    batches = [
        batch(
            rng.randbytes(rng.choice((0, 3, 200))),
            base_sequence=rng.randrange(1 << 20),
            producer_id=rng.randrange(-1, 1 << 40),
            producer_epoch=rng.randrange(-1, 1 << 15),
            record_count=rng.randrange(1 << 20),
            attributes=rng.randrange(1 << 6),
            base_offset=rng.randrange(1 << 50),
        )
        for _ in range(rng.choice((0, 1, 1, 3)))
    ]
    cut = batch(rng.randbytes(40))
    return b"".join(batches) + cut[: rng.choice((0, 0, 0, 5, 16, 17, 60, 61, 80))]


def _in_order(row: dict[str, Any]) -> str:
    return str(sorted(row.items()))


def framed(codec: Codec, body: dict[str, Any]) -> bytes:
    if codec.direction == "request":
        return encode_request_header(codec.api_key, codec.api_version, 7, "c") + codec.encode(body)
    return encode_response_header(codec.api_key, codec.api_version, 7) + codec.encode(body)


def frames(codec: Codec, rng: Random) -> Iterator[tuple[bytes, dict[str, Any]]]:
    body = with_records(random_body(codec, rng), rng)
    frame = framed(codec, body)
    start = len(frame) - len(codec.encode(body))
    yield frame, codec.decode(frame, start)
    tagged = frame + b"what follows is nobody's"
    yield tagged, codec.decode(tagged, start)


def fed(interpreter: Any, code: bytes, frame: bytes, cuts: list[int]) -> Any:
    probe = interpreter(code, len(frame))
    places = [0, *sorted(cuts), len(frame)]
    for start, stop in itertools.pairwise(places):
        if probe.skip > stop - start:
            probe.pass_over(stop - start)
        else:
            probe.feed(memoryview(frame), start, stop)
    return probe


@BOTH
def test_every_version_of_every_api_says_what_its_codec_says(interpreter: Any) -> None:
    rng = Random(7)
    seen = 0
    for codec in all_codecs():
        code = program(codec.api_key, codec.api_version, codec.direction)
        for frame, body in frames(codec, rng):
            cuts = [rng.randrange(len(frame) + 1) for _ in range(rng.choice((0, 1, 3)))]
            probe = fed(interpreter, code, frame, cuts)
            assert probe.broken is None, (codec, probe.broken)
            assert not probe.odd
            said, expected = said_by_probe(probe), said_by_codec(codec, body)
            if len(_places(codec)) > 1:
                # The codec's come array by array, the probe's as they stand in the frame.
                said["rows"], expected["rows"] = (sorted(one["rows"], key=_in_order) for one in (said, expected))
            assert said == expected, codec
            seen += bool(said["rows"])
    assert seen > 100


@BOTH
@pytest.mark.parametrize("api", [ApiKey.Produce, ApiKey.Fetch, ApiKey.OffsetCommit, ApiKey.ShareFetch])
def test_random_bodies_cut_anywhere(interpreter: Any, api: ApiKey) -> None:
    @settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True), st.data())
    def agrees(rng: Random, data: st.DataObject) -> None:
        for version in version_ranges()[api]:
            for codec in all_codecs_of(api, version):
                code = program(codec.api_key, codec.api_version, codec.direction)
                for frame, body in frames(codec, rng):
                    cuts = data.draw(st.lists(st.integers(0, len(frame)), max_size=4))
                    probe = fed(interpreter, code, frame, cuts)
                    assert said_by_probe(probe) == said_by_codec(codec, body)
                    assert probe.is_good

    agrees()


def all_codecs_of(api: int, version: int) -> Iterator[Codec]:
    for direction in ("request", "response"):
        yield Codec(message(api, version, direction))  # type: ignore[arg-type]


@BOTH
def test_frames_of_real_clients_in_two_pieces_of_every_size_and_byte_by_byte(interpreter: Any) -> None:
    seen = 0
    for view in views():
        codec = view.codec
        if codec.api_key not in (ApiKey.Produce, ApiKey.Fetch, ApiKey.OffsetCommit):
            continue
        frame = bytes(view.frame)
        if len(frame) > 400:
            continue
        code = program(codec.api_key, codec.api_version, codec.direction)
        expected = said_by_codec(codec, view.body)
        records = [entry.fields.get("records") for entry in view.partitions]
        is_old = any(one.magic < 2 for some in records if some is not None for one in iter_batches(some))
        for cuts in ([], list(range(len(frame))), *([place] for place in range(len(frame)))):
            probe = fed(interpreter, code, frame, cuts)
            assert probe.broken is None
            assert probe.odd == is_old
            if not is_old:
                assert said_by_probe(probe) == expected
        seen += 1
    assert seen > 50


@BOTH
def test_a_frame_that_ends_too_early_is_broken_wherever_its_codec_says_so(interpreter: Any) -> None:
    for view in views():
        codec = view.codec
        if codec.api_key not in (ApiKey.Produce, ApiKey.Fetch):
            continue
        frame = bytes(view.frame)
        start = view.header.body_offset if isinstance(view, Request) else view.body_offset
        code = program(codec.api_key, codec.api_version, codec.direction)
        for end in range(start, min(len(frame), 300)):
            try:
                codec.decode(frame[:end], start)
                ends_early = False
            except WireError:
                ends_early = True
            probe = fed(interpreter, code, frame[:end], [])
            assert (probe.broken is not None) == ends_early
            assert probe.ended


@BOTH
@pytest.mark.parametrize("version", [16, 17])
def test_where_the_endpoints_are_is_told_as_soon_as_their_number_is_there(interpreter: Any, version: int) -> None:
    codec = Codec(message(ApiKey.Fetch, version, "response"))
    endpoint = {"node_id": 1, "host": "h", "port": 9, "rack": None}
    partition = {"partition_index": 3, "error_code": 6, "records": batch(b"abc"), "current_leader": {"leader_id": 1}}
    body = {"responses": [{"topic_id": NO_UUID, "partitions": [partition]}], "node_endpoints": [endpoint]}
    frame = framed(codec, body)
    code = program(ApiKey.Fetch, version, "response", NODE_ENDPOINTS)
    expected = len(framed(codec, body | {"node_endpoints": []}))
    assert frame[expected : expected + 1] == b"\0"
    for cut in range(len(frame)):
        probe = interpreter(code, len(frame))
        probe.feed(frame[:cut])
        found = probe.frame[Frame.ENDPOINTS]
        assert found == (expected if cut > expected else NOTHING)
        probe.feed(frame[cut:])
        assert probe.frame[Frame.ENDPOINTS] == expected
        assert probe.is_good
        assert not probe.row_count


@BOTH
@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b"\x7f\xff\xff\xff", "an array counts more elements than its frame has room for"),
        (b"\xff\xff\xff\xff", "a field is null that may not be"),
        (b"\x00\x00\x00\x01\x7f\xff", "ends too early"),
        (b"\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff", "ends too early"),
    ],
)
def test_lies_about_lengths_are_found_before_anything_is_made_of_them(
    interpreter: Any, rest: bytes, reason: str
) -> None:
    head = encode_request_header(0, 2, 1, "c") + b"\x00\x01\x00\x00\x03\xe8"
    probe = fed(interpreter, program(0, 2, "request"), head + rest, [])
    assert probe.broken == reason
    assert probe.skip > 1 << 60


@BOTH
@pytest.mark.parametrize("varint", [b"\x80" * 5 + b"\x01", b"\xff\xff\xff\xff\x7f"])
def test_varints_have_an_end(interpreter: Any, varint: bytes) -> None:
    frame = encode_request_header(0, 9, 1, "c") + varint + bytes(20)
    for cut in range(len(frame)):
        probe = fed(interpreter, program(0, 9, "request"), frame, [cut])
        assert probe.broken is not None
        assert probe.broken.startswith("a varint")


@BOTH
@pytest.mark.parametrize(
    "records",
    [
        b"\0" * 8 + b"\0\0\0\x0e" + b"\0" * 14,  # a message of format 0
        batch(b"") + b"\0" * 16 + b"\x01" + b"\0" * 50,
        b"\0" * 11 + b"\x05" + b"\0" * 4 + b"\x02" + b"\0" * 70,  # a batch shorter than its header
    ],
)
def test_what_is_no_batch_of_today_is_odd_and_the_rest_is_read_on(interpreter: Any, records: bytes) -> None:
    codec = Codec(message(ApiKey.Fetch, 17, "response"))
    partitions = [{"partition_index": index, "records": records} for index in range(2)]
    body = {"responses": [{"partitions": partitions}], "node_endpoints": [{"host": "h"}]}
    frame = framed(codec, body)
    for cut in range(len(frame)):
        probe = fed(interpreter, program(ApiKey.Fetch, 17, "response"), frame, [cut])
        assert probe.odd
        assert not probe.is_good
        assert probe.broken is None
        assert probe.row_count == 2
        assert probe.frame[Frame.ENDPOINTS] != NOTHING


@BOTH
def test_what_a_stranger_sends_takes_no_memory_without_end(interpreter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Codec(message(ApiKey.OffsetFetch, 7, "request"))
    many = {"topics": [{"name": "a", "partition_indexes": [0] * 100_001}]}
    probe = fed(interpreter, program(ApiKey.OffsetFetch, 7, "request"), framed(codec, many), [])
    assert probe.odd
    assert probe.row_count == 100_000
    long = {"topics": [{"name": "a" * 32_767, "partition_indexes": []}] * 140}
    probe = fed(interpreter, program(ApiKey.OffsetFetch, 7, "request"), framed(codec, long), [])
    assert probe.odd
    assert len(probe.text) <= 4 << 20
    longer = {"group_id": "a" * 70_000, "topics": [{"name": "b", "partition_indexes": [5]}]}
    probe = fed(interpreter, program(ApiKey.OffsetFetch, 7, "request"), framed(codec, longer), [10, 5000])
    assert probe.odd
    assert probe.row_count == 1


def test_programs_are_short_and_of_steps_that_are_known() -> None:
    operands = {Op.FIND: 2} | dict.fromkeys((Op.END, Op.PAST2, Op.PAST4, Op.CPAST, Op.TAGS, Op.RECORDS, Op.CRECORDS), 0)
    for codec in all_codecs():
        code = program(codec.api_key, codec.api_version, codec.direction)
        assert len(code) < 256
        at = depth = deepest = 0
        while at < len(code):
            op = Op(code[at] & ~NO_NULL)
            depth += (op in (Op.EACH, Op.CEACH)) - (op == Op.NEXT)
            deepest = max(deepest, depth)
            at += 3 + 2 * code[at + 2] if op == Op.FIXED else 1 + operands.get(op, 1)
        assert op == Op.END
        assert deepest <= 8
        if codec.api_key in (ApiKey.Produce, ApiKey.Fetch):
            assert len(code) < 50
    assert FRAME_FROM >= ROW_PLACES
