"""One connection: tokens that come bare behind an old SaslHandshake."""

from __future__ import annotations

from notleader.proxy.replay.conversation import Conversation
from notleader.proxy.wire.codec import request_codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.header import encode_request_header
from tests.proxy.replay.made import Client, metadata, row


def test_a_bare_token_is_welcome_until_the_first_request() -> None:
    recorded = row(0, ApiKey.SaslHandshake, 0, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
    client = Client(recorded, metadata(1, "orders"))
    talk = Conversation(client.stand_in, None, lambda *_: ("here", 1))

    def frame(api_key: ApiKey, version: int, body: dict[str, object]) -> bytes:
        return encode_request_header(api_key, version, 1, "me") + request_codec(api_key, version).encode(body)

    handshake = talk.take(frame(ApiKey.SaslHandshake, 0, {"mechanism": "PLAIN"}))
    assert handshake.frame is not None
    assert talk.take(b"\0user\0password").frame == b""
    answer = talk.take(frame(ApiKey.Metadata, 5, {"topics": None})).frame
    assert answer is not None
    assert b"orders" in answer
