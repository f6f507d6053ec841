"""Clusters that `notleader kafka up --detach` left running, so that `down` finds and ends them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
from pathlib import Path
from typing import TypedDict

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.paths import cache_folder, cache_place

_RUNNING = "running"


class ClusterRecord(TypedDict):
    """What `kafka up --json` prints and the record file holds."""

    bootstrap: str
    version: str
    pids: dict[str, int]
    folder: str


def describe(cluster: KafkaCluster) -> ClusterRecord:
    """A running cluster as `kafka up --json` prints it; process ids by node id."""
    return {
        "bootstrap": cluster.bootstrap,
        "version": cluster.version,
        "pids": {str(node_id): pid for node_id, pid in cluster.pids.items()},
        "folder": str(cluster.folder),
    }


def record(cluster: KafkaCluster) -> ClusterRecord:
    """Let a cluster outlive this process, and write down how to end it."""
    described = describe(cluster)
    # Written first: between the two a kill leaves either a watched cluster or a recorded one.
    folder = cache_folder() / _RUNNING
    folder.mkdir(exist_ok=True)
    (folder / f"{cluster.nodes[1].client_port}.json").write_text(json.dumps(described), "utf-8")
    cluster.release()
    return described


def forget_ended() -> None:
    """Delete what is left of clusters that ended by themselves, or were killed; nothing where /proc can't tell."""
    if not Path("/proc/self/cmdline").exists():
        return
    for path, described in _recorded():
        if not _living(described):
            _forget(path, described)


def end(port: int | None = None) -> list[ClusterRecord]:
    """End the recorded cluster whose first port is `port`, or every one; returns those that still ran."""
    forget_ended()
    ended = []
    for path, described in _recorded("*" if port is None else str(port)):
        pids = _living(described)
        _kill(pids)
        _forget(path, described)
        if pids:
            ended.append(described)
    return ended


def _kill(pids: list[int]) -> None:
    """Kill these process groups; returns when nothing of their leaders is left, and every port of theirs is free.

    A killed process has no command line before its sockets are closed, and its id may go to another: only a handle
    tells its end.
    """
    with contextlib.ExitStack() as stack:
        leaders = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                leaders.append(os.pidfd_open(pid))
                stack.callback(os.close, leaders[-1])
                os.killpg(pid, signal.SIGKILL)
        for leader in leaders:
            select.select([leader], [], [])


def _recorded(name: str = "*") -> list[tuple[Path, ClusterRecord]]:
    found = []
    for path in sorted((cache_place() / _RUNNING).glob(f"{name}.json")):
        with contextlib.suppress(FileNotFoundError, ValueError):  # ended, or just being written, by another command
            found.append((path, json.loads(path.read_text("utf-8"))))
    return found


def _living(described: ClusterRecord) -> list[int]:
    return [pid for pid in described["pids"].values() if _is_broker(pid, described["folder"])]


def _forget(path: Path, described: ClusterRecord) -> None:
    shutil.rmtree(described["folder"], ignore_errors=True)
    path.unlink(missing_ok=True)


def _is_broker(pid: int, folder: str) -> bool:
    """Whether that process is still the broker with this folder: a process id may have gone to another."""
    try:
        return folder.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
