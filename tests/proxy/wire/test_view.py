"""Requests and responses in their frames."""

from __future__ import annotations

import pytest

from notleader.proxy.wire.codec import request_codec, response_codec
from notleader.proxy.wire.errors import UnknownVersion, WireError
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.records import iter_batches, iter_records
from notleader.proxy.wire.view import Request, Response
from tests.proxy.wire.frames import Exchange, recorded


def request(api_key: ApiKey, version: int) -> Request:
    return Request(encode_request_header(api_key, version, 7, "me") + request_codec(api_key, version).encode({}))


def test_another_body_under_the_same_header() -> None:
    asked = request(ApiKey.Metadata, 12)
    changed = Request(asked.encode({**asked.body, "topics": [{"name": "a"}]}))
    assert changed.header == asked.header
    assert changed.body["topics"][0]["name"] == "a"
    assert changed.body is changed.body


def test_a_broker_that_does_not_know_the_version_of_api_versions_answers_in_version_0() -> None:
    """KIP-511: the body of an answer with UNSUPPORTED_VERSION is that of version 0, whatever was asked."""
    asked = request(ApiKey.ApiVersions, 4)
    body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": [{"api_key": 18, "max_version": 3}]}
    head = encode_response_header(ApiKey.ApiVersions, 4, 7)
    answer = Response(head + response_codec(ApiKey.ApiVersions, 0).encode(body), asked)
    assert answer.body["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 3}]
    assert answer.encode(answer.body) == answer.frame
    fine = Response(head + response_codec(ApiKey.ApiVersions, 4).encode({"error_code": 0}), asked)
    assert fine.codec.api_version == 4


def test_an_unknown_version_has_a_header_and_no_body() -> None:
    frame = encode_request_header(ApiKey.Produce, 99, 7, "me") + b"whatever"
    asked = Request(frame)
    assert asked.header.client_id == "me"
    with pytest.raises(UnknownVersion):
        _ = asked.body
    with pytest.raises(UnknownVersion):
        _ = Response(b"\x00\x00\x00\x07\x00more", asked).partitions


def test_the_guilty_side_is_named() -> None:
    asked = request(ApiKey.Metadata, 1)
    with pytest.raises(WireError) as caught:
        _ = Response(b"\x00\x00\x00\x07\x7f\xff\xff\xff", asked).body
    assert caught.value.side == "broker"
    with pytest.raises(WireError) as caught:
        _ = Request(bytes(asked.frame)[:-1]).body
    assert caught.value.side == "client"


def test_what_follows_a_body_is_kept() -> None:
    asked = request(ApiKey.Metadata, 1)
    longer = Request(bytes(asked.frame) + b"xyz")
    assert (longer.body, longer.surplus) == (asked.body, b"xyz")
    assert longer.encode(longer.body) == longer.frame


@pytest.mark.parametrize("exchange", [e for e in recorded() if Request(e.request).header.api_key < 2], ids=repr)
def test_records_of_real_clients(exchange: Exchange) -> None:
    """Every batch of every Produce request and Fetch answer is walked, and its records counted."""
    asked = Request(exchange.request)
    views: list[Request | Response] = [asked]
    if exchange.response is not None:
        views.append(Response(exchange.response, asked))
    for view in views:
        for entry in view.partitions:
            records = entry.fields.get("records")
            if records:
                batches = list(iter_batches(records))
                found = list(iter_records(records))
                if all(batch.record_count >= 0 for batch in batches):
                    assert len(found) == sum(batch.record_count for batch in batches)
                assert found
                assert {record.batch for record in found} == set(batches)


def test_the_recorded_frames_cover_formats_and_compressions() -> None:
    seen = set()
    for exchange in recorded():
        asked = Request(exchange.request)
        if asked.header.api_key == ApiKey.Produce:
            for entry in asked.partitions:
                seen |= {(batch.magic, batch.compression) for batch in iter_batches(entry.fields["records"])}
    modern = {(2, name) for name in ("none", "gzip", "snappy", "lz4", "zstd")}
    old = {(0, name) for name in ("none", "gzip", "snappy", "lz4")}
    assert seen >= modern | old
