"""What may happen to a recording before it is judged: copied segments, repeated lines, rows that were lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_LOST = 12


def segments_twice(run: Any) -> None:
    """Each segment lies there again under another name, as after a copy that was tried twice."""
    for file in _segments(run):
        shutil.copy(file, file.with_name(f"copy-{file.name}"))


def lines_twice(run: Any) -> None:
    """Each file of outcome lines has all of its lines twice."""
    for file in run.outcomes.glob("*.jsonl"):
        file.write_text(file.read_text() * 2)


def gap(run: Any) -> None:
    """Some rows in the middle are lost, and a row says so, as the recorder writes it."""
    for file in _segments(run):
        with pq.ParquetFile(file) as opened:
            table = opened.read()
        rows = table.to_pylist()
        middle = len(rows) // 2
        lost = rows[middle : middle + _LOST]
        times = [row["request_at_us"] for row in lost]
        said = {name: lost[0][name] for name in ("run_id", "proxy_id", "seed")} | {
            "event": "gap",
            "fault_names": [],
            "fault_kinds": [],
            "detail": f"lost {len(lost)} rows: the recorder could not keep up",
            "request_at_us": min(times),
            "response_at_us": max(times),
        }
        kept = [*rows[:middle], dict.fromkeys(table.schema.names) | said, *rows[middle + _LOST :]]
        pq.write_table(pa.Table.from_pylist(kept, schema=table.schema), file)


def _segments(run: Any) -> list[Path]:
    return sorted(run.capture.glob("date=*/run=*/*.parquet"))
