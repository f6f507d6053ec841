"""An invariant of the user's as SQL: each row that it answers is something wrong."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from notleader.proxy.brokerlog.schema import LOG, rows_of
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.outcome import documents

_TEXTS: Final = ("client", "operation", "message_id", "topic", "key_hash", "group_id", "thread", "outcome", "error")
_NUMBERS: Final = ("partition", "offset", "called_at_us", "returned_at_us", "completed_at_us", "budget_ms")
_OUTCOMES: Final = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _NUMBERS)])
_EXCHANGE: Final = pa.schema(
    [
        ("api_name", pa.string()),
        ("client_id", pa.string()),
        ("connection_id", pa.int64()),
        ("correlation_id", pa.int64()),
        ("outcome", pa.string()),
        ("error_code", pa.int32()),
        ("request_at_us", pa.int64()),
        ("response_at_us", pa.int64()),
        ("node_id", pa.int32()),
        ("fault_names", pa.list_(pa.string())),
        ("fault_kinds", pa.list_(pa.string())),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("partition_error", pa.int32()),
        ("base_offset", pa.int64()),
    ]
)
"""A row for each partition of an exchange, or one for an exchange that names none."""
TABLES: Final = {"log": LOG, "outcomes": _OUTCOMES, "exchanges": _EXCHANGE}
"""What a query can read, with the columns of each."""
_SHOWN: Final = 3


def answer(query: str, log: Path, lines: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    """How many rows the query answers, and the first of them as text. Raises LabError when it is no query."""
    tables = {
        "log": pa.Table.from_pylist(list(rows_of(log, LOG.names)) if log.is_dir() else [], schema=LOG),
        "outcomes": pa.Table.from_pylist(list(_outcomes(lines)), schema=_OUTCOMES),
        "exchanges": pa.Table.from_pylist([each for row in rows for each in _by_partition(row)], schema=_EXCHANGE),
    }
    duckdb = importlib.import_module("duckdb")
    # Tries run side by side: each has a database of its own, which reads nothing but its tables.
    with duckdb.connect(config={"threads": 1, "enable_external_access": False}) as database:
        for name, table in tables.items():
            database.register(name, table)
        try:
            found = database.execute(query)
            names = [column[0] for column in found.description or ()]
            wrong = found.fetchall()
        except duckdb.Error as error:
            raise LabError(f"--check-sql: {' '.join(str(error).split())}") from error
    shown = (", ".join(f"{name}={value}" for name, value in zip(names, row, strict=True)) for row in wrong[:_SHOWN])
    more = f"; {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return len(wrong), "; ".join(shown) + more


def valid(query: str) -> None:
    """Raise LabError where the query can't be asked, rather than in each try."""
    answer(query, Path("no log"), [], [])


def _outcomes(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for document in documents(lines):
        if "operation" in document:
            texts = {name: str(document[name]) for name in _TEXTS if document.get(name) is not None}
            yield texts | {name: document[name] for name in _NUMBERS if type(document.get(name)) is int}


def _by_partition(row: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    common = {name: row.get(name) for name in _EXCHANGE.names[:11]}
    named: list[Mapping[str, Any]] = row.get("partitions") or [{}]
    for each in named:
        yield common | {
            "topic": each.get("topic"),
            "partition": each.get("partition_index"),
            "partition_error": each.get("error_code"),
            "base_offset": each.get("base_offset"),
        }
