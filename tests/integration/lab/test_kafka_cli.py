"""`notleader kafka up` and `down` as a user calls them."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(("number", "after_s"), [(signal.SIGINT, 0.2), (signal.SIGTERM, 0.7), (signal.SIGINT, None)])
def test_ctrl_c_leaves_nothing(number: signal.Signals, after_s: float | None) -> None:
    """While it starts (130) and when it stands (0: Ctrl-C is how it is ended)."""
    port = free_ports(1)[0]
    up = subprocess.Popen(
        [*NOTLEADER, "kafka", "up", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert up.stdout is not None
    if after_s is None:
        assert up.stdout.readline() == f"127.0.0.1:{port}\n"
    else:
        # From here on its own handlers are in place: the imports are behind it.
        wait_for_child(up.pid)
        time.sleep(after_s)
    up.send_signal(number)
    _, errors = up.communicate(timeout=20)
    assert up.returncode == (0 if after_s is None else 130), errors
    assert "Traceback" not in errors
    assert is_free(port)
    assert mentions(str(port)) == []


def test_an_unknown_version_is_one_line() -> None:
    ran = notleader("kafka", "up", "--version", "5", code=2)
    assert ran.stderr.count("\n") == 1
    assert "unknown Kafka version 5: the beginning is enough for 3.9" in ran.stderr


def wait_for_child(pid: int) -> None:
    deadline = time.monotonic() + 20
    while not Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def mentions(text: str) -> list[str]:
    """Command lines of the processes that name `text` in their arguments or their broker's properties."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        configs = [Path(word) for word in words if word.endswith("server.properties")]
        if any(config.exists() and f":{text}" in config.read_text() for config in configs):
            found.append(" ".join(words))
    return found
