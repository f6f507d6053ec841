"""Captures in the formats of other tools: pcapng for Wireshark, JSON lines, CSV."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final

from notleader.proxy import __version__
from notleader.proxy.capture import pcapng
from notleader.proxy.capture.streams import Streams, horizon_us
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.record.rows import COLUMNS

RowLike = Mapping[str, Any]
FORMATS: Final = ("pcapng", "jsonl", "csv")
# What a spreadsheet takes for a formula (OWASP, CSV injection): a client chooses its own id.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def plain(row: RowLike) -> dict[str, Any]:
    """A row as JSON values: bytes as base64."""
    return {
        name: base64.b64encode(value).decode() if isinstance(value, (bytes, memoryview)) else value
        for name, value in row.items()
    }


def write_jsonl(rows: Iterable[RowLike], target: BinaryIO) -> dict[str, int]:
    """One JSON document per row."""
    count = 0
    for row in rows:
        target.write(json.dumps(plain(row), separators=(",", ":")).encode() + b"\n")
        count += 1
    return {"rows": count}


def write_csv(rows: Iterable[RowLike], target: BinaryIO) -> dict[str, int]:
    """One line per row, the columns of the capture as they are; lists, partitions too, are JSON in their cell.

    A text that a spreadsheet would take for a formula stands behind an apostrophe.
    """
    text = io.TextIOWrapper(target, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    count = 0
    for row in rows:
        cells = plain(row)
        writer.writerow(_cell(cells.get(name)) for name in COLUMNS)
        count += 1
    text.detach()
    return {"rows": count}


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, dict)) else value


def write_pcapng(read: Callable[[bool], Iterator[RowLike]], target: BinaryIO) -> dict[str, int]:
    """The client's side of every connection as TCP streams; ``read(frames)`` gives the rows, twice.

    Raises CaptureError when the rows hold no frames.
    """
    # Packets have to come in the order of time, rows come as exchanges end: how far back must one look?
    horizon = horizon_us(read(False))
    streams = Streams()
    target.write(pcapng.header(f"notleader {__version__}", "notleader"))
    for block in streams.packets_of(read(True), horizon):
        target.write(block)
    with_frames = streams.exchanges - streams.without_frames
    if streams.exchanges and not with_frames:
        raise CaptureError("the capture holds no frames: record with --capture-level payload")
    if streams.names:
        target.write(pcapng.names(streams.names))
    return {"packets": streams.packets, "exchanges": with_frames, "without_frames": streams.without_frames}
