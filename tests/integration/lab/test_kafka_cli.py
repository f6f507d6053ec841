"""`notleader kafka up` and `down` as a user calls them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from notleader.proxy.lab import probe
from notleader.proxy.lab.ports import free_ports, is_free

pytestmark = pytest.mark.kafka
NOTLEADER = [sys.executable, "-m", "notleader"]


def notleader(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([*NOTLEADER, *arguments], capture_output=True, text=True, timeout=120)
    assert ran.returncode == code, ran.stderr
    return ran


def test_detached_and_down_again() -> None:
    port = free_ports(1)[0]
    up = json.loads(notleader("kafka", "up", "--detach", "--json", "--port", str(port)).stdout)
    try:
        assert up["bootstrap"] == f"127.0.0.1:{port}"
        assert probe.cluster_view("127.0.0.1", port).brokers == {1: ("127.0.0.1", port)}
    finally:
        down = notleader("kafka", "down", "--port", str(port))
    assert down.stdout == f"ended Kafka {up['version']} on {up['bootstrap']}\n"
    assert is_free(port)
    assert not Path(up["folder"]).exists()
    assert notleader("kafka", "down", "--port", str(port)).stdout == "nothing was running\n"


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [*NOTLEADER, "kafka", "up", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize(("number", "after_s"), [(signal.SIGINT, 0.2), (signal.SIGTERM, 0.7)])
def test_ctrl_c_while_it_starts_leaves_nothing(number: signal.Signals, after_s: float) -> None:
    port = free_ports(1)[0]
    up = started("--port", str(port))
    # From here on its own handlers are in place: the imports are behind it.
    wait_for_child(up.pid)
    time.sleep(after_s)
    up.send_signal(number)
    assert left_nothing(up, port) == 128 + number


def test_a_killed_broker_leaves_the_others_and_ctrl_c_nothing() -> None:
    """Of what stands Ctrl-C is the end that was meant: 0."""
    up = started("--nodes", "2")
    assert up.stdout is not None
    assert up.stderr is not None
    first, second = (int(address.rpartition(":")[2]) for address in up.stdout.readline().split(","))
    (killed,) = mentions(f":{second},")
    os.kill(killed, signal.SIGKILL)
    told = ""
    while "the others go on" not in told and (line := up.stderr.readline()):
        told += line
    assert "the others go on" in told
    assert "node 2 ended with code -9" in told
    assert not is_free(first)
    up.send_signal(signal.SIGINT)
    assert left_nothing(up, first) == 0


def test_when_its_last_broker_has_ended_it_ends() -> None:
    port = free_ports(1)[0]
    up = started("--json", "--port", str(port))
    assert up.stdout is not None
    cluster = json.loads(up.stdout.readline())
    assert cluster["bootstrap"] == f"127.0.0.1:{port}"
    os.kill(cluster["pids"]["1"], signal.SIGKILL)
    _, errors = up.communicate(timeout=20)
    assert up.returncode == 2
    assert "Kafka ended by itself: node 1 ended with code -9" in errors


def test_an_unknown_version_is_one_line() -> None:
    ran = notleader("kafka", "up", "--version", "5", code=2)
    assert ran.stderr.count("\n") == 1
    assert "unknown Kafka version 5: the beginning is enough for 3.9" in ran.stderr


def left_nothing(up: subprocess.Popen[str], port: int) -> int:
    """The exit code, once it has ended without a word of Python's, and nothing of it is left."""
    _, errors = up.communicate(timeout=20)
    assert "Traceback" not in errors
    assert is_free(port), errors
    assert mentions(f":{port}") == {}, errors
    return up.returncode


def wait_for_child(pid: int) -> None:
    deadline = time.monotonic() + 20
    while not Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def mentions(text: str) -> dict[int, str]:
    """Command lines by pid of the processes that name `text` in their broker's properties."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        configs = [Path(word) for word in words if word.endswith("server.properties")]
        if any(config.exists() and text in config.read_text() for config in configs):
            found[int(path.parent.name)] = " ".join(words)
    return found
