"""Finished exchanges and their rows, without a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from notleader.faults.base import Connection
from notleader.proxy.pump import Exchange
from notleader.proxy.record.rows import Level, Row, Rows

RUN, PROXY = "run-1", "proxy-1"
METADATA = {
    "notleader.schema_version": "1",
    "notleader.run_id": RUN,
    "notleader.proxy_id": PROXY,
    "notleader.seed": "7",
}


def maker(level: Level = Level.HEADER) -> Rows:
    return Rows(RUN, PROXY, 7, level)


def exchange(number: int, **changed: Any) -> Exchange:
    made = Exchange(Connection(1, 1, "broker-1", 1, "127.0.0.1:5"), number, 18, 3, number, "c", number * 1000, 60, 0)
    made.response_at_us = number * 1000 + 500
    made.outcome = "answered"
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def rows_of(numbers: Sequence[int], **changed: Any) -> list[Row]:
    rows = maker()
    return [rows.of(exchange(number, **changed)) for number in numbers]


def read(folder: Path) -> list[dict[str, Any]]:
    """Every row of the finished segments below a folder, file by file in the order of their names."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.rglob("*.parquet")):
        if not path.name.startswith("."):
            found += pq.ParquetFile(path).read().to_pylist()
    return found


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["exchange_seq"] for row in rows if row["event"] == "exchange"]


def gaps(rows: list[dict[str, Any]]) -> list[str]:
    return [row["detail"] for row in rows if row["event"] == "gap"]


def hidden_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".*") if path.is_file())
