"""What a finished exchange comes by: the counters, and the capture's columns.

The short ways of the compiled form do what the long ones do, here both beside each other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.faults.base import Connection
from notleader.faults.decision import Hit
from notleader.proxy import Proxy
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.quick import short_key
from tests.proxy.pump.play import values_of


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


async def told(note: Callable[[Proxy], Callable[[Any], None]], folder: Path | None, level: str, watched: bool) -> Any:
    proxy = Proxy.in_front_of("127.0.0.1:9092", seed=7)
    if folder is not None:
        await proxy.start_capture(str(folder), level)
    for most in (1, 2, 3):  # what comes first has to see to it that all is handed over
        with proxy.subscribe(lambda row: True) if watched else contextlib.nullcontext():
            for entry in sorted(entries(), key=lambda entry: type(entry) is not Exchange):
                note(proxy)(entry)
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
    return values_of(proxy.counters), rows


@pytest.mark.parametrize(
    ("level", "watched"),
    [(None, False), ("header", False), ("partition", False), ("header", True), ("partition", True)],
)
async def test_the_short_way_into_the_capture_is_the_long_one(level: str | None, watched: bool, tmp_path: Path) -> None:
    folders = [None if level is None else tmp_path / name for name in ("short", "long")]
    short = await told(lambda proxy: proxy.record, folders[0], level or "", watched)
    long = await told(lambda proxy: proxy._note, folders[1], level or "", watched)
    assert short == long
    assert sum(short[0]["unanswered"].values())
    assert len(short[1]) == (0 if level is None else 3 * len(entries()))


async def test_a_single_plain_exchange_is_handed_over(tmp_path: Path) -> None:
    proxy = Proxy.in_front_of("127.0.0.1:9092")
    await proxy.start_capture(str(tmp_path), "header")
    connection = Connection(1, 1, "broker-1", 1, "127.0.0.1:5")
    proxy.record(Exchange(connection, 1, 12, 4, 1, "c", 2_000, 100, 0))
    async with asyncio.timeout(60):
        while proxy.capture is not None and not proxy.capture.written_rows:
            await asyncio.sleep(0.02)
    await proxy.stop_capture()


# ---- as columns -----------------------------------------------------------------------------------------------------

NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)


TAIL = st.lists(st.sampled_from([0, 1]), max_size=2).map(bytes)
REQUEST = st.binary(max_size=8) | st.binary(min_size=8, max_size=8).flatmap(lambda head: TAIL.map(lambda b: head + b))
RESPONSE = st.binary(max_size=4) | st.binary(min_size=4, max_size=4).flatmap(lambda head: TAIL.map(lambda b: head + b))


@given(st.lists(st.tuples(st.sampled_from([0, 1, 0xFFFFFF]), REQUEST, RESPONSE), max_size=20))
def test_frames_with_one_key_say_the_same(frames: list[tuple[int, bytes, bytes]]) -> None:
    keys = [short_key(*frame) for frame in frames]
    said = [(api, request[8:], response[4:]) for api, request, response in frames]
    for key, what in zip(keys, said, strict=True):
        assert [other == key for other in keys] == [other == what for other in said]
