"""Exchanges and runs in a few words, for the scripts of the search."""

from __future__ import annotations

from collections import Counter
from typing import Any

from notleader.proxy.lab.explore.judging import Ended, Reported


def row(api: str, at_ms: int, *partitions: int, **columns: Any) -> dict[str, Any]:
    """An answered exchange, as the capture has it."""
    return {
        "api_name": api,
        "api_key": 0,
        "request_at_us": at_ms * 1000,
        "outcome": "answered",
        "error_code": 0,
        "fault_names": [],
        "fault_kinds": [],
        "transactional_id": None,
        "partitions": [
            {"topic": "t", "partition_index": index, "producer_id": columns.get("producer_id", -1), "error_code": 0}
            for index in partitions
        ],
        **{name: value for name, value in columns.items() if name != "producer_id"},
    }


def ended(*log: str, code: int | None = 0, ok: str = "", failed: str = "", seconds: float = 1.0) -> Ended:
    """A run that left these ids in its log, and said of those in `ok` and `failed` what became of them."""
    in_log = Counter(("{topic}", name) for name in log)
    return Ended(code, seconds, Reported(frozenset(ok.split()), frozenset(failed.split())), in_log, frozenset(log))
