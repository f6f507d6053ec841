"""Which APIs and versions are offered: those that were recorded, as far as the recorded brokers and the codecs go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from notleader.proxy.replay.exchange import Exchange
from notleader.proxy.replay.recording import SASL, Recording
from notleader.proxy.wire.codec import Body, known_versions
from notleader.proxy.wire.enums import ApiKey

IMPLIED: Final = {
    ApiKey.JoinGroup: (ApiKey.SyncGroup, ApiKey.Heartbeat, ApiKey.LeaveGroup, ApiKey.OffsetCommit, ApiKey.OffsetFetch),
    ApiKey.Fetch: (ApiKey.ListOffsets, ApiKey.Produce),
    ApiKey.Produce: (ApiKey.Fetch, ApiKey.ListOffsets),
}
"""What goes with a recorded API though a short recording may lack it: no member lives without heartbeats, and
librdkafka reads and writes batches of message format v2 only where it is offered both Fetch and Produce.
"""
_ALWAYS: Final = (ApiKey.ApiVersions, ApiKey.Metadata)
_FETCH_OF_V2: Final = 4
"""The first version of Fetch whose answers may hold batches of message format v2 (KIP-98)."""


def offered(recording: Recording) -> dict[int, range]:
    """Each API that can be answered, and in which versions."""
    keys = {*_ALWAYS, *recording.exchanges, *(recording.apis & SASL)}
    keys |= {implied for key, others in IMPLIED.items() if key in recording.exchanges for implied in others}
    told = _told(recording.exchanges[ApiKey.ApiVersions])
    found = {key: _versions(key, told, recording.exchanges[key]) for key in sorted(keys)}
    return {key: versions for key, versions in found.items() if versions}


def _versions(api_key: int, told: dict[int, range], exchanges: list[Exchange]) -> range:
    known = known_versions(api_key)
    spoken = told.get(api_key, known)
    first, last = max(known.start, spoken.start), min(known.stop, spoken.stop)
    if api_key == ApiKey.Fetch:
        first = max(first, min([_FETCH_OF_V2, *(exchange.api_version for exchange in exchanges)]))
    return range(first, last) if first < last else known


def _told(exchanges: Iterable[Exchange]) -> dict[int, range]:
    """What the recorded brokers said they speak."""
    answers = [exchange.answer for exchange in exchanges if exchange.answer and not exchange.answer["error_code"]]
    return {
        one["api_key"]: range(one["min_version"], one["max_version"] + 1)
        for body in answers
        for one in body["api_keys"]
    }


def api_versions(offer: dict[int, range], recorded: Body | None) -> Body:
    """The answer to ApiVersions; the features are the recorded ones (KIP-584)."""
    entries = [
        {"api_key": key, "min_version": versions.start, "max_version": versions.stop - 1}
        for key, versions in offer.items()
    ]
    return {**(recorded or {}), "error_code": 0, "api_keys": entries}
