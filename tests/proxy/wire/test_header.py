"""Headers of every version, both ways; the versions themselves are checked against Kafka's classes elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.header import (
    RequestHeader,
    encode_request_header,
    encode_response_header,
    parse_request_header,
    response_body_offset,
)
from notleader.proxy.wire.names import ApiKey

SAMPLES = [
    (ApiKey.ControlledShutdown, 0, b"\x00\x07\x00\x00\x00\x00\x00\x2a", None),
    (ApiKey.Produce, 3, b"\x00\x00\x00\x03\x00\x00\x00\x2a\x00\x02me", "me"),
    (ApiKey.Produce, 3, b"\x00\x00\x00\x03\x00\x00\x00\x2a\xff\xff", None),
    (ApiKey.Produce, 9, b"\x00\x00\x00\x09\x00\x00\x00\x2a\x00\x02me\x00", "me"),
    (ApiKey.ApiVersions, 3, b"\x00\x12\x00\x03\x00\x00\x00\x2a\x00\x00\x00", ""),
    # A version nobody knows yet, of an API that is flexible: so is the unknown one.
    (ApiKey.ApiVersions, 99, b"\x00\x12\x00\x63\x00\x00\x00\x2a\x00\x02me\x00", "me"),
]


@pytest.mark.parametrize(("api_key", "version", "data", "client_id"), SAMPLES)
def test_request_headers(api_key: ApiKey, version: int, data: bytes, client_id: str | None) -> None:
    found = parse_request_header(b"...." + data + b"body", 4)
    assert found == RequestHeader(api_key, version, 42, client_id, 4 + len(data))
    assert encode_request_header(api_key, version, 42, client_id) == data


def test_tagged_fields_of_a_header_are_stepped_over() -> None:
    data = b"\x00\x00\x00\x09\x00\x00\x00\x01\xff\xff\x02\x05\x02hi\x07\x00"
    assert parse_request_header(data + b"body").body_offset == len(data)
    assert response_body_offset(ApiKey.Produce, 9, b"\x00\x00\x00\x01\x01\x05\x02hibody") == 9


def test_the_header_of_an_unknown_api_is_read_as_far_as_it_is_known() -> None:
    found = parse_request_header(b"\x7f\x00\x00\x01\x00\x00\x00\x01\x00\x02meanything")
    assert found == RequestHeader(0x7F00, 1, 1, "me", 12)
    assert response_body_offset(0x7F00, 1, b"\x00\x00\x00\x01") == 4


@pytest.mark.parametrize("data", [data for _, _, data, _ in SAMPLES])
def test_every_cut_is_the_clients_fault(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(WireError) as caught:
            parse_request_header(data[:end])
        assert caught.value.side == "client"


def test_response_headers() -> None:
    assert encode_response_header(ApiKey.Produce, 8, 42) == b"\x00\x00\x00\x2a"
    assert encode_response_header(ApiKey.Produce, 9, 42) == b"\x00\x00\x00\x2a\x00"
    # KIP-511: the client doesn't know yet what the broker speaks.
    assert encode_response_header(ApiKey.ApiVersions, 4, 42) == b"\x00\x00\x00\x2a"
    for frame in (b"", b"\x00\x00\x00", b"\x00\x00\x00\x2a", b"\x00\x00\x00\x2a\x01\x05\x7f"):
        with pytest.raises(WireError) as caught:
            response_body_offset(ApiKey.Produce, 9, frame)
        assert caught.value.side == "broker"


@given(st.sampled_from(list(ApiKey)), st.integers(0, 20), st.integers(-(1 << 31), (1 << 31) - 1), st.text(max_size=50))
def test_what_is_encoded_is_parsed(api_key: ApiKey, version: int, correlation_id: int, client_id: str) -> None:
    data = encode_request_header(api_key, version, correlation_id, client_id)
    found = parse_request_header(data)
    assert found[:3] == (api_key, version, correlation_id)
    assert found.client_id == (None if (api_key, version) == (ApiKey.ControlledShutdown, 0) else client_id)
    assert found.body_offset == len(data)
