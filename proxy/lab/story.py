"""What happened in a run, in order: what the client asked, what it was answered, what it did next."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset

from proxy.wire.names import ErrorCode

_COLUMNS = ["event", "client_id", "api_name", "request_at_us", "response_at_us", "outcome", "error_code"]
_COLUMNS += ["fault_names", "fault_phase", "detail", "partitions"]
_BLOCKED_US = 500_000


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened, or several alike in a row; times in µs since the epoch."""

    at_us: int
    text: str
    count: int = 1
    last_at_us: int = 0


def story(capture: Path, outcomes: Path, client_id: str) -> list[Line]:
    """The lines of one client, in order; alike neighbours are one line with a count."""
    rows = pyarrow.dataset.dataset(capture, format="parquet").to_table(columns=_COLUMNS).to_pylist()
    told = [Line(row["request_at_us"], _exchange(row)) for row in rows if row["client_id"] == client_id]
    told += _said(outcomes)
    return list(_together(sorted(told, key=lambda line: line.at_us)))


def _exchange(row: dict[str, Any]) -> str:
    if row["event"] != "exchange":
        return f"{row['event']}{': ' + row['detail'] if row['detail'] else ''}"
    what = row["api_name"] + _places(row["partitions"])
    by = f" ({', '.join(row['fault_names'])})" if row["fault_names"] else ""
    where = {"before_broker": ", never forwarded", "after_broker": ", though the broker applied it"}
    if row["outcome"] in ("dropped", "no_response", "closed"):
        answer = {"dropped": "no answer", "no_response": "no answer", "closed": "connection closed"}[row["outcome"]]
    elif row["error_code"]:
        answer = _error_name(row["error_code"])
    else:
        answer = f"answered after {(row['response_at_us'] - row['request_at_us']) / 1000:.0f} ms"
    return f"{what} → {answer}{by}{where.get(row['fault_phase'] or '', '') if by else ''}"


def _places(partitions: list[dict[str, Any]] | None) -> str:
    names = [
        f"{each['topic']}-{each['partition_index']}" + (f" x{each['record_count']}" if each["record_count"] else "")
        for each in partitions or ()
        if each["topic"]
    ]
    return f" {', '.join(names)}" if names else ""


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _said(outcomes: Path) -> Iterator[Line]:
    for text in outcomes.read_text().splitlines():
        line = json.loads(text)
        if line["operation"] != "send":
            continue
        called, returned = line["called_at_us"], line.get("returned_at_us")
        if returned and returned - called >= _BLOCKED_US:
            yield Line(returned, f"send returns after {(returned - called) / 1000:.0f} ms")
        if line["outcome"] != "pending":
            took_ms = (line["completed_at_us"] - called) / 1000
            error = f": {line['error']}" if line.get("error") else ""
            yield Line(line["completed_at_us"], f"send is told {line['outcome']} after {took_ms:.0f} ms{error}")
        elif not returned:
            yield Line(called, "the application calls send")


def _together(lines: Iterable[Line]) -> Iterator[Line]:
    held: Line | None = None
    for line in lines:
        if held is not None and held.text == line.text:
            held = Line(held.at_us, held.text, held.count + 1, line.at_us)
            continue
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held
