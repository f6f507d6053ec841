"""SIGUSR1 has `notleader run` finish the segment at hand, in one process and in several."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.capture.conftest import Running, RunProxy
from tests.integration.capture.load import Load
from tests.proxy.record.entries import read

DEADLINE_S = 60


def until(holds: Callable[[], bool], running: Running) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, running.errors.read_text()
        time.sleep(0.05)


@pytest.mark.kafka
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_signal_finishes_what_was_recorded_so_far(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path, workers: int
) -> None:
    folder = tmp_path / "capture"
    flags = ("--capture", str(folder), "--capture-rotate-s", "3600", "--workers", str(workers))
    with run_proxy("--kafka", kafka.bootstrap, *flags) as running:
        for number in (1, 2):
            for _ in range(8):  # connections, for each worker to get some
                await Load(running.listen).run(requests=5)
            running.process.send_signal(signal.SIGUSR1)
            asked = number * 8 * 5
            until(lambda asked=asked: sum(row["event"] == "exchange" for row in read(folder)) >= asked, running)
        assert running.end(signal.SIGTERM) == 0


def test_without_a_capture_the_signal_is_said_to_do_nothing(run_proxy: RunProxy) -> None:
    with run_proxy("--kafka", "127.0.0.1:1") as running:
        running.process.send_signal(signal.SIGUSR1)
        until(lambda: "nothing is recorded" in running.errors.read_text(), running)
        assert running.end(signal.SIGTERM) == 0
