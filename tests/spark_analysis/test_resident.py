"""The resident Spark's socket: who may ask, what comes back, and when it ends. Without Spark."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from notleader.spark_analysis import each, resident
from notleader.spark_analysis.cli import main

from .synthetic import Story

Served = Callable[..., threading.Thread]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where a resident Spark would be met in this test."""
    short = Path(f"/tmp/nl-{os.getpid()}-{threading.get_ident() % 10_000}")
    short.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    yield resident.folder() / f"{resident.key()}.sock"
    resident.stop()
    for file in sorted(short.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    short.rmdir()


def serving(place: Path, job: resident.Job, idle_s: float = 20) -> threading.Thread:
    thread = threading.Thread(
        target=resident.serve, args=(place, job), kwargs={"idle_s": idle_s, "told": io.StringIO()}
    )
    thread.start()
    while not place.exists():
        time.sleep(0.01)
    return thread


def test_an_analysis_is_asked_for_and_answered_again_and_again(place: Path) -> None:
    def job(asked: dict[str, Any], progress: resident.Progress, say: resident.Say) -> tuple[str, str, int]:
        progress("checking")
        say("verdict")
        return f"verdict of {asked['name']}", "", 1

    serving(place, job)
    for name in ("a", "b"):
        heard: list[str] = []
        said: list[str] = []
        answered = resident.ask({"name": name}, heard.append, said.append, leave=False)
        assert answered == (f"verdict of {name}", "", 1)
        assert (heard, said) == (["checking"], ["verdict"])
    assert resident.stop() == 1
    assert not place.exists()


def test_what_is_done_behind_an_analysis_waits_until_nobody_asks(place: Path) -> None:
    done: list[str] = []
    rested = threading.Event()

    def job(asked: dict[str, Any], progress: resident.Progress, say: resident.Say) -> tuple[str, str, int]:
        done.append(asked["name"])
        return "", "", 0

    def rest() -> None:
        done.append("rest")
        rested.set()

    serve = partial(resident.serve, place, job, rest=rest, breath_s=1, told=io.StringIO())
    threading.Thread(target=serve).start()
    while not place.exists():
        time.sleep(0.01)
    resident.start()  # only looks whether it is there
    time.sleep(1.5)
    assert done == []
    for name in ("a", "b"):
        resident.ask({"name": name}, lambda _: None, leave=False)
    assert rested.wait(20)
    resident.ask({"name": "c"}, lambda _: None, leave=False)
    assert done == ["a", "b", "rest", "c"]
    assert resident.stop() == 1


def test_only_its_user_can_reach_it(place: Path) -> None:
    serving(place, lambda asked, progress, say: ("", "", 0))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    resident.stop()


def test_it_ends_when_nobody_asks(place: Path) -> None:
    thread = serving(place, lambda asked, progress, say: ("", "", 0), idle_s=0.2)
    thread.join(10)
    assert not thread.is_alive()
    assert not place.exists()


def test_one_that_failed_is_not_met_again(place: Path) -> None:
    def job(asked: dict[str, Any], progress: resident.Progress, say: resident.Say) -> tuple[str, str, int]:
        raise OSError("Java is gone")

    thread = serving(place, job)
    with pytest.raises(resident.UnavailableError, match="Java is gone"):
        resident.ask({}, lambda _: None, leave=False)
    thread.join(10)
    assert not thread.is_alive()


def test_without_one_and_without_leave_to_start_one_there_is_none(place: Path) -> None:
    with pytest.raises(resident.UnavailableError):
        resident.ask({}, lambda _: None, leave=False)
    assert resident.stop() == 0


def test_what_a_killed_one_left_is_no_obstacle(place: Path) -> None:
    thread = serving(place, lambda asked, progress, say: ("", "", 0), idle_s=0.2)
    kept = place.with_name("kept")
    os.link(place, kept)
    thread.join(10)
    kept.rename(place)
    with pytest.raises(resident.UnavailableError):
        resident.ask({}, lambda _: None, leave=False)
    again = serving_over(place)
    assert resident.ask({}, lambda _: None, leave=False)[2] == 0
    resident.stop()
    again.join(10)


def serving_over(place: Path) -> threading.Thread:
    before = place.stat().st_ino
    thread = threading.Thread(target=resident.serve, args=(place, lambda asked, progress, say: ("", "", 0)))
    thread.start()
    while place.stat().st_ino == before:
        time.sleep(0.01)
    return thread


_CALLER = """
import sys, socket, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'{"asked": {}}\\n'); time.sleep(60)
"""
_SLOW = """
import sys, time
from pathlib import Path
from notleader.spark_analysis import each, resident
resident.serve(Path(sys.argv[1]), lambda asked, progress, say: time.sleep(60), idle_s=30)
"""


def test_it_ends_with_a_caller_that_goes_away_in_the_middle(place: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", _SLOW, str(place)])
    while not place.exists():
        assert server.poll() is None
        time.sleep(0.01)
    caller = subprocess.Popen([sys.executable, "-c", _CALLER, str(place)])
    time.sleep(0.5)
    assert server.poll() is None
    caller.kill()
    caller.wait()
    assert server.wait(20) != 0


@pytest.mark.spark
def test_a_second_analysis_is_done_by_the_first_ones_spark(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The user's way: two commands, the same verdicts as without; a mistake is told in the caller's terminal."""
    monkeypatch.setenv("NOTLEADER_SPARK_WARM", "keep")
    story = Story()
    story.exchange(0, "Metadata")
    capture, outcomes = story.write(tmp_path)
    words = ["analyze", "--capture", str(capture), "--outcomes", str(outcomes), "--json", "--out"]
    told = []
    for name in ("first", "second"):
        code = main([*words, str(tmp_path / name)])
        told.append((code, json.loads(capfd.readouterr().out)["verdict"]))
        assert (tmp_path / name / "report.html").exists()
    assert place.exists()
    # In a process of its own: here it would end the Spark that the tests share.
    apart = [sys.executable, "-m", "notleader.spark_analysis", *words, str(tmp_path / "apart"), "--no-warm"]
    ran = subprocess.run(apart, capture_output=True, text=True)
    told.append((ran.returncode, json.loads(ran.stdout)["verdict"]))
    assert told[0] == told[1] == told[2]
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    assert main(["analyze", "--capture", str(tmp_path / "torn.parquet"), "--out", str(tmp_path / "none")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert main(["stop"]) == 0
    assert not place.exists()


def test_many_analyses_are_asked_of_it_too(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`each`, which `incident`, `matrix` and `explore` run, starts no Spark where there is one."""
    monkeypatch.setenv("NOTLEADER_SPARK_WARM", "use")
    capture, outcomes = Story().write(tmp_path / "story")
    heard: list[dict[str, Any]] = []

    def job(asked: dict[str, Any], progress: resident.Progress, say: resident.Say) -> tuple[str, str, int]:
        heard.append(asked)
        return json.dumps({"verdict": "invalid", "out": asked["out"]}), "", 1

    serving(place, job)
    told = io.StringIO()
    wanted = {"capture": [str(capture)], "outcomes": [str(outcomes)], "out": str(tmp_path / "out")}
    missing = {**wanted, "capture": [str(tmp_path / "nothing")]}
    assert each.main([json.dumps(wanted), json.dumps(missing)], told) == 0
    documents = [json.loads(line) for line in told.getvalue().splitlines()]
    assert documents[0] == {"verdict": "invalid", "out": str(tmp_path / "out")}
    assert "does not exist" in documents[1]["failed"]
    assert [asked["capture"] for asked in heard] == [[str(capture)]]
    assert heard[0]["more_options"] == {"by_run": True, "runs_are_told": True, "groups_per_check": 2000}
    assert not heard[0]["live"]


@pytest.fixture
def never_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resident Spark that is started in this test goes on starting."""
    waits = 'import sys, time\nif "notleader.spark_analysis.resident" in sys.orig_argv:\n    time.sleep(60)\n'
    (tmp_path / "sitecustomize.py").write_text(waits)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("NOTLEADER_SPARK_WARM", "keep")


def starting(place: Path) -> int:
    """The process of the one that starts, as soon as there is one."""
    until = time.monotonic() + 20
    while not (marks := list(place.parent.glob("*.starting"))):
        assert time.monotonic() < until
        time.sleep(0.01)
    return int(marks[0].name.split(".")[1])


@pytest.mark.usefixtures("never_up")
def test_one_that_is_starting_is_ended_too(place: Path) -> None:
    failed: list[resident.UnavailableError] = []

    def start() -> None:
        try:
            resident.start()
        except resident.UnavailableError as error:
            failed.append(error)

    caller = threading.Thread(target=start)
    caller.start()
    pid = starting(place)
    assert resident.stop() == 1
    caller.join(10)
    assert "it ended while it started" in str(failed[0])
    assert list(place.parent.glob("*.starting")) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert resident.stop() == 0


def test_no_other_process_is_ended_in_the_name_of_one_that_was_starting(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        mark = place.with_suffix(f".{other.pid}.starting")
        mark.touch()
        assert resident.stop() == 0
        assert not mark.exists()
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0


@pytest.mark.usefixtures("never_up")
def test_one_that_was_begun_early_ends_with_who_began_it_before_any_job(place: Path, tmp_path: Path) -> None:
    words = ["-m", "notleader.spark_analysis.each", str(tmp_path / "jobs.jsonl"), "--early"]
    with subprocess.Popen([sys.executable, *words]) as begun:
        pid = starting(place)
        begun.terminate()
        assert begun.wait(20) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert resident.stop() == 0


def test_so_does_one_that_is_up_by_then(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTLEADER_SPARK_WARM", "keep")
    monkeypatch.setattr(resident, "is_there", lambda: False)
    server: list[threading.Thread] = []

    def start() -> bool:
        server.append(serving(place, lambda asked, progress, say: ("", "", 0)))
        return True

    def no_job_yet() -> Iterator[str]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        yield ""

    monkeypatch.setattr(resident, "start", start)
    with pytest.raises(SystemExit):
        each.main(no_job_yet(), io.StringIO(), early=True)
    server[0].join(10)
    assert not server[0].is_alive()
    assert not place.exists()
