"""What ends a proxy, and what of the capture is there afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from notleader.proxy.capture.reading import Capture
from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.capture.conftest import RunProxy, notleader
from tests.integration.capture.load import Load
from tests.proxy.record.entries import gaps, hidden_files, read
from tests.tools.programs import unable

pytestmark = pytest.mark.kafka


def correlation_ids(folder: Path) -> list[int]:
    return [row["correlation_id"] for row in read(folder) if row["client_id"] == "load" and row["event"] == "exchange"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        unable("mounting a small file system is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(ballast: Path) -> None:
    """Take all that the disk of this file has left, while others write there, too."""
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        block = bytes(os.statvfs(ballast).f_frsize)
        while True:
            file.write(block)


def recorder_of(pid: int) -> int:
    """The recorder that a proxy has started."""
    (found,) = (child for child in children(pid) if "notleader.proxy.recorder" in command_of(child))
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


async def gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while command_of(pid):
            await asyncio.sleep(0.05)


async def test_after_a_sigkill_the_recorder_finishes_what_is_there(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder)) as running:
        load = Load(running.listen)
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(3)
        recorder = recorder_of(running.process.pid)
        killed_s = time.time()
        running.process.kill()
        await asking
        await gone(recorder)
    assert not hidden_files(folder)
    _nothing_is_missing_but_the_last_second(folder, load, killed_s)


def _nothing_is_missing_but_the_last_second(folder: Path, load: Load, killed_s: float) -> None:
    saved = correlation_ids(folder)
    assert saved == list(range(len(saved)))
    # On a machine that stalls, the second that is promised is as much longer.
    stalled_s = max(later - earlier for earlier, later in pairwise(load.answered_s.values()))
    safe = [number for number, at_s in load.answered_s.items() if at_s < killed_s - 1 - 2 * stalled_s]
    assert len(safe) > 50
    assert set(safe) <= set(saved)
    (gap,) = gaps(read(folder))
    assert gap.startswith("lost an unknown number of rows: the proxy was killed")


async def test_what_both_leave_is_listed_and_repaired(kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder)) as running:
        load = Load(running.listen)
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(3)
        killed_s = time.time()
        os.kill(recorder_of(running.process.pid), signal.SIGKILL)
        running.process.kill()
        await asking
    assert not correlation_ids(folder)
    listed = json.loads(notleader("capture", "ls", str(folder), "--json").stdout)
    assert [one["state"] for one in listed] == ["left behind"]
    repaired = notleader("capture", "ls", str(folder), "--repair", "--json")
    assert "a killed proxy left" in repaired.stderr
    assert [one["state"] for one in json.loads(repaired.stdout)] == ["finished"]
    assert not hidden_files(folder)
    _nothing_is_missing_but_the_last_second(folder, load, killed_s)


async def test_the_next_start_on_the_folder_salvages(kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    arguments = ("--kafka", kafka.bootstrap, "--capture", str(folder))
    with run_proxy(*arguments) as running:
        await Load(running.listen).run(requests=20)
        async with asyncio.timeout(30):
            while sum(row["client_id"] == "load" for row in Capture(str(folder)).rows()) < 20:
                await asyncio.sleep(0.1)
        os.kill(recorder_of(running.process.pid), signal.SIGKILL)
        running.process.kill()
    with run_proxy(*arguments) as running:
        await Load(running.listen).run(requests=5)
        async with asyncio.timeout(30):
            while "a killed proxy left" not in running.errors.read_text():
                await asyncio.sleep(0.1)
        assert running.end(signal.SIGTERM) == 0
    assert sorted(correlation_ids(folder)) == sorted([*range(20), *range(5)])
    assert not hidden_files(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_sigterm_under_load_loses_nothing(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "capture"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder)) as running:
        load = Load(running.listen, pause_s=0)
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(1)
        running.process.send_signal(number)
        await asking
        assert await asyncio.to_thread(running.process.wait, 30) == 0
    saved = correlation_ids(folder)
    assert set(load.answered_s) <= set(saved)
    assert len(saved) == len(set(saved))
    assert not gaps(read(folder))
    assert not hidden_files(folder)


async def test_a_full_disk_stops_the_recording_and_not_the_traffic(
    kafka: KafkaCluster, run_proxy: RunProxy, small_disk: Path
) -> None:
    folder = small_disk / "capture"
    ballast = small_disk / "ballast"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-rotate-s", "1") as running:
        load = Load(running.listen, pause_s=0.002)
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(2)
        fill(ballast)
        full_s = time.time()
        await asyncio.sleep(3)
        answered_when_full = sum(at_s > full_s + 1 for at_s in load.answered_s.values())
        ballast.unlink()
        await asyncio.sleep(3)
        running.process.send_signal(signal.SIGTERM)
        await asking
        assert await asyncio.to_thread(running.process.wait, 30) == 0
        said = running.errors.read_text()
    assert answered_when_full > 20
    assert said.count("recording stopped, traffic goes on: can't write to") == 1
    assert said.count("recording resumed after") == 1
    saved = correlation_ids(folder)
    missing = set(load.answered_s) - set(saved)
    assert missing
    (gap,) = gaps(read(folder))
    assert gap.startswith(f"lost {len(missing)} rows: can't write to")
    assert {0, max(load.answered_s)} <= set(saved)
    assert not hidden_files(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_who_ends_while_the_disk_is_full_leaves_word_of_what_that_cost(
    kafka: KafkaCluster, run_proxy: RunProxy, small_disk: Path, number: signal.Signals
) -> None:
    folder = small_disk / "capture"
    ballast = small_disk / "ballast"
    flags = ("--capture", str(folder), "--capture-rotate-s", "1", "--capture-stop-s", "1")
    with run_proxy("--kafka", kafka.bootstrap, *flags) as running:
        load = Load(running.listen, pause_s=0.002)
        asking = asyncio.create_task(load.run())
        await asyncio.sleep(2)
        fill(ballast)
        await asyncio.sleep(3)
        recorder = recorder_of(running.process.pid)
        running.process.send_signal(number)
        await asking
        await asyncio.to_thread(running.process.wait, 30)
        if number == signal.SIGKILL:
            os.kill(recorder, signal.SIGKILL)
        await gone(recorder)
    ballast.unlink()
    notleader("capture", "ls", str(folder), "--repair")
    saved = set(correlation_ids(folder))
    missing = {number: at_s for number, at_s in load.answered_s.items() if number not in saved}
    rows = [row for row in read(folder) if row["event"] == "gap"]
    told = [row for row in rows if "can't write to" in row["detail"]]
    lost = sum(int(row["detail"].split()[1]) for row in told)
    assert missing
    assert all(
        any(row["request_at_us"] - 50_000 <= at_s * 1e6 <= row["response_at_us"] + 50_000 for row in rows)
        for at_s in missing.values()
    )
    if number == signal.SIGTERM:
        assert len(told) == len(rows)
        assert lost >= len(missing)  # the client's last connection has its end among them
    else:
        assert 0 < lost <= len(missing)
    assert not hidden_files(folder)


@pytest.mark.workers
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_no_worker_outlives_its_control_plane(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "capture"
    arguments = ("--kafka", kafka.bootstrap, "--capture", str(folder), "--workers", "2", "--proxy-id", "p")
    with run_proxy(*arguments) as running:
        recorder = recorder_of(running.process.pid)
        workers = [child for child in children(running.process.pid) if child != recorder]
        assert len(workers) == 2
        loads = [Load(running.listen, pause_s=0) for _ in range(8)]
        asking = [asyncio.create_task(load.run()) for load in loads]
        await asyncio.sleep(1)
        running.process.send_signal(number)
        await asyncio.gather(*asking)
        status = await asyncio.to_thread(running.process.wait, 60)
        assert status == (0 if number is signal.SIGTERM else -signal.SIGKILL), running.errors.read_text()
        async with asyncio.timeout(60):
            while any(Path("/proc", str(pid)).exists() for pid in (*workers, recorder)):
                await asyncio.sleep(0.05)
    if number is signal.SIGTERM:
        saved = [row for row in read(folder) if row["client_id"] == "load" and row["event"] == "exchange"]
        assert len(saved) >= sum(len(load.answered_s) for load in loads)
        assert len({(row["connection_id"], row["exchange_seq"]) for row in saved}) == len(saved)
        assert {row["proxy_id"] for row in saved} <= {"p-w1", "p-w2"}
        assert not gaps(read(folder))
        assert not hidden_files(folder)


@pytest.mark.workers
async def test_a_worker_that_is_killed_ends_the_command(kafka: KafkaCluster, run_proxy: RunProxy) -> None:
    with run_proxy("--kafka", kafka.bootstrap, "--workers", "2") as running:
        first, second = children(running.process.pid)
        os.kill(first, signal.SIGKILL)
        assert await asyncio.to_thread(running.process.wait, 60) == 1
        said = running.errors.read_text()
        assert f"(pid {first}) was killed by signal 9: its connections are gone, and the proxy ends" in said
        async with asyncio.timeout(60):
            while Path("/proc", str(second)).exists():
                await asyncio.sleep(0.05)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
