"""How much of each API the proxy has to see: a table of bit flags per (api_key, api_version).

The hot path looks one number up and moves on; everything it says no to is cut through as it came.
"""

from typing import Final

from notleader.proxy.pump.flags import (
    ENDPOINTS,
    HOLD_REQUEST,
    HOLD_RESPONSE,
    KEEP_REQUEST,
    KEEP_RESPONSE,
    PRODUCE,
    SMALL,
)
from notleader.proxy.record.rows import Level
from notleader.proxy.wire.addresses import carriers
from notleader.proxy.wire.codec import is_known, response_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.probe import has_endpoints
from notleader.proxy.wire.secret_fields import WHOLLY_SECRET

_LARGE: Final = 64 << 10
_HELD_REQUESTS = {ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate}
_HELD_RESPONSES = {ApiKey.ApiVersions, ApiKey.Metadata, ApiKey.SaslHandshake}


class Handling(dict[int, int]):
    """``table[api_number(api_key, api_version)]`` → flags, computed once per API and version."""

    def __init__(self, level: Level | None) -> None:
        super().__init__()
        self.record_at(level)

    def record_at(self, level: Level | None, max_kept_bytes: int = 64 << 20) -> None:
        """From now on keep what this capture level needs; None keeps nothing.

        Of a frame that is cut through and longer than ``shed_bytes`` only the facts are kept: at level ``partition``
        these are all that is asked for, elsewhere ``max_kept_bytes`` is the most that may be kept.
        """
        self._level = level
        shed_bytes = min(_LARGE, max_kept_bytes) if level is Level.PARTITION else max_kept_bytes
        # A small frame is kept where it comes in one piece: in several it is no other.
        self.shed_bytes = max(shed_bytes, SMALL)
        self.clear()

    def __missing__(self, key: int) -> int:
        flags = self[key] = self._flags(key >> 16, key & 0xFFFF)
        return flags

    def _flags(self, api_key: int, api_version: int) -> int:
        flags = PRODUCE if api_key == ApiKey.Produce else 0
        if api_key in _HELD_REQUESTS:
            flags |= HOLD_REQUEST
        if is_known(api_key, api_version) and has_endpoints(api_key, api_version):
            flags |= ENDPOINTS
        elif api_key in _HELD_RESPONSES or (
            is_known(api_key, api_version)
            and (api_key == ApiKey.SaslAuthenticate or carriers(response_codec(api_key, api_version)))
        ):
            flags |= HOLD_RESPONSE
        if self._level is not None and self._level.reads_bodies and api_key not in WHOLLY_SECRET:
            flags |= KEEP_REQUEST | KEEP_RESPONSE
        return flags
