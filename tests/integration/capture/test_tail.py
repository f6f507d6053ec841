"""`notleader capture tail` on a living proxy and on a folder that it writes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.capture.conftest import NOTLEADER, RunProxy, notleader
from tests.integration.capture.load import Load

pytestmark = pytest.mark.kafka


async def test_a_living_proxy_shows_what_the_filter_accepts(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    with run_proxy("--kafka", kafka.bootstrap) as running:
        wanted = "client == wanted and event == exchange"
        command = ("capture", "tail", wanted, "-n", "3", "--admin", running.admin, "--json")
        tail = asyncio.create_task(asyncio.to_thread(notleader, *command))
        while not tail.done():
            await Load(running.listen, client_id="other").run(requests=5)
            await Load(running.listen, client_id="wanted").run(requests=5)
        rows = [json.loads(line) for line in (await tail).stdout.splitlines()]
        assert len(rows) == 3
        assert {(row["client_id"], row["api_name"]) for row in rows} == {("wanted", "ApiVersions")}

        wrong = notleader("capture", "tail", "topc == x", "--admin", running.admin, code=2)
        assert "did you mean 'topic'?" in wrong.stderr
    gone = notleader("capture", "tail", "--admin", "127.0.0.1:1", code=2)
    assert "no notleader answers at 127.0.0.1:1" in gone.stderr


async def test_a_folder_is_followed_while_it_is_written(
    kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(folder), "--capture-rotate-s", "1") as running:
        tail = subprocess.Popen(  # noqa: ASYNC220
            [
                sys.executable,
                *NOTLEADER[1:],
                "capture",
                "tail",
                str(folder),
                "-f",
                "-n",
                "1000",
                "client == load and event == exchange",
                "--json",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            await asyncio.sleep(1)
            await Load(running.listen, pause_s=0.01).run(requests=200)
            assert tail.stdout is not None
            async with asyncio.timeout(30):
                lines = [await asyncio.to_thread(tail.stdout.readline) for _ in range(200)]
        finally:
            tail.kill()
            tail.communicate()
    assert [json.loads(line)["correlation_id"] for line in lines] == list(range(200))
