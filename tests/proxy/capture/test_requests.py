"""Recorded requests as lines that can be sent again."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from notleader.proxy.capture.requests import write_requests
from notleader.proxy.record.limits import CaptureError
from tests.proxy.replay.made import Row, batch, ended, metadata, produced


def written(*rows: Row) -> tuple[list[dict[str, Any]], dict[str, int]]:
    def read(frames: bool) -> Iterator[Row]:
        for one in rows:
            yield one if frames else {**one, "request_frame": None}

    target = io.BytesIO()
    told = write_requests(read, target)
    return [json.loads(line) for line in target.getvalue().splitlines()], told


def test_each_request_is_a_line_in_the_order_of_time() -> None:
    slow = produced(5, batch(b"value"), 0, response_at_us=99_000)
    lines, told = written(metadata(9, "orders"), slow, ended(100, "the client closed the connection"))
    assert told == {"requests": 2, "without_frames": 0}
    assert [(line["at_ms"], line["api"], line["version"]) for line in lines] == [(0, "Produce", 7), (4, "Metadata", 5)]
    first = lines[0]
    assert (first["connection_id"], first["exchange_seq"], first["node_id"], first["client_id"]) == (1, 5, 1, "shop")
    assert first["correlation_id"] is None or isinstance(first["correlation_id"], int)
    (partition,) = first["body"]["topic_data"][0]["partition_data"]
    assert partition["records"][0]["records"][0]["value"] == "value"


def test_the_frame_is_what_went_over_the_wire() -> None:
    row = metadata(0, "orders")
    (line,), _ = written(row)
    assert base64.b64decode(line["frame"]) == len(row["request_frame"]).to_bytes(4, "big") + row["request_frame"]


def test_a_request_that_can_not_be_read_is_a_line_that_says_so() -> None:
    row = metadata(0, "orders")
    row["request_frame"] = row["request_frame"][:-3]
    (line,), _ = written(row)
    assert line["body"].startswith("not read: ")


def test_without_frames_there_is_nothing_to_send() -> None:
    row = metadata(0, "orders")
    with pytest.raises(CaptureError, match="--capture-level payload"):
        written({**row, "request_frame": None})
    _, told = written(row, {**metadata(1, "x"), "request_frame": None})
    assert told == {"requests": 1, "without_frames": 1}
