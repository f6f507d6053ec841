"""Recorded requests as JSON lines, each with the bytes that send it again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from notleader.proxy.capture.streams import horizon_us, in_time
from notleader.proxy.capture.tree import frames_of
from notleader.proxy.record.limits import CaptureError

RowLike = Mapping[str, Any]


def write_requests(read: Callable[[bool], Iterator[RowLike]], target: BinaryIO) -> dict[str, int]:
    """One JSON document per request that has its frame, in the order of time; ``read(frames)`` gives the rows, twice.

    ``at_ms`` counts from the first of them, ``frame`` is base64 of the request behind its 4-byte length. Raises
    CaptureError when the rows hold no frames.
    """
    horizon = horizon_us(read(False))
    count = without_frames = 0
    first_us: int | None = None

    def with_frames() -> Iterator[RowLike]:
        nonlocal without_frames
        for row in read(True):
            if row["event"] == "exchange" and row["request_frame"] is not None:
                yield row
            else:
                without_frames += row["event"] == "exchange"

    # Rows can't be compared: each has a number of its own.
    moments = ((row["request_at_us"], row["exchange_seq"], nth, row) for nth, row in enumerate(with_frames()))
    for *_, row in in_time(moments, horizon):
        first_us = row["request_at_us"] if first_us is None else first_us
        target.write(json.dumps(_document(row, first_us), separators=(",", ":")).encode() + b"\n")
        count += 1
    if without_frames and not count:
        raise CaptureError("the capture holds no frames: record with --capture-level payload")
    return {"requests": count, "without_frames": without_frames}


def _document(row: RowLike, first_us: int) -> dict[str, Any]:
    frame = bytes(row["request_frame"])
    told = frames_of(frame, None)["request"]
    return {
        "at_ms": (row["request_at_us"] - first_us) / 1000,
        **{name: row[name] for name in ("connection_id", "exchange_seq", "node_id", "client_id")},
        "api": row["api_name"],
        "version": row["api_version"],
        "correlation_id": row["correlation_id"],
        "body": told["body"] if isinstance(told, dict) else told,
        "frame": base64.b64encode(len(frame).to_bytes(4, "big") + frame).decode(),
    }
