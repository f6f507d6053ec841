"""The recorder is stopped, killed, fed nonsense, its folder deleted: the traffic goes on, each row is there or said."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from pathlib import Path
from random import Random

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.wire.names import ApiKey
from tests.integration.capture.conftest import Running, RunProxy, notleader
from tests.integration.capture.load import Load
from tests.integration.capture.test_durability import correlation_ids, gone, recorder_of
from tests.proxy.record.entries import gaps, hidden_files, read
from tests.proxy.session.conversation import request

pytestmark = pytest.mark.kafka

ROUNDS = int(os.environ.get("NOTLEADER_KILLS", "4"))


async def test_wherever_a_kill_comes_each_acknowledged_row_is_there_or_a_gap_row_is(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    random = Random(25)
    for number in range(ROUNDS):
        folder = tmp_path / f"capture-{number}"
        with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-rotate-s", "0.2") as running:
            load = Load(running.listen)
            asking = asyncio.create_task(load.run())
            await asyncio.sleep(random.uniform(0.1, 1.2))
            recorder = recorder_of(running.process.pid)
            if number % 2:
                os.kill(recorder, signal.SIGKILL)
            running.process.kill()
            await asking
            await gone(recorder)
        if number % 2:
            notleader("capture", "ls", str(folder), "--repair")
        saved = correlation_ids(folder)
        assert len(saved) == len(set(saved))
        assert load.answered_s
        missing = set(load.answered_s) - set(saved)
        assert not missing or gaps(read(folder)), f"round {number}: {len(missing)} rows are missing without a word"
        assert not hidden_files(folder)


async def answered_during(load: Load, seconds: float) -> int:
    before = len(load.answered_s)
    await asyncio.sleep(seconds)
    return len(load.answered_s) - before


async def ended(running: Running, number: int = signal.SIGTERM) -> float:
    """How long it took."""
    began = time.monotonic()
    running.process.send_signal(number)
    assert await asyncio.to_thread(running.process.wait, 120) == 0
    return time.monotonic() - began


def nothing_is_missing(folder: Path, load: Load) -> None:
    saved = correlation_ids(folder)
    assert sorted(saved) == sorted(set(saved))
    assert set(load.answered_s) <= set(saved)
    assert not gaps(read(folder))
    assert not hidden_files(folder)


async def test_a_recorder_that_is_killed_is_started_again_and_nothing_is_lost_or_doubled(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-rotate-s", "0.3") as running:
        load = Load(running.listen)
        asking = asyncio.create_task(load.run())
        seen = set()
        for _ in range(3):
            await asyncio.sleep(0.7)
            async with asyncio.timeout(60):
                while True:
                    try:
                        recorder = recorder_of(running.process.pid)
                        break
                    except ValueError:
                        await asyncio.sleep(0.05)
            seen.add(recorder)
            os.kill(recorder, signal.SIGKILL)
        assert await answered_during(load, 0.5) > 20
        await ended(running)
        await asking
        said = running.errors.read_text()
    assert len(seen) == 3
    assert said.count("was killed by signal 9; it goes on from the journal") == 3
    nothing_is_missing(folder, load)


@pytest.mark.parametrize(("stop_s", "is_told_again"), [("1", False), ("600", True)])
async def test_a_recorder_that_hangs_holds_up_neither_the_traffic_nor_the_end(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path, stop_s: str, is_told_again: bool
) -> None:
    folder = tmp_path / "capture"
    flags = ("--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-stop-s", stop_s)
    with run_proxy(*flags) as running:
        load = Load(running.listen)
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(1)
        recorder = recorder_of(running.process.pid)
        os.kill(recorder, signal.SIGSTOP)
        assert await answered_during(load, 1) > 50
        if is_told_again:
            running.process.send_signal(signal.SIGINT)
            while "stopping" not in running.errors.read_text():
                await asyncio.sleep(0.05)
        took_s = await ended(running, signal.SIGINT)
        await asking
        await gone(recorder)
        said = running.errors.read_text()
    assert took_s < 30
    assert ("told to stop again" in said) == is_told_again
    assert "rows stay behind in journals below" in said
    assert not read(folder)
    repaired = notleader("capture", "ls", str(folder), "--repair")
    assert "a proxy ended with" in repaired.stderr
    nothing_is_missing(folder, load)


async def test_a_folder_that_is_deleted_under_load_is_made_anew(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-rotate-s", "3600") as running:
        load = Load(running.listen)
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)
        before = len(load.answered_s)
        assert await answered_during(load, 1.5) > 50
        await ended(running)
        await asking
        said = running.errors.read_text()
    assert said.count("was deleted with") == 1
    assert "Traceback" not in said
    saved = set(correlation_ids(folder))
    missing = set(load.answered_s) - saved
    assert missing <= set(range(before + 200))
    assert missing
    (gap,) = gaps(read(folder))
    assert "the capture's journal was deleted before its segment was made" in gap
    # What the deleted journal had beside these: that the connection was opened.
    assert int(gap.split()[1]) - len(missing) in range(3)
    assert not hidden_files(folder)


async def test_a_topic_that_is_no_utf8_slows_nobody_down(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    asked = 0

    async def odd() -> None:
        nonlocal asked
        reader, writer = await asyncio.open_connection(*running.listen)
        try:
            while True:
                body = {"topics": [{"name": f"\udcff\udcfe{asked}"}], "allow_auto_topic_creation": False}
                writer.write(request(ApiKey.Metadata, 4, asked, body, client_id="odd"))
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
                asked += 1
                await asyncio.sleep(0.05)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-rotate-s", "1") as running:
        loads = [Load(running.listen, pause_s=0, client_id=f"load {number}") for number in range(4)]
        asking = [asyncio.create_task(work) for work in (odd(), *(load.run() for load in loads))]
        await asyncio.sleep(4)
        took_s = await ended(running)
        await asyncio.gather(*asking)
    assert asked > 5
    assert took_s < 25
    rows = [row for row in read(folder) if row["event"] == "exchange"]
    for number, load in enumerate(loads):
        saved = [row["correlation_id"] for row in rows if row["client_id"] == f"load {number}"]
        assert set(load.answered_s) <= set(saved)
        assert len(saved) == len(set(saved))
    mine = [row for row in rows if row["client_id"] == "odd"]
    assert len(mine) >= asked
    # As the broker has decoded the name.
    assert {row["partitions"][0]["topic"][:2] for row in mine if row["partitions"]} == {"\ufffd\ufffd"}
    assert not gaps(read(folder))
    assert not hidden_files(folder)
