"""`notleader capture` on a folder: what it prints, in which form, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from notleader.proxy.capture.reading import Capture, Follower
from notleader.proxy.capture.tree import tree as drawn
from notleader.proxy.cli import capture as commands
from notleader.proxy.cli.capture import capture_app
from notleader.proxy.record.block import NONE, Block, Summary
from tests.proxy.record.bench import Bench
from tests.proxy.record.blocks import tables
from tests.proxy.record.entries import numbers
from tests.proxy.record.packing import Packer


def run(*arguments: str) -> Result:
    return CliRunner().invoke(capture_app, list(arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten heartbeats in two segments, the last three of them refused, and one gap."""
    bench = Bench(tmp_path)
    bench.write(range(7))
    bench.rotate()
    pointed_to = tables()
    refused = Summary((18, "ApiVersions", 3, "answered", 27, None, None, None, None, None))
    pointed_to.whos.append((1, "127.0.0.1:5", "broker-1", 1, "c", None, None, None))
    pointed_to.whats.append(refused)
    failed = Block(pointed_to)
    packer = Packer(failed)
    for number in range(7, 10):
        packer.put(4, 3, number, number, number * 1000, NONE, NONE, number * 1000 + 500, 60, 0, 0)
    bench.put([], failed)
    bench.journals.losses.add("a test", 2, 9_000, 9_500)
    bench.close()
    return tmp_path


def test_ls(folder: Path) -> None:
    lines = run("ls", str(folder)).stdout.splitlines()
    assert lines[0].split("\t")[0] == "SEGMENT"
    assert [line.split("\t")[1] for line in lines[1:]] == ["7", "4"]
    listed = json.loads(run("ls", str(folder), "--json").stdout)
    assert [(one["rows"], one["state"], one["first_us"]) for one in listed] == [
        (7, "finished", 0),
        (4, "finished", 7000),
    ]


def test_ls_of_an_unreadable_segment_says_so(folder: Path) -> None:
    (folder / "broken.parquet").write_bytes(b"PAR1 and no more")
    done = run("ls", str(folder))
    assert done.exit_code == 1
    assert "unreadable: " in done.stdout
    # The others are shown nevertheless.
    shown = run("show", str(folder))
    assert len(shown.stdout.splitlines()) == 11
    assert "broken.parquet can't be read" in shown.stderr
    assert shown.exit_code == 1
    others = (
        ("stats", str(folder)),
        ("tail", str(folder)),
        ("export", str(folder), str(folder / "x.csv"), "--to", "csv"),
    )
    for arguments in others:
        assert run(*arguments).exit_code == 1
    assert len((folder / "x.csv").read_text().splitlines()) == 12


def test_show_filters_limits_and_says_when_there_is_more(folder: Path) -> None:
    lines = run("show", str(folder), "error == REBALANCE_IN_PROGRESS").stdout.splitlines()
    assert len(lines) == 3
    assert all("REBALANCE_IN_PROGRESS" in line for line in lines)
    few = run("show", str(folder), "--limit", "2")
    assert len(few.stdout.splitlines()) == 2
    assert "only the first 2" in few.stderr
    assert len(json.loads(run("show", str(folder), "event == exchange", "--json").stdout)) == 10


def test_show_of_one_row_is_its_tree(folder: Path) -> None:
    done = run("show", str(folder), "exchange_seq == 8")
    assert "error_code: 27 REBALANCE_IN_PROGRESS" in done.stdout
    (told,) = json.loads(run("show", str(folder), "exchange_seq == 8", "--json").stdout)
    assert told["request_at_us"] == "1970-01-01 00:00:00.008000"
    assert "lost 2 rows: a test" in run("show", str(folder), "event == gap").stdout


def test_a_long_value_is_whole_in_a_pipe_and_in_a_narrow_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "word-" * 100
    monkeypatch.setattr(commands, "tree", lambda row: drawn({"event": "gap", "detail": long}))
    assert f"detail: {long}\n" in run("show", str(folder), "event == gap").stdout
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run("show", str(folder), "event == gap").stdout)
    assert max(map(len, shown.splitlines())) <= 40
    assert long in re.sub(r"\s", "", shown)


def test_nothing_found_is_exit_1_and_nothing_there_is_exit_2(folder: Path) -> None:
    assert run("show", str(folder), "topic == x").exit_code == 1
    assert run("stats", str(folder), "topic == x").exit_code == 1
    assert run("tail", str(folder), "topic == x").exit_code == 1
    done = run("show", str(folder / "none"), "--json")
    assert done.exit_code == 2
    assert "there is nothing at" in json.loads(done.stdout)["error"]


def test_an_empty_folder_has_no_segments(tmp_path: Path) -> None:
    assert run("ls", str(tmp_path)).exit_code == 1
    assert json.loads(run("ls", str(tmp_path), "--json").stdout) == []


@pytest.mark.parametrize("to", ["csv", "jsonl", "pcapng"])
def test_an_export_of_nothing_is_exit_1_and_no_file(folder: Path, to: str) -> None:
    file = folder / "out"
    file.write_text("before")
    done = run("export", str(folder), str(file), "--to", to, "--filter", "topic == x")
    assert (done.exit_code, done.stderr) == (1, "nothing matches\n")
    assert file.read_text() == "before"
    assert not (folder / "out.partial").exists()


def test_an_export_that_can_not_be_written_says_so(folder: Path) -> None:
    file = folder / "none" / "out.csv"
    done = run("export", str(folder), str(file), "--to", "csv")
    assert (done.exit_code, done.stderr) == (2, f"can't write {file}: No such file or directory\n")


def test_a_wrong_filter_is_exit_2_with_a_caret(folder: Path) -> None:
    done = run("show", str(folder), "eror != 0")
    assert done.exit_code == 2
    assert done.stderr.splitlines() == ["there is no field 'eror'; did you mean 'error'?", "  eror != 0", "  ^^^^"]
    told = json.loads(run("tail", "eror != 0", "--json").stdout)
    assert (told["start"], told["end"]) == (0, 4)


def test_stats(folder: Path) -> None:
    told = json.loads(run("stats", str(folder), "--json").stdout)
    assert told["exchanges"] == 10
    assert told["events"] == {"gap": 1}
    (traffic,) = told["traffic"]
    assert (traffic["client"], traffic["count"], traffic["errors"]) == ("c", 10, 3)
    assert traffic["error_codes"] == {"REBALANCE_IN_PROGRESS": 3}
    assert traffic["p50_ms"] == traffic["max_ms"] == 0.5
    assert "30.0%" in run("stats", str(folder)).stdout


def test_tail_of_a_folder(folder: Path) -> None:
    assert len(run("tail", str(folder), "-n", "3").stdout.splitlines()) == 3
    (line,) = run("tail", str(folder), "event == gap", "--json").stdout.splitlines()
    assert json.loads(line)["detail"] == "lost 2 rows: a test"
    assert run("tail", str(folder), "api", "==", "Fetch").exit_code == 2


def test_what_is_followed_is_a_folder(folder: Path) -> None:
    done = run("tail", "traffic-nowhere", "-f")
    assert done.exit_code == 2
    assert "-f follows a folder, and there is none at traffic-nowhere" in done.output
    assert "-f wants a DIR" in run("tail", "-f").output


def test_following_hands_out_each_row_once_also_across_the_end_of_a_segment(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    follower = Follower(Capture(str(tmp_path)))
    seen = []
    for start in range(0, 60, 10):
        bench.write(range(start, start + 10))
        if start % 20 == 0:
            bench.rotate()
        seen += numbers(list(follower.new()))
    bench.close()
    seen += numbers(list(follower.new()))
    assert seen == list(range(60))


def test_export_as_csv_and_json_lines(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    told = json.loads(run("export", str(folder), str(file), "--to", "csv", "--json").stdout)
    assert told == {"file": str(file), "format": "csv", "rows": 11}
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["exchange_seq"] for row in rows] == [*map(str, range(10)), ""]
    assert run("export", str(folder), str(file), "--to", "xml").exit_code == 2


def test_a_quiet_capture_makes_no_timeline(folder: Path, tmp_path: Path) -> None:
    done = run("to-faults", str(folder), str(tmp_path / "x.yaml"))
    assert done.exit_code == 1
    assert done.stderr.splitlines() == ["nothing in this capture looks like a fault"]
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.parametrize("to", ["jsonl", "csv"])
def test_whoever_reads_what_is_exported_may_have_seen_enough(folder: Path, to: str) -> None:
    argv = [sys.executable, "-m", "notleader", "capture", "export", str(folder), "-", "--to", to]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
