"""How much of each API the proxy has to see: a table of bit flags per (api_key, api_version).

The hot path looks one number up and moves on; everything it says no to is cut through as it came.
"""

from typing import Final

from proxy.capture.rows import Level
from proxy.wire.addresses import carriers
from proxy.wire.codec import is_known, response_codec
from proxy.wire.endpoints import FIRST_WITH_ENDPOINTS
from proxy.wire.names import ApiKey

# The first three are what ``faults.plan.Plan.interest`` answers; they share one number with ours.
ASK_PLAN: Final = 1
REQUEST_BODY: Final = 2
RESPONSE_BODY: Final = 4
HOLD_REQUEST: Final = 8  # the session itself reads the request (who the client is, SASL)
HOLD_RESPONSE: Final = 16  # the answer is read or rewritten before it leaves
KEEP_REQUEST: Final = 32  # the capture wants the request's frame
KEEP_RESPONSE: Final = 64  # the capture wants the answer's frame
PRODUCE: Final = 128  # acks must be known before anything else
ENDPOINTS: Final = 256  # the answer is read only if it carries node_endpoints

ASSEMBLE_REQUEST: Final = ASK_PLAN | REQUEST_BODY | HOLD_REQUEST
ASSEMBLE_RESPONSE: Final = RESPONSE_BODY | HOLD_RESPONSE
NOT_PLAIN: Final = ASSEMBLE_REQUEST | ASSEMBLE_RESPONSE | PRODUCE | ENDPOINTS

_LARGE: Final = 64 << 10
_HELD_REQUESTS = {ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate}
_HELD_RESPONSES = {ApiKey.ApiVersions, ApiKey.Metadata, ApiKey.SaslHandshake}
# Secrets travel in these: their frames are kept at no level.
_SECRET = {ApiKey.SaslAuthenticate, ApiKey.AlterUserScramCredentials, ApiKey.CreateDelegationToken}


class Handling(dict[int, int]):
    """``table[api_key << 8 | api_version]`` → flags, computed once per API and version."""

    def __init__(self, level: Level | None) -> None:
        super().__init__()
        self.record_at(level)

    def record_at(self, level: Level | None, max_kept_bytes: int = 64 << 20) -> None:
        """From now on keep what this capture level needs; None keeps nothing.

        Of a frame that is cut through and longer than ``shed_bytes`` only the facts are kept: at level ``partition``
        these are all that is asked for, elsewhere ``max_kept_bytes`` is the most that may be kept.
        """
        self._level = level
        self.shed_bytes = min(_LARGE, max_kept_bytes) if level is Level.PARTITION else max_kept_bytes
        self.clear()

    def __missing__(self, key: int) -> int:
        flags = self[key] = self._flags(key >> 8, key & 0xFF)
        return flags

    def _flags(self, api_key: int, api_version: int) -> int:
        flags = PRODUCE if api_key == ApiKey.Produce else 0
        if api_key in _HELD_REQUESTS:
            flags |= HOLD_REQUEST
        if api_version >= FIRST_WITH_ENDPOINTS.get(api_key, 256) and is_known(api_key, api_version):
            flags |= ENDPOINTS
        elif api_key in _HELD_RESPONSES or (
            is_known(api_key, api_version) and carriers(response_codec(api_key, api_version))
        ):
            flags |= HOLD_RESPONSE
        if self._level is not None and self._level.reads_bodies and api_key not in _SECRET:
            flags |= KEEP_REQUEST | KEEP_RESPONSE
        return flags
