"""The comparison of what both sides of the proxy saw finds the smallest difference."""

from __future__ import annotations

import pytest

from notleader.proxy.wire.addresses import rewrite_addresses
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from tests.clients.identity import assert_same_bytes
from tests.clients.tap import FRONT_HOST, Asked, Conversation

TOLD = {1: (FRONT_HOST, 9101)}


def frames() -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Three requests, the first with acks=0; what the broker answered to two; and what the client has to get."""
    codec = response_codec(ApiKey.Metadata, 4)
    body = {"brokers": [{"node_id": 1, "host": "real", "port": 9092}], "cluster_id": "c"}
    head = encode_response_header(ApiKey.Metadata, 4, 2)
    given = head + codec.encode(body)
    rewrite_addresses(codec, body, lambda node_id, _host, _port: TOLD[node_id])
    beat = encode_response_header(ApiKey.Heartbeat, 1, 3) + bytes(6)
    kinds = ((ApiKey.Produce, 3), (ApiKey.Metadata, 4), (ApiKey.Heartbeat, 1))
    asked = [encode_request_header(key, version, number + 1, "c") for number, (key, version) in enumerate(kinds)]
    return asked, [given, beat], [head + codec.encode(body), beat]


def conversation(sent: list[bytes], received: list[bytes]) -> Conversation:
    return Conversation(True, [Asked(0, 0, 0, len(frame)) for frame in sent], {}, sent, received)


def test_only_addresses_may_differ() -> None:
    asked, given, got = frames()
    assert_same_bytes([conversation(asked, got)], [conversation(asked, given)], TOLD)


@pytest.mark.parametrize("which", [0, 1])
def test_every_other_bit_may_not(which: int) -> None:
    asked, given, got = frames()
    for place in range(4, len(got[which])):
        changed = list(got)
        changed[which] = got[which][:place] + bytes([got[which][place] ^ 1]) + got[which][place + 1 :]
        with pytest.raises(AssertionError, match="became another"):
            assert_same_bytes([conversation(asked, changed)], [conversation(asked, given)], TOLD)


def test_an_address_that_is_not_replaced_is_found() -> None:
    asked, given, _ = frames()
    with pytest.raises(AssertionError, match="became another"):
        assert_same_bytes([conversation(asked, given)], [conversation(asked, given)], TOLD)


def test_requests_may_not_differ_or_be_lost() -> None:
    asked, given, got = frames()
    with pytest.raises(AssertionError, match="no client sent these requests"):
        assert_same_bytes([conversation(asked, got)], [conversation([*asked[:2], asked[2] + b"x"], given)], TOLD)
    with pytest.raises(AssertionError, match="never seen by a broker"):
        assert_same_bytes([conversation(asked, got), conversation(asked[:1], [])], [conversation(asked, given)], TOLD)
