"""One connection to the stand-in: what it was at, and which frames are no requests. Pure."""

from __future__ import annotations

from typing import Final

from notleader.proxy.replay.stand_in import Reply, StandIn
from notleader.proxy.session.sasl import is_token
from notleader.proxy.wire.addresses import Advertise
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.header import parse_request_header

_WELCOME: Final = Reply(b"")


class Conversation:
    """Takes the frames of one connection, in their order."""

    def __init__(self, stand_in: StandIn, node_id: int | None, advertise: Advertise) -> None:
        """``node_id`` is the broker whose place it is, None for who bootstraps."""
        self._stand_in = stand_in
        self._node_id = node_id
        self._advertise = advertise
        self._tokens_follow = False

    def take(self, frame: bytes) -> Reply:
        """The reply to one frame without its length. Raises WireError."""
        # Behind SaslHandshake v0 tokens come bare (KIP-43), until the first request.
        if self._tokens_follow and is_token(frame):
            return _WELCOME
        header = parse_request_header(frame)
        self._tokens_follow = header.api_key == ApiKey.SaslHandshake and header.api_version == 0
        return self._stand_in.reply(self._node_id, frame, self._advertise)
