"""A Spark that an analysis started stays as long as its caller says, and as the user's environment allows."""

import json
import sys
import time
from pathlib import Path

import pytest

from notleader.proxy.lab import analysis
from notleader.proxy.lab.analysis import AnalysisError, Analyst, _warmth
from notleader.proxy.lab.incident import load_incident
from notleader.proxy.lab.process import Child
from notleader.proxy.lab.recorded import Recorded
from notleader.proxy.lab.stages import Stages


@pytest.mark.parametrize(
    ("stays_s", "given", "told"),
    [
        (0, {}, {"NOTLEADER_SPARK_WARM": "use"}),
        (120, {}, {"NOTLEADER_SPARK_WARM": "keep", "NOTLEADER_SPARK_IDLE_S": "120"}),
        (120, {"NOTLEADER_SPARK_WARM": "off"}, {"NOTLEADER_SPARK_IDLE_S": "120"}),
        (120, {"NOTLEADER_SPARK_IDLE_S": "5"}, {"NOTLEADER_SPARK_WARM": "keep"}),
    ],
)
def test_how_long_a_spark_stays(stays_s: int, given: dict[str, str], told: dict[str, str]) -> None:
    assert _warmth(stays_s, given) == told


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    incident = load_incident("sarama-hang")
    folder = tmp_path / "run"
    (folder / "capture").mkdir(parents=True)
    (folder / "capture" / "a.parquet").touch()
    return Recorded(incident, incident.runs[0], folder, [], {}, "")


def _analyst_whose_spark_is(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Analyst:
    real = Child

    def child(argv: list[str], **more: object) -> Child:
        return real([sys.executable, "-c", program, str(folder)], **more)  # type: ignore[arg-type]

    monkeypatch.setattr(analysis, "Child", child)
    return Analyst(folder)


def _says(*documents: dict[str, object]) -> str:
    return "".join(f"print({json.dumps(document)!r}, flush=True)\n" for document in documents)


def test_the_findings_are_there_before_the_report_is(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [{"check": "lost"}]
    wait = "import pathlib, sys, time\nwhile not (pathlib.Path(sys.argv[1]) / 'read').exists(): time.sleep(0.01)\n"
    program = _says({"out": "o", "judged": found}) + wait + _says({"out": "o", "verdict": "invalid"})
    with _analyst_whose_spark_is(program, tmp_path, monkeypatch) as analyst:
        assert analyst.analyse([recorded], Stages(quiet=True), report=True) == found
        (tmp_path / "read").touch()
        analyst.finish(Stages(quiet=True))


def test_a_report_that_was_not_made_is_told_and_takes_no_finding_back(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _says({"out": "o", "judged": []}, {"out": "o", "failed": "the disk is full"})
    with _analyst_whose_spark_is(program, tmp_path, monkeypatch) as analyst:
        assert analyst.analyse([recorded], Stages(quiet=True), report=True) == []
        with pytest.raises(AnalysisError, match="the disk is full"):
            analyst.finish(Stages(quiet=True))


def test_a_spark_that_ends_without_a_word_is_an_error(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        _analyst_whose_spark_is("raise SystemExit(3)", tmp_path, monkeypatch) as analyst,
        pytest.raises(AnalysisError, match="code 3"),
    ):
        analyst.analyse([recorded], Stages(quiet=True), report=True)


def test_ctrl_c_before_any_analysis_asks_its_process_to_end_the_spark_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
import pathlib, signal, sys, time
def end(*_):
    (pathlib.Path(sys.argv[1]) / "asked").touch()
    sys.exit()
signal.signal(signal.SIGTERM, end)
(pathlib.Path(sys.argv[1]) / "up").touch()
time.sleep(60)
"""
    with pytest.raises(KeyboardInterrupt), _analyst_whose_spark_is(program, tmp_path, monkeypatch):
        while not (tmp_path / "up").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert (tmp_path / "asked").exists()
