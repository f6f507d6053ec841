"""Errors that answers take to clients are counted once, whoever reads them: session, the loop or the recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from notleader.proxy import Proxy
from notleader.proxy.wire.names import ApiKey, ErrorCode
from tests.proxy.session.conversation import Conversation, request, response

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
HEARTBEAT = ApiKey.Heartbeat


def ask(talk: Conversation, number: int, error: int) -> None:
    talk.client(request(HEARTBEAT, 4, number, {"group_id": "g"}))
    if len(talk.session.carrier.pump):
        talk.broker(response(HEARTBEAT, 4, number, {"error_code": error}))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def test_without_a_capture_what_faults_answer_is_counted() -> None:
    proxy = Proxy.in_front_of("127.0.0.1:9092")
    fault = {"kind": "error", "error_code": "REBALANCE_IN_PROGRESS", "match": {"api_key": "Heartbeat"}}
    talk = Conversation({**fault, "trigger": {"times": 2}})
    for number in range(4):
        ask(talk, number, 27)
    for exchange in talk.exchanges:
        proxy.record(exchange)
    assert dict(proxy.counters.errors) == {(HEARTBEAT, REBALANCE): 2}


@pytest.mark.parametrize("faulted", [0, 2])
async def test_with_a_capture_every_error_is_counted_once(faulted: int, tmp_path: Path) -> None:
    proxy = Proxy.in_front_of("127.0.0.1:9092")
    await proxy.start_capture(str(tmp_path), "partition")
    fault = {"kind": "error", "error_code": "REBALANCE_IN_PROGRESS", "match": {"api_key": "Heartbeat"}}
    faults = [{**fault, "trigger": {"times": faulted}}] if faulted else []
    talk = Conversation(*faults, level=proxy.settings.capture_level)
    for number in range(30):
        # The first of a kind is read by the recorder, which teaches the loop; from then on the loop reads them.
        ask(talk, number, 27 if number % 3 == 0 else 0)
        for exchange in talk.exchanges:
            proxy.record(exchange)
        talk.records.clear()
        if number < 5:
            await until(lambda: proxy.capture is not None and proxy.capture.queued_rows == 0)
    await proxy.stop_capture()
    expected = sum(number % 3 == 0 or number < faulted for number in range(30))
    await until(lambda: sum(proxy.counters.errors.values()) >= expected)
    assert dict(proxy.counters.errors) == {(HEARTBEAT, REBALANCE): expected}
