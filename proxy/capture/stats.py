"""What the clients of a capture do, counted: APIs, errors, latencies, batches, acks, group membership."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from notleader.proxy.wire.names import ApiKey, error_text

_MEMBERSHIP: Final = {
    ApiKey.JoinGroup: "joins",
    ApiKey.SyncGroup: "syncs",
    ApiKey.LeaveGroup: "leaves",
    ApiKey.Heartbeat: "heartbeats",
    ApiKey.ConsumerGroupHeartbeat: "heartbeats",
}


class _Traffic:
    """One API of one client."""

    def __init__(self) -> None:
        self.count = 0
        self.errors: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.latencies_us = array("q")
        self.request_bytes = 0
        self.response_bytes = 0


class _Producing:
    """The batches one client sends."""

    def __init__(self) -> None:
        self.requests = 0
        self.acks: Counter[int] = Counter()
        self.compression: Counter[str] = Counter()
        self.topics: Counter[str] = Counter()
        self.batches = 0
        self.records = 0
        self.batch_bytes = 0


class _Group:
    """What the members of one group do about their membership."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.clients: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()


class Statistics:
    """Rows in, one document out."""

    def __init__(self) -> None:
        self._traffic: defaultdict[tuple[str, str], _Traffic] = defaultdict(_Traffic)
        self._producing: defaultdict[str, _Producing] = defaultdict(_Producing)
        self._groups: defaultdict[str, _Group] = defaultdict(_Group)
        self._events: Counter[str] = Counter()
        self._first_us: int | None = None
        self._last_us: int | None = None

    def add_all(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Count rows (column → value)."""
        for row in rows:
            self._events[row["event"]] += 1
            if row["event"] == "exchange":
                self._add(row)

    def _add(self, row: Mapping[str, Any]) -> None:
        at_us = row["request_at_us"]
        self._first_us = at_us if self._first_us is None else min(self._first_us, at_us)
        self._last_us = at_us if self._last_us is None else max(self._last_us, at_us)
        client = row["client_id"] or row["client_addr"] or "?"
        traffic = self._traffic[client, row["api_name"]]
        traffic.count += 1
        traffic.outcomes[row["outcome"]] += 1
        traffic.request_bytes += row["request_bytes"]
        traffic.response_bytes += row["response_bytes"] or 0
        if row["error_code"]:
            traffic.errors[error_text(row["error_code"])] += 1
        if row["response_at_us"] is not None:
            traffic.latencies_us.append(row["response_at_us"] - at_us)
        if row["api_key"] == ApiKey.Produce:
            self._produce(self._producing[client], row)
        elif row["api_key"] in _MEMBERSHIP and row["group_id"]:
            group = self._groups[row["group_id"]]
            group.calls[_MEMBERSHIP[row["api_key"]]] += 1
            group.clients[client] += 1
            if row["error_code"]:
                group.errors[error_text(row["error_code"])] += 1
            if row["detail"]:
                group.reasons[row["detail"]] += 1

    def _produce(self, producing: _Producing, row: Mapping[str, Any]) -> None:
        producing.requests += 1
        if row["acks"] is not None:
            producing.acks[row["acks"]] += 1
        for partition in row["partitions"] or ():
            producing.batches += 1
            producing.records += partition["record_count"] or 0
            producing.batch_bytes += partition["batch_bytes"] or 0
            producing.topics[partition["topic"] or partition["topic_id"] or "?"] += 1
            if partition["compression"]:
                producing.compression[partition["compression"]] += 1

    def document(self) -> dict[str, Any]:
        """Everything, as JSON values; latencies in ms, sizes in bytes."""
        return {
            "exchanges": self._events["exchange"],
            "events": {name: count for name, count in sorted(self._events.items()) if name != "exchange"},
            "seconds": 0.0
            if self._first_us is None or self._last_us is None
            else (self._last_us - self._first_us) / 1e6,
            "traffic": [
                _traffic(client, api, found)
                for (client, api), found in sorted(self._traffic.items(), key=lambda item: (item[0][0], -item[1].count))
            ],
            "producers": [_producer(client, found) for client, found in sorted(self._producing.items())],
            "groups": [_group(group_id, found) for group_id, found in sorted(self._groups.items())],
        }


def _traffic(client: str, api: str, found: _Traffic) -> dict[str, Any]:
    errors = sum(found.errors.values())
    return {
        "client": client,
        "api": api,
        "count": found.count,
        "errors": errors,
        "error_rate": errors / found.count,
        "error_codes": dict(found.errors.most_common()),
        "outcomes": dict(found.outcomes.most_common()),
        "request_bytes": found.request_bytes,
        "response_bytes": found.response_bytes,
        **percentiles(found.latencies_us),
    }


def percentiles(latencies_us: Iterable[int]) -> dict[str, float | None]:
    """p50, p95, p99 and the longest, in ms; None where nothing was answered."""
    ordered = sorted(latencies_us)
    told: dict[str, float | None] = {}
    for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1.0)):
        # The smallest value that at least this share of all does not exceed (nearest rank).
        rank = max(-(-len(ordered) * share // 1), 1)
        told[name] = ordered[int(rank) - 1] / 1000 if ordered else None
    return told


def _producer(client: str, found: _Producing) -> dict[str, Any]:
    return {
        "client": client,
        "requests": found.requests,
        "acks": {str(acks): count for acks, count in sorted(found.acks.items())},
        "batches": found.batches,
        "records": found.records,
        "records_per_batch": found.records / found.batches if found.batches else None,
        "bytes_per_batch": found.batch_bytes / found.batches if found.batches else None,
        "compression": dict(found.compression.most_common()),
        "topics": dict(found.topics.most_common(10)),
    }


def _group(group_id: str, found: _Group) -> dict[str, Any]:
    return {
        "group": group_id,
        "joins": found.calls["joins"],
        "syncs": found.calls["syncs"],
        "leaves": found.calls["leaves"],
        "heartbeats": found.calls["heartbeats"],
        "errors": dict(found.errors.most_common()),
        "reasons": dict(found.reasons.most_common(10)),
        "clients": dict(found.clients.most_common(10)),
    }
