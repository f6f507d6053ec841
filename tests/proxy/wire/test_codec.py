"""Bodies go in and come out byte for byte, for every message that Kafka defines."""

from __future__ import annotations

import struct
import subprocess
import sys
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notleader.proxy.wire.codec import Codec, is_known, known_versions, request_codec, response_codec
from notleader.proxy.wire.errors import UnknownVersion, WireError
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request, Response
from tests.proxy.wire.frames import Exchange, all_codecs, random_body, recorded


def comparable(value: Any) -> Any:
    """Memoryviews compare as bytes; everything else as it is."""
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize("codec", list(all_codecs()), ids=repr)
def test_random_bodies_survive(codec: Codec) -> None:
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True))
    def survives(rng: Random) -> None:
        body = random_body(codec, rng)
        data = codec.encode(body)
        decoded = codec.decode(data)
        assert codec.encode(decoded) == data
        assert comparable(decoded) == body
        # Brokers ignore what follows a body.
        again, end = codec.decode_some(data + b"\x00")
        assert (comparable(again), end) == (body, len(data))

    survives()


@pytest.mark.parametrize("codec", list(all_codecs()), ids=repr)
def test_an_empty_body_is_filled_with_defaults(codec: Codec) -> None:
    data = codec.encode({})
    assert codec.encode(codec.decode(data)) == data
    if data:
        with pytest.raises(WireError, match="too early"):
            codec.decode(data[:-1])


@pytest.mark.parametrize("exchange", recorded(), ids=repr)
def test_frames_of_real_clients_survive(exchange: Exchange) -> None:
    request = Request(exchange.request)
    assert request.encode(request.body) == exchange.request
    if exchange.response is not None:
        response = Response(exchange.response, request)
        assert response.encode(response.body) == exchange.response


def test_a_request_by_hand() -> None:
    """Metadata v1, nullable array and old strings (protocol guide)."""
    codec = request_codec(ApiKey.Metadata, 1)
    assert codec.decode(b"\xff\xff\xff\xff") == {"topics": None}
    assert codec.decode(b"\x00\x00\x00\x01\x00\x03abc") == {"topics": [{"name": "abc"}]}


def test_a_flexible_response_by_hand() -> None:
    """A Produce v10 answer: known tags, an unknown tag and defaults that are not written."""
    codec = response_codec(ApiKey.Produce, 10)
    partition = struct.pack(">ihqqq", 2, 6, -1, -1, 0) + b"\x01\x00"
    leader = b"\x01\x00\x09" + struct.pack(">ii", 3, 8) + b"\x00"
    unknown = b"\x01\x2a\x02hi"
    data = b"\x02\x02t\x02" + partition + leader + b"\x00" + struct.pack(">i", 5) + unknown
    body = codec.decode(data)
    assert body == {
        "responses": [
            {
                "name": "t",
                "partition_responses": [
                    {
                        "index": 2,
                        "error_code": 6,
                        "base_offset": -1,
                        "log_append_time_ms": -1,
                        "log_start_offset": 0,
                        "record_errors": [],
                        "error_message": None,
                        "current_leader": {"leader_id": 3, "leader_epoch": 8},
                    }
                ],
            }
        ],
        "throttle_time_ms": 5,
        "node_endpoints": [],
        "_tags": {42: b"hi"},
    }
    assert codec.encode(body) == data


def test_what_is_missing_takes_the_definitions_default() -> None:
    codec = response_codec(ApiKey.Produce, 10)
    body = {"responses": [{"name": "t", "partition_responses": [{"index": 1, "error_code": 6}]}]}
    (partition,) = codec.decode(codec.encode(body))["responses"][0]["partition_responses"]
    assert partition["log_append_time_ms"] == -1
    assert partition["current_leader"] == {"leader_id": -1, "leader_epoch": -1}


def test_records_are_views_into_the_frame() -> None:
    codec = request_codec(ApiKey.Produce, 13)
    topic = {"topic_id": UUID(int=7), "partition_data": [{"index": 0, "records": b"batch"}]}
    frame = bytearray(codec.encode({"acks": 1, "timeout_ms": 1, "topic_data": [topic]}))
    records = codec.decode(memoryview(frame))["topic_data"][0]["partition_data"][0]["records"]
    frame[frame.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch"


def test_bytes_that_are_no_utf8_survive() -> None:
    codec = request_codec(ApiKey.DeleteTopics, 0)
    data = b"\x00\x00\x00\x01\x00\x03a\xff\xfe" + bytes(4)
    assert codec.decode(data)["topic_names"] == ["a\udcff\udcfe"]
    assert codec.encode(codec.decode(data)) == data


@pytest.mark.parametrize(
    ("codec", "data", "reason"),
    [
        (request_codec(ApiKey.Metadata, 1), b"\x7f\xff\xff\xff", "more elements"),
        (request_codec(ApiKey.Metadata, 0), b"\xff\xff\xff\xff", "null"),
        (request_codec(ApiKey.Metadata, 12), b"\xff\xff\xff\xff\x0f", "more elements"),
        (request_codec(ApiKey.Metadata, 12), b"\xff\xff\xff\xff\x7f", "32 bits"),
        (request_codec(ApiKey.Metadata, 12), b"\xff\xff\xff\xff\xff\x01", "five bytes"),
        (request_codec(ApiKey.Heartbeat, 0), b"\x7f\xffab", "too early"),
        (request_codec(ApiKey.Heartbeat, 0), b"\x00\x01a", "too early"),
        (request_codec(ApiKey.Heartbeat, 4), b"\x02a" + bytes(4) + b"\x02b\x00\x01\x05\x09x", "too early"),
        (response_codec(ApiKey.ApiVersions, 3), bytes(2) + b"\x01" + bytes(4) + b"\x01\x01\x09" + bytes(9), "tag"),
    ],
)
def test_lies_are_wire_errors(codec: Codec, data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason) as caught:
        codec.decode(data)
    assert caught.value.side == ("client" if codec.direction == "request" else "broker")


def test_tagged_fields_are_written_in_ascending_order() -> None:
    """Known and unknown ones alike (KIP-482); the unknown one here is older than the known."""
    codec = request_codec(ApiKey.Fetch, 15)
    assert {field.name: field.tag for field in codec.fields if field.tag is not None} == {
        "cluster_id": 0,
        "replica_state": 1,
    }
    body = codec.decode(codec.encode({"cluster_id": "c", "_tags": {7: b"x", 2: b"y"}}))
    data = codec.encode(body | {"replica_state": {"replica_id": 3}})
    assert data.endswith(b"\x04\x00\x02\x02c\x01\x0d" + struct.pack(">iq", 3, -1) + b"\x00\x02\x01y\x07\x01x")
    assert codec.encode(codec.decode(data)) == data


@pytest.mark.parametrize(
    "body",
    [
        {"group_id": None},
        {"group_id": 7},
        {"group_id": "x" * 40000},
        {"generation_id": 1 << 40},
        {"generation_id": "one"},
    ],
)
def test_a_body_that_does_not_fit_is_a_wire_error(body: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="cannot encode"):
        request_codec(ApiKey.Heartbeat, 0).encode(body)


def test_unknown_versions() -> None:
    assert is_known(ApiKey.Produce, 0)
    assert is_known(ApiKey.Produce, 13)
    assert not is_known(ApiKey.Produce, 14)
    assert not is_known(999, 0)
    assert known_versions(ApiKey.Produce) == range(14)
    assert known_versions(999) == range(0)
    with pytest.raises(UnknownVersion, match="API key 999 version 3"):
        request_codec(999, 3)


def test_the_package_is_quick_to_import() -> None:
    """No asyncio, no pydantic, nothing of aiokafka: a first decode must not wait for them."""
    code = "import sys, proxy.wire.view, proxy.wire.records; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"asyncio", "socket", "pydantic", "aiokafka", "hypothesis"} & set(loaded)


@given(st.integers(0, 200), st.integers(0, 40))
def test_unknown_apis_never_have_a_codec(api_key: int, version: int) -> None:
    if version not in known_versions(api_key):
        with pytest.raises(UnknownVersion):
            response_codec(api_key, version)
