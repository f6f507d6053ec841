"""What a finished exchange comes by: the counters, and the capture; what the loop reads itself is what it leaves."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from notleader.faults.base import Connection
from notleader.faults.decision import Hit
from notleader.proxy import Proxy
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent


def entries() -> list[Exchange | ConnectionEvent]:
    """Of all kinds: plain, without an answer, altered by a fault, with an error, not a request at all."""
    connection = Connection(1, 1, "broker-1", 1, "127.0.0.1:5")
    made: list[Exchange | ConnectionEvent] = [ConnectionEvent("connect", connection, 1_000, "broker-1")]
    for number in range(40):
        exchange = Exchange(connection, number, 12 if number % 4 else 3, 4, number, "c", 2_000 + number, 100, 0)
        exchange.forwarded_at_us = 2_001 + number if number % 9 else 0
        if number % 5:
            exchange.outcome = "answered"
            exchange.response_bytes = 50
            exchange.broker_responded_at_us = 2_100 + number
            exchange.response_at_us = 2_100 + number * number
        if number % 7 == 0:
            exchange.hits = (Hit("rule", "error", "instead"),)
            exchange.outcome = "injected"
        if number % 6 == 0:
            exchange.error_code = 27
        made.append(exchange)
    return [*made, ConnectionEvent("disconnect", connection, 9_000, "gone")]


async def told(folder: Path | None, level: str, watched: bool, in_passing: bool) -> Any:
    # On a busy machine the recorder needs longer for its last segment than by default is waited.
    proxy = Proxy.in_front_of("127.0.0.1:9092", seed=7, capture_stop_s=120)
    if folder is not None:
        await proxy.start_capture(str(folder), level)
    for most in (1, 2, 3):  # what comes first has to see to it that all is handed over
        with proxy.subscribe(lambda row: True) if watched else contextlib.nullcontext():
            if not in_passing:
                proxy.sink.blocks = None
            for entry in sorted(entries(), key=lambda entry: type(entry) is not Exchange):
                proxy.record(entry)
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while proxy.capture is not None and proxy.capture.written_rows < most * len(entries()):
                await asyncio.sleep(0.02)
    await proxy.stop_capture()
    rows = []
    if folder is not None:
        table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
        # What is flushed together depends on the moment, and with it the order.
        rows = sorted(map(repr, table.drop_columns(["run_id", "proxy_id"]).to_pylist()))
    return proxy.counters, rows


@pytest.mark.parametrize(
    ("level", "watched"),
    [(None, False), ("header", False), ("partition", False), ("header", True), ("partition", True)],
)
async def test_what_is_read_in_passing_is_what_is_left(level: str | None, watched: bool, tmp_path: Path) -> None:
    folders = [None if level is None else tmp_path / name for name in ("passing", "left")]
    counters, rows = await told(folders[0], level or "", watched, True)
    others, rows_left = await told(folders[1], level or "", watched, False)
    assert counters.values() == others.values()
    assert rows == rows_left
    assert len(rows) == (0 if level is None else 3 * len(entries()))


async def test_every_exchange_is_counted_once() -> None:
    counters, _ = await told(None, "", watched=False, in_passing=True)
    made = [entry for entry in entries() if isinstance(entry, Exchange)]
    answered = [entry for entry in made if entry.response_at_us]
    traffic = counters.traffic
    assert traffic.broker_bytes == 3 * sum(entry.request_bytes for entry in made if entry.forwarded_at_us)
    assert traffic.client_bytes == 3 * sum(entry.response_bytes for entry in made)
    assert sum(map(sum, traffic.latency_us.values())) == 3 * len(answered)
    assert sum(traffic.latency_sum_us.values()) == 3 * sum(one.response_at_us - one.request_at_us for one in answered)
    assert sum(traffic.unanswered.values()) == 3 * (len(made) - len(answered))
    assert counters.injected == {("rule", "error", "instead"): 3 * sum(bool(entry.hits) for entry in made)}


async def test_a_single_plain_exchange_is_handed_over(tmp_path: Path) -> None:
    proxy = Proxy.in_front_of("127.0.0.1:9092")
    await proxy.start_capture(str(tmp_path), "header")
    connection = Connection(1, 1, "broker-1", 1, "127.0.0.1:5")
    proxy.record(Exchange(connection, 1, 12, 4, 1, "c", 2_000, 100, 0))
    async with asyncio.timeout(60):
        while proxy.capture is not None and not proxy.capture.written_rows:
            await asyncio.sleep(0.02)
    await proxy.stop_capture()
