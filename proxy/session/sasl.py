"""Who a client says it is, as far as SASL shows it; never what it proves it with.

With SaslHandshake v0 the tokens travel as bare length-prefixed frames between requests (KIP-43), with v1
inside SaslAuthenticate (KIP-152). Only the name is read here; tokens are neither kept nor logged.
"""

import base64
import json
from struct import Struct

from notleader.faults.base import Connection
from notleader.proxy.wire.codec import is_known

_HEAD = Struct(">hhih")


class Handshake:
    """How one connection's client proves itself, and whether the broker has let it in."""

    __slots__ = ("mechanism",)

    def __init__(self) -> None:
        self.mechanism = ""

    def requested(self, mechanism: str) -> None:
        """The client chose this mechanism."""
        self.mechanism = mechanism

    def asked(self, token: bytes, connection: Connection) -> None:
        """The client sent a token; one that names nobody (a later round, GSSAPI) changes nothing."""
        connection.claimed_principal = principal(self.mechanism, token) or connection.claimed_principal

    def answered(self, token: bytes, connection: Connection, error_code: int = 0) -> None:
        """The broker sent a token, or refused."""
        if error_code:
            connection.claimed_principal = None
        elif is_last(self.mechanism, token):
            connection.principal = connection.claimed_principal or connection.principal
            connection.claimed_principal = None


def makes_bare(api_version: int, error_code: int) -> bool:
    """Whether bare tokens follow such an answer to SaslHandshake."""
    return api_version == 0 and error_code == 0


def is_token(frame: bytes | memoryview) -> bool:
    """Whether this client frame is still a bare token; the first real request ends the exchange."""
    if len(frame) < _HEAD.size:
        return True
    api_key, api_version, _, client_id_bytes = _HEAD.unpack_from(frame)
    return not (is_known(api_key, api_version) and -1 <= client_id_bytes <= len(frame) - _HEAD.size)


def is_last(mechanism: str, token: bytes) -> bool:
    """Whether a broker's token says that the client is let in: SCRAM's has a signature (RFC 5802), others are empty.

    What an OAUTHBEARER token is refused for comes as a token before the error does (RFC 7628).
    """
    return token.startswith(b"v=") if mechanism.startswith("SCRAM-") else not token


def principal(mechanism: str, token: bytes) -> str | None:
    """The user name in a SASL client token (RFC 4616, RFC 5802, RFC 7628), None where there is none."""
    try:
        if mechanism == "PLAIN":
            parts = token.split(b"\0")
            return parts[1].decode() if len(parts) == 3 else None
        if mechanism.startswith("SCRAM-"):
            for attribute in token.split(b","):
                if attribute.startswith(b"n="):
                    return attribute[2:].decode().replace("=2C", ",").replace("=3D", "=")
            return None
        if mechanism == "OAUTHBEARER":
            claims = token.split(b"auth=Bearer ", 1)[1].split(b"\x01", 1)[0].split(b".")[1]
            name = json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4))).get("sub")
            return name if isinstance(name, str) else None
    except (ValueError, IndexError, AttributeError):
        return None
    return None
