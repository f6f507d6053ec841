"""Children end with their group, on request, at once, or when the parent is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from notleader.proxy.lab.interrupts import interruptible
from notleader.proxy.lab.process import Child


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def printed(path: Path) -> int:
    """The process id that a child wrote into a file."""
    while not path.exists() or not path.read_text().endswith("\n"):
        time.sleep(0.01)
    return int(path.read_text())


def test_stop_takes_the_grandchildren_too(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "sleep 100 & echo $! ; wait"], log=tmp_path / "log", stdout=tmp_path / "pid")
    grandchild = printed(tmp_path / "pid")
    assert child.stop() == -signal.SIGTERM
    assert gone(grandchild, 1)


def test_what_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "trap '' TERM; echo $$; sleep 100"], log=tmp_path / "log", stdout=tmp_path / "pid")
    printed(tmp_path / "pid")
    assert child.stop(grace_s=0.2) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "import sys, time; from pathlib import Path; from notleader.proxy.lab.process import Child\n"
        f"for name in 'ab': Child(['sh', '-c', 'echo $$; exec sleep 100'], log=Path({str(tmp_path)!r}, 'log'),"
        f" stdout=Path({str(tmp_path)!r}, name))\n"
        "time.sleep(100)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    pids = [printed(tmp_path / name) for name in "ab"]
    parent.send_signal(number)
    parent.wait()
    assert all(gone(pid, 5) for pid in pids)


def test_temporary_folders_go_with_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import time; from notleader.proxy.lab.process import keep_folder, temporary_folder\n"
        "gone, kept = temporary_folder('a '), temporary_folder('b')\n"
        "keep_folder(kept); print(gone, kept, sep='\\n', flush=True); time.sleep(100)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert parent.stdout is not None
    doomed, kept = (Path(parent.stdout.readline().rstrip("\n")) for _ in range(2))
    assert doomed.is_dir()
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 5
    while doomed.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert kept.is_dir()


def test_a_released_child_outlives_its_parent(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from notleader.proxy.lab.process import Child\n"
        f"child = Child(['sleep', '100'], log=Path({str(tmp_path)!r}, 'log')); print(child.pid); child.release()"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    pid = int(told.stdout)
    try:
        time.sleep(0.5)
        assert alive(pid)
    finally:
        os.killpg(pid, signal.SIGKILL)


def test_outputs_go_where_they_were_told(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "echo out; echo err >&2"], log=tmp_path / "log", stdout=tmp_path / "out")
    assert child.wait(10) == 0
    assert ((tmp_path / "out").read_text(), (tmp_path / "log").read_text()) == ("out\n", "err\n")


def test_one_interrupt_and_no_second_one_in_the_clean_up() -> None:
    cleaned = False
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            cleaned = True
    assert cleaned


def test_a_child_that_works_takes_processor_time(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", "while True: pass"], log=tmp_path / "log")
    try:
        deadline = time.monotonic() + 30
        while (child.cpu_ms() or 0) < 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (child.cpu_ms() or 0) >= 200
    finally:
        child.kill()
    assert child.cpu_ms() is None, "it is gone"
