"""What a client sent is what the broker got, and what the broker answered is what the client got, byte for byte.

Answers that name brokers are the exception, and only their hosts and ports: with the proxy's put into the broker's
answer, it has to be the client's. The proxy is asked nothing: the frames of both sides are the witnesses'.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from notleader.proxy.wire.addresses import carriers, rewrite_addresses
from notleader.proxy.wire.codec import is_known
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request, Response
from tests.clients.tap import Conversation

Addresses = Mapping[int, tuple[str, int]]


def assert_same_bytes(front: list[Conversation], back: list[Conversation], told: Addresses) -> None:
    """Each connection to a broker has one of a client with the same frames; `told` are the addresses it may name."""
    unclaimed = list(front)
    for broker_side in sorted(back, key=lambda each: -len(each.sent)):
        # A client that leaves may cut off its last request on the way, and not hear the last answers.
        size = len(broker_side.sent)
        alike = [each for each in unclaimed if each.sent[:size] == broker_side.sent]
        assert alike, f"no client sent these requests, byte for byte: {broker_side.asked}"
        troubles = [difference(each, broker_side, told) for each in alike]
        assert None in troubles, troubles
        unclaimed.remove(alike[troubles.index(None)])
    lost = [each.asked for each in unclaimed]
    assert not lost, f"sent by a client, but never seen by a broker: {lost}"


def difference(client_side: Conversation, broker_side: Conversation, told: Addresses) -> str | None:
    """The first answer that the client got otherwise than it should; None when all are right."""
    if len(client_side.received) > len(broker_side.received):
        return f"{len(client_side.received)} answers came of the broker's {len(broker_side.received)}"
    waiting = list(broker_side.sent)
    for got, given in zip(client_side.received, broker_side.received, strict=False):
        # acks=0 is answered by nobody, so requests may be passed over; answers come in order.
        while waiting[0][4:8] != given[:4]:
            waiting.pop(0)
        request = waiting.pop(0)
        if got != with_told(request, given, told):
            api_key, api_version = struct.unpack_from(">hh", request)
            return f"the answer to {ApiKey(api_key).name} v{api_version} became another: {given.hex()} → {got.hex()}"
    return None


def with_told(request: bytes, answer: bytes, told: Addresses) -> bytes:
    """The broker's answer with the addresses that the proxy tells, where it has any."""
    response = Response(answer, Request(request))
    if not is_known(*response.request.header[:2]) or not carriers(response.codec):
        return answer
    body = response.body
    rewrite_addresses(response.codec, body, lambda node_id, _host, _port: told[node_id])
    return response.encode(body)
