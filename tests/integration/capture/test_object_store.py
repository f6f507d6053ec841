"""A proxy that records to an S3 store: segments are objects, whole, and read back by the same commands."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.capture.conftest import RunProxy, notleader
from tests.integration.capture.load import Load

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """`host:port` of an S3 server with the bucket `lake`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                time.sleep(0.1)
        pafs.S3FileSystem(
            access_key="x",
            secret_key="y",
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir("lake")
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


async def test_record_to_a_bucket_and_read_it_back(
    kafka: KafkaCluster, run_proxy: RunProxy, s3: str, tmp_path: Path
) -> None:
    env = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    url = f"s3://lake/captures?endpoint_override={s3}&scheme=http&region=us-east-1"
    spool = tmp_path / "spool"
    arguments = ("--kafka", kafka.bootstrap, "--capture", url, "--capture-spool", str(spool))
    with run_proxy(*arguments, "--capture-rotate-s", "1", env=env) as running:
        load = Load(running.listen)
        await load.run(seconds=4)
        running.process.kill()
    with run_proxy(*arguments, env=env) as running:
        await asyncio.sleep(1)
        assert running.end(signal.SIGTERM) == 0
        assert "secret" not in running.errors.read_text()
    assert [path for path in spool.rglob("*") if path.is_file()] == []
    listed = json.loads(notleader("capture", "ls", url, "--json", env=env).stdout)
    assert len({one["run_id"] for one in listed}) == 1 or len(listed) >= 2
    told = json.loads(notleader("capture", "stats", url, "client == load", "--json", env=env).stdout)
    (traffic,) = told["traffic"]
    assert traffic["api"] == "ApiVersions"
    assert traffic["count"] > 100, (traffic["count"], len(load.answered_s), listed)


async def test_several_processes_record_to_one_bucket(
    kafka: KafkaCluster, run_proxy: RunProxy, s3: str, tmp_path: Path
) -> None:
    env = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    url = f"s3://lake/several?endpoint_override={s3}&scheme=http&region=us-east-1"
    arguments = ("--kafka", kafka.bootstrap, "--capture", url, "--capture-spool", str(tmp_path / "spool"))
    with run_proxy(*arguments, "--workers", "2", env=env) as running:
        sent = 0
        for _ in range(20):  # the kernel deals the connections out
            load = Load(running.listen)
            await load.run(seconds=0.1)
            sent += len(load.answered_s)
        assert running.end(signal.SIGTERM) == 0
    listed = json.loads(notleader("capture", "ls", url, "--json", env=env).stdout)
    assert len({one["run_id"] for one in listed}) == 1
    assert len({Path(one["path"]).name.rpartition("-")[0] for one in listed}) == 2
    (traffic,) = json.loads(notleader("capture", "stats", url, "client == load", "--json", env=env).stdout)["traffic"]
    assert traffic["count"] == sent


async def test_what_the_store_did_not_take_is_finished_by_the_command_that_is_said(
    kafka: KafkaCluster, run_proxy: RunProxy, s3: str, tmp_path: Path
) -> None:
    env = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}
    broken = f"s3://lake/broken?endpoint_override={s3}&scheme=http&region=us-east-1"
    arguments = ("--kafka", kafka.bootstrap, "--capture", broken, "--capture-keep-s", "1000", "--capture-stop-s", "0")
    with run_proxy(*arguments, "--capture-spool", "spool", env=env, cwd=tmp_path) as running:
        await Load(running.listen).run(seconds=1)
        assert running.end(signal.SIGTERM) == 0
        said = running.errors.read_text()
    assert "the oldest segments of all proxies there are deleted" in said, said
    found = re.search(r"or `(.*)` \(with all that the URL had\), finishes them", said)
    assert found is not None, said
    assert found[1] == f"notleader capture ls s3://lake/broken --repair --capture-spool {tmp_path / 'spool'}"
    words = [broken if word == "s3://lake/broken" else word for word in shlex.split(found[1])[1:]]
    (told, *_) = json.loads(notleader(*words, "--json", env=env).stdout)
    assert told["rows"] > 10
    (folder,) = (tmp_path / "spool").iterdir()
    assert not [path for path in folder.rglob("*") if path.is_file()]
    by_name = {**env, "NOTLEADER_CAPTURE_SPOOL": str(tmp_path / "spool")}
    assert notleader("capture", "ls", broken, "--repair", env=by_name).returncode == 0


def test_a_bucket_that_is_not_there_is_refused_in_one_line(s3: str, tmp_path: Path) -> None:
    env = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    url = f"s3://nosuch/captures?endpoint_override={s3}&scheme=http&region=us-east-1"
    done = notleader(
        "run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "none", "--capture", url,
        "--capture-spool", str(tmp_path), code=1, env=env,
    )  # fmt: skip
    # A store that is slow to answer is waited for, and told of.
    *waited, line = done.stderr.strip().splitlines()
    assert all("waiting for the capture's place to answer" in before for before in waited), waited
    assert line.startswith("notleader run: ")
    assert "s3://nosuch/captures" in line
