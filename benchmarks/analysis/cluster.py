"""A standalone Spark master with workers on this machine, real processes, gone when the block ends."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from notleader.spark_analysis.session import ensure_java

HOST = "127.0.0.1"
_START_S = 300


class ClusterError(Exception):
    """The master or a worker did not come up; the message names the log."""


@contextmanager
def standalone(folder: Path, port: int, *, workers: int = 2, cores: int = 1, memory: str = "2g") -> Iterator[str]:
    """The master's URL, once every worker is registered; logs below `folder`."""
    ensure_java()
    folder.mkdir(parents=True, exist_ok=True)
    url = f"spark://{HOST}:{port}"
    environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m"}
    master = ["Master", "--host", HOST, "--port", str(port), "--webui-port", "0"]
    worker = ["Worker", "--host", HOST, "--cores", str(cores), "--memory", memory, "--webui-port", "0"]
    worker += ["--work-dir", str(folder / "work"), url]
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(_start("master", master, folder, environment))
        _until(folder / "master.log", "I have been elected leader", 1)
        running += [_start(f"worker-{number}", worker, folder, environment) for number in range(workers)]
        _until(folder / "master.log", "Registering worker", workers)
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(name: str, arguments: list[str], folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = [str(launcher), f"org.apache.spark.deploy.{arguments[0].lower()}.{arguments[0]}", *arguments[1:]]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _until(log: Path, words: str, times: int) -> None:
    deadline = time.monotonic() + _START_S
    while log.read_text(errors="replace").count(words) < times:
        if time.monotonic() > deadline:
            raise ClusterError(f"Spark's master does not say '{words}' {times} times within {_START_S} s (log: {log})")
        time.sleep(0.2)
