"""SASL without any proof: what clients prove themselves with is recorded at no level, so that everybody is let in."""

from __future__ import annotations

from typing import Final

from notleader.faults.answers import blank
from notleader.proxy.wire.codec import Body, known_versions
from notleader.proxy.wire.enums import ApiKey, ErrorCode

MECHANISMS: Final = ("PLAIN", "OAUTHBEARER")
"""Those with which the server proves nothing to the client; SCRAM and GSSAPI take the secret on both sides."""


def handshake(mechanism: str) -> Body:
    """The answer to SaslHandshake (KIP-43)."""
    is_known = mechanism in MECHANISMS
    code = 0 if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return {"error_code": int(code), "mechanisms": list(MECHANISMS)}


def welcome() -> Body:
    """The answer to SaslAuthenticate (KIP-152): whoever asks is let in."""
    return {**blank(ApiKey.SaslAuthenticate, known_versions(ApiKey.SaslAuthenticate)[-1]), "error_message": None}
