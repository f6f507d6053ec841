"""What a connection leaves is recorded in its order, and nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

from notleader.proxy.net.endings import PIECE, Endings


async def test_many_entries_are_recorded_in_pieces_and_others_are_served_in_between() -> None:
    endings, recorded, served = Endings(), [], []
    entries: list[Any] = list(range(10 * PIECE + 1))
    endings.add(recorded.append, entries)
    endings.add(recorded.append, [Ellipsis])  # of one that ended later
    asyncio.get_running_loop().call_soon(lambda: served.append(len(recorded)))
    assert recorded == []
    await endings.recorded()
    assert recorded == [*entries, Ellipsis]
    assert served == [PIECE]


async def test_few_are_recorded_at_once() -> None:
    endings, recorded = Endings(), []
    entries: list[Any] = list(range(PIECE))
    endings.add(recorded.append, entries)
    assert recorded == entries


async def test_one_that_cannot_be_recorded_holds_nothing_up() -> None:
    endings, recorded = Endings(), []

    def record(entry: Any) -> None:
        if entry == 5:
            raise ValueError(entry)
        recorded.append(entry)

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    entries: list[Any] = list(range(2 * PIECE))
    endings.add(record, entries)
    await endings.recorded()
    assert recorded == [entry for entry in entries if entry != 5]
