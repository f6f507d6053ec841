"""The command: exit codes, one JSON document, one line for wrong use."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JError

from notleader.spark_analysis import cli, session
from notleader.spark_analysis.cli import _no_store, main
from notleader.spark_analysis.paths import check_paths

from .synthetic import Story, incident


def test_wrong_use_is_one_line_and_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--capture", str(tmp_path / "none"), "--out", str(tmp_path / "o")], "does not exist"),
        (["--capture", str(tmp_path), "--out", str(tmp_path / "o")], "holds no .parquet file"),
    ):
        assert main(["analyze", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert said in captured.err
    with pytest.raises(SystemExit) as stopped:
        main(["analyze"])
    assert stopped.value.code == 2


def test_a_bound_is_no_negative_number(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--late-ms", "--storm-per-s"):
        with pytest.raises(SystemExit) as stopped:
            main(["analyze", "--capture", "c", "--out", "o", flag, "-5"])
        assert stopped.value.code == 2
        assert f"{flag}: a number from 0 up is expected, not -5" in capsys.readouterr().err


def test_an_output_folder_that_cannot_be_made_is_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, _ = _small(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["analyze", "--capture", str(capture), "--out", str(tmp_path / "file" / "o")]) == 2
    assert "cannot write to" in capsys.readouterr().err


def _small(folder: Path) -> tuple[Path, Path]:
    story = Story()
    story.exchange(0, "Metadata")
    return story.write(folder)


def test_help_suffices(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["analyze", "--help"])
    assert stopped.value.code == 0
    told = capsys.readouterr().out
    for word in ("--capture", "--outcomes", "--late-ms", "exit codes", "verifiable", "--json", "--master"):
        assert word in told


def test_a_live_analysis_waits_for_the_capture_folder_and_makes_none(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    command = ["analyze", "--live", "--capture", str(capture), "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        [sys.executable, "-m", "notleader.spark_analysis", *command], stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        assert run.stderr.readline() == f"waiting for {capture}, to be made by the proxy\n"
        assert not capture.exists()
        capture.write_text("")
        assert run.stderr.read() == f"notleader analyze: {capture} is not a capture folder\n"
    assert run.returncode == 2


# Python imports this before anything else.
NO_PROXY = """
import sys

class NoProxy:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("notleader.proxy", "notleader.faults", "notleader.recorders")):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, NoProxy())
"""


@pytest.mark.spark
def test_the_whole_command_on_its_own_where_the_proxy_is_not_installed(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(NO_PROXY)
    environment = {**os.environ, "PYTHONPATH": str(blocked)}
    command = [sys.executable, "-c", "import notleader.proxy"]
    proxied = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "not installed here" in proxied.stderr
    capture, outcomes = incident(120).write(tmp_path)
    with outcomes.open("a") as lines:
        lines.write("garbage\n")
    out = tmp_path / "out"
    command = [
        "-m",
        "notleader.spark_analysis",
        "analyze",
        "--capture",
        capture,
        "--outcomes",
        outcomes,
        "--out",
        out,
        "--json",
    ]
    run = subprocess.run(
        [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 1, run.stderr
    assert run.stderr == ""
    document = json.loads(run.stdout)
    assert document["verdict"] == "invalid"
    assert {f["check"] for f in document["findings"] if f["verdict"] == "invalid"} == {"duplicate"}
    assert document["set_aside"][0]["line"] == len(outcomes.read_text().splitlines())
    assert document["capture"]["unmatched_batches"] == 0
    assert document["outcomes"]["matched"] == {"message_id": 120}
    assert Path(document["report"]).stat().st_size > 1_000_000
    for name in ("report.md", "junit.xml", "findings.json", "findings", "history", "operations"):
        assert (out / name).exists(), name


def test_a_torn_segment_is_one_line_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, outcomes = incident(20).write(tmp_path)
    (whole,) = capture.rglob("*.parquet")
    torn = whole.with_name("proxy-1-000002.parquet")
    for content in (whole.read_bytes()[:5000], whole.read_bytes()[-5000:], b"PA", b""):
        torn.write_bytes(content)
        arguments = ["analyze", "--capture", str(capture), "--outcomes", str(outcomes), "--out", str(tmp_path / "out")]
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert said.err == (
            f"notleader analyze: {torn} is torn: it is no whole Parquet file; copy it again, or take it away\n"
        )
        assert said.out == ""
    # What Spark passes over is no reason to refuse.
    torn.rename(torn.with_name("_proxy-1-000002.parquet"))
    check_paths([str(capture)], [str(outcomes)])


@pytest.mark.spark
def test_a_users_configuration_of_spark_that_fails_is_one_line(tmp_path: Path) -> None:
    capture, outcomes = incident(20).write(tmp_path)
    (tmp_path / "spark-defaults.conf").write_text("spark.eventLog.enabled true\nspark.eventLog.dir file:/not/there\n")
    command = ["analyze", "--capture", capture, "--outcomes", outcomes, "--out", tmp_path / "out"]
    run = subprocess.run(
        [sys.executable, "-m", "notleader.spark_analysis", *map(str, command)],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    (line,) = run.stderr.splitlines()
    assert "/not/there" in line
    assert str(tmp_path) in line.rpartition("SPARK_CONF_DIR=")[2]
    assert run.stdout == ""


@pytest.mark.spark
def test_an_interrupted_analysis_ends_without_a_word(tmp_path: Path) -> None:
    capture, outcomes = incident().write(tmp_path)
    command = [sys.executable, "-m", "notleader.spark_analysis", "analyze", "--no-warm", "--out", str(tmp_path / "o")]
    command += ["--capture", str(capture), "--outcomes", str(outcomes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Some seconds later Spark has started, and is being asked.
    log = tmp_path / "o" / "spark.log"
    while process.poll() is None and not log.exists():
        time.sleep(0.05)
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


def test_an_interrupt_that_py4j_stumbles_over_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Py4JError("Gateway must be connected to send cancel cmd.")  # noqa: B904

    monkeypatch.setattr(session, "build_session", interrupted)
    capture, _ = incident().write(tmp_path)
    assert main(["analyze", "--no-warm", "--capture", str(capture), "--out", str(tmp_path / "o")]) == 130
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("ends", "last"), [(RuntimeError, "\r\x1b[K"), (KeyboardInterrupt, "\n")])
def test_the_seconds_run_while_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch, ends: type[BaseException], last: str
) -> None:
    monkeypatch.setattr(cli, "_SECOND_S", 0.02)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(ends), cli._Progress(True) as progress:
        progress("starting Spark")
        while terminal.getvalue().count("starting Spark … (0 s)") < 3:
            time.sleep(0.01)
        raise ends
    written = terminal.getvalue()
    assert written.endswith(last)
    time.sleep(0.1)
    assert terminal.getvalue() == written  # the clock stands


def test_off_a_terminal_nothing_is_told_of_the_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), cli._Progress(False) as progress:
        progress("starting Spark")
        raise KeyboardInterrupt
    assert capsys.readouterr() == ("", "")


@pytest.mark.spark
def test_a_store_without_its_jar_is_told_with_the_jar_and_how_to_give_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "notleader.spark_analysis", "analyze", "--capture", "s3://bucket/capture", "--out"]
    ran = subprocess.run([*command, str(tmp_path / "out"), "--no-warm"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 2
    line = ran.stderr.strip().splitlines()[-1]
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    package = f"org.apache.hadoop:hadoop-aws:{jar.stem.removeprefix('hadoop-client-api-')}"
    assert line.startswith("notleader analyze: Spark has no jar that reads s3a:// URLs: ")
    assert f"PYSPARK_SUBMIT_ARGS='--packages {package} pyspark-shell'" in line


def test_a_store_whose_jar_nobody_knows_here_is_told_by_its_scheme() -> None:
    line = _no_store(
        'An error occurred\n: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"'
    )
    assert line is not None
    assert "reads gs:// URLs" in line
    assert _no_store("java.io.FileNotFoundException: No such file") is None
