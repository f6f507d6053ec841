"""What a cluster that was killed by its process ids has left is gone after the next command."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from notleader.proxy.lab import detached
from notleader.proxy.lab.ports import is_free


def recorded(cache: Path, port: int, pid: int) -> tuple[Path, Path]:
    """Its record, and its folder with data in it."""
    folder = cache / f"data-{port}"
    folder.mkdir()
    (folder / "log").write_text("")
    described = {"bootstrap": f"127.0.0.1:{port}", "version": "4.3.1", "pids": {"1": pid}, "folder": str(folder)}
    record = cache / "notleader" / "running" / f"{port}.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(described))
    return record, folder


def test_of_the_recorded_clusters_only_those_that_are_gone_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    alive = [sys.executable, "-c", "import sys; sys.stdin.read()", str(tmp_path / "data-2000")]
    with subprocess.Popen(alive, stdin=subprocess.PIPE) as broker:
        gone = recorded(tmp_path, 1000, os.getpid())  # the id has gone to another
        there = recorded(tmp_path, 2000, broker.pid)
        torn = tmp_path / "notleader" / "running" / "3000.json"
        torn.write_text('{"bootstrap"')
        detached.forget_ended()
        assert not any(path.exists() for path in gone)
        assert all(path.exists() for path in (*there, torn))
        gone = recorded(tmp_path, 1000, os.getpid())
        assert detached.end(4000) == []
        assert not any(path.exists() for path in gone)
        assert broker.stdin is not None
        broker.stdin.close()


# Its threads, the last of which lets go of the listener, get next to nothing of a core on which HOG runs.
BROKER = """
import os, signal, socket, threading
listener = socket.create_server(("127.0.0.1", 0))
ready = threading.Barrier(20)
def wait():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    ready.wait()
    signal.pause()
for _ in range(ready.parties - 1):
    threading.Thread(target=wait).start()
ready.wait()
print(listener.getsockname()[1], flush=True)
signal.pause()
"""
HOG = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(flush=True)
while True: pass
"""


def test_of_what_was_ended_every_port_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broker = [sys.executable, "-c", BROKER, str(tmp_path / "data-5000")]
    with ExitStack() as stack:
        hog = stack.enter_context(subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE))
        stack.callback(hog.kill)
        assert hog.stdout is not None
        hog.stdout.readline()
        for _ in range(3):
            running = subprocess.Popen(broker, stdout=subprocess.PIPE, text=True, start_new_session=True)
            with running:
                assert running.stdout is not None
                port = int(running.stdout.readline())
                recorded(tmp_path, 5000, running.pid)
                assert len(detached.end(5000)) == 1
                assert is_free(port)
