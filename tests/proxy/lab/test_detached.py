"""What a cluster that was killed by its process ids has left is gone after the next command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notleader.proxy.lab import detached


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
