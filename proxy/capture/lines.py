"""Rows for people: one line each, in columns that stay put, so that a stream of them can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from notleader.proxy.wire.names import error_text
from notleader.proxy.wire.printable import printable

_WIDTHS: Final = (
    ("TIME (UTC)", 15),
    ("CONN", 6),
    ("CLIENT", 18),
    ("NODE", 4),
    ("API", 22),
    ("ms", 9),
    ("SENT", 8),
    ("GOT", 8),
    ("WHAT", 0),
)
_OUTCOME_STYLE: Final = {
    "injected": "magenta",
    "altered": "magenta",
    "dropped": "red",
    "closed": "red",
    "no_response": "yellow",
}
_EVENT_STYLE: Final = {"wire_error": "red", "gap": "yellow", "mark": "cyan"}
_MOST_TOPICS: Final = 3


def head() -> Text:
    """The names of the columns."""
    return Text(_laid_out(name for name, _ in _WIDTHS), style="bold")


def line(row: Mapping[str, Any]) -> Text:
    """One row as one line, styled for a terminal; ``.plain`` is the bare text."""
    cells = map(printable, _cells(row))
    text = Text(_laid_out(cells), no_wrap=True)
    if row["event"] != "exchange":
        text.stylize(_EVENT_STYLE.get(row["event"], "dim"))
    elif row["outcome"] != "answered":
        text.stylize(_OUTCOME_STYLE.get(row["outcome"], ""))
    elif row["error_code"]:
        text.stylize("red")
    return text


def tabbed(row: Mapping[str, Any]) -> str:
    """One row as tab-separated cells, for programs that cut."""
    return "\t".join(map(printable, _cells(row)))


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    at_us = row["request_at_us"]
    time = "" if at_us is None else f"{datetime.fromtimestamp(at_us / 1e6, UTC):%H:%M:%S.%f}"
    connection = "" if row["connection_id"] is None else str(row["connection_id"])
    client = row["client_id"] or row["client_addr"] or ""
    node = "" if row["node_id"] is None else str(row["node_id"])
    if row["event"] != "exchange":
        return (time, connection, client, node, row["event"], "", "", "", said_of_event(row))
    latency = ""
    if row["response_at_us"] is not None:
        latency = f"{(row['response_at_us'] - at_us) / 1000:.2f}"
    return (
        time,
        connection,
        client,
        node,
        f"{row['api_name']} v{row['api_version']}",
        latency,
        size(row["request_bytes"]),
        size(row["response_bytes"]) if row["response_bytes"] else "",
        said_of_exchange(row),
    )


def said_of_event(row: Mapping[str, Any]) -> str:
    """What a row that is no exchange says, with the faults behind it."""
    faults = row["fault_names"]
    return " ".join(filter(None, (row["detail"], f"[{', '.join(faults)}]" if faults else "")))


def said_of_exchange(row: Mapping[str, Any]) -> str:
    """The topics, group, error, outcome and faults of an exchange in a few words."""
    words = []
    if row["group_id"]:
        words.append(f"group={row['group_id']}")
    if row["transactional_id"]:
        words.append(f"txn={row['transactional_id']}")
    if row["acks"] is not None:
        words.append(f"acks={row['acks']}")
    if row["partitions"]:
        words.append(_topics(row["partitions"]))
    if row["error_code"]:
        words.append(error_text(row["error_code"]))
    if row["outcome"] != "answered" and not (row["outcome"] == "no_response" and row["acks"] == 0):
        words.append(row["outcome"])
    if row["fault_names"]:
        words.append(f"[{', '.join(row['fault_names'])}]")
    if row["throttle_time_ms"]:
        words.append(f"throttled {row['throttle_time_ms']} ms")
    if row["detail"]:
        words.append(row["detail"])
    return " ".join(words)


def _topics(partitions: Iterable[Mapping[str, Any]]) -> str:
    """``orders-0(3) payments-1(1)``: partition, and how many records where that is known."""
    said: list[str] = []
    more = 0
    for partition in partitions:
        if len(said) == _MOST_TOPICS:
            more += 1
            continue
        name = partition["topic"] or partition["topic_id"] or "?"
        if partition["partition_index"] is not None:
            name = f"{name}-{partition['partition_index']}"
        count = partition["record_count"]
        said.append(f"{name}({count})" if count else name)
    return " ".join(said) + (f" +{more}" if more else "")


def size(size_bytes: int) -> str:
    """Bytes in three digits and a unit."""
    if size_bytes < 1000:
        return f"{size_bytes}B"
    power = min((size_bytes.bit_length() - 1) // 10 or 1, 4)
    return f"{size_bytes / 1024**power:.1f}{'KMGT'[power - 1]}"


def _laid_out(cells: Iterable[str]) -> str:
    parts = []
    for cell, (name, width) in zip(cells, _WIDTHS, strict=True):
        if not width:
            parts.append(cell)
        elif name in ("ms", "SENT", "GOT", "NODE", "CONN"):
            parts.append(cell.rjust(width))
        else:
            parts.append(cell[:width].ljust(width))
    return " ".join(parts).rstrip()


def most(counted: Counter[str], limit: int = 3) -> str:
    """The most frequent ones: ``a x3, b x1``."""
    return ", ".join(f"{name} x{count}" for name, count in counted.most_common(limit))
