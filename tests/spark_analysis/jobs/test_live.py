"""A live analysis over a growing recording, killed in the middle: it ends where one look at the whole ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis import schemas
from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.jobs.live import _judge_all
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.outcomes import read_outcomes
from notleader.spark_analysis.tail import files, line_number, whole_lines
from tests.spark_analysis.synthetic import EXCHANGE, START_US, Story, incident

DEADLINE_S = 900


def test_only_whole_lines_are_taken_and_their_numbers_are_known(tmp_path: Path) -> None:
    said = tmp_path / "said.jsonl"
    said.write_bytes(b"one\ntwo\nthr")
    assert whole_lines(said, 0) == 8
    assert whole_lines(said, 8) == 8
    assert line_number(said, 4) == 2
    said.write_bytes(b"one\ntwo\nthree\n")
    assert whole_lines(said, 8) == 14
    assert whole_lines(tmp_path / "gone", 5) == 5
    (tmp_path / ".hidden").write_text("")
    assert files([str(tmp_path), str(tmp_path / "*.jsonl")]) == [str(said)]


class Recording:
    """The segments and lines of a story, laid down piece by piece."""

    def __init__(self, story: Story, folder: Path) -> None:
        self.story, self.capture, self.said = story, folder / "capture", folder / "said.jsonl"
        (self.capture / "date=2025-06-15" / "run=run-1").mkdir(parents=True)
        self.segments = 0

    def grow(self, first: float, until: float) -> None:
        """Add the part of both between two fractions of the whole; the last line is cut off in its middle."""
        rows = self.story.exchanges
        part = rows[int(first * len(rows)) : int(until * len(rows))]
        self.segments += 1
        segment = self.capture / "date=2025-06-15" / "run=run-1" / f"proxy-1-{self.segments:06}.parquet"
        fresh = segment.with_suffix(".part")
        pq.write_table(pa.Table.from_pylist(part, schema=EXCHANGE), fresh)
        fresh.rename(segment)
        text = "".join(json.dumps(row) + "\n" for row in self.story.outcomes) + "garbage\n"
        with self.said.open("a") as lines:
            lines.write(text[int(first * len(text)) : int(until * len(text))])


class Live:
    """`analyze --live --json` as a process of its own."""

    def __init__(self, recording: Recording, out: Path) -> None:
        self.out = out
        arguments = ["--capture", recording.capture, "--outcomes", recording.said, "--out", out]
        command = [
            "-m",
            "notleader.spark_analysis",
            "analyze",
            *map(str, arguments),
            "--live",
            "--every-s",
            "0.5",
            "--json",
        ]
        self.process = subprocess.Popen(
            [sys.executable, *command, "--hang-ms", "0"], stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def until(self, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a document that shows it."""
        deadline = time.monotonic() + DEADLINE_S
        assert self.process.stdout is not None
        while time.monotonic() < deadline:
            line = self.process.stdout.readline()
            assert line, f"ended with {self.process.wait()}"
            document: dict[str, Any] = json.loads(line)
            if reached(document):
                return document
        pytest.fail("the live analysis did not get there in time")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)


def counted(document: dict[str, Any]) -> dict[str, Any]:
    """What must be the same however often the reading was cut off."""
    findings = {(f["check"], f["verdict"], f["sentence"], f["count"]) for f in document["findings"]}
    outcomes = {name: document["outcomes"][name] for name in ("lines", "bad_lines", "sends", "ok", "pending", "polled")}
    return {"findings": findings, "capture": document["capture"], "outcomes": outcomes}


@pytest.mark.live
@pytest.mark.spark
def test_killed_and_started_again_nothing_is_lost_or_counted_twice(tmp_path: Path) -> None:
    recording, out = Recording(incident(200), tmp_path), tmp_path / "live"
    recording.grow(0, 0.4)
    live = Live(recording, out)
    try:
        first = live.until(lambda told: told["capture"]["exchanges"] > 0 and told["outcomes"]["sends"] > 0)
        assert first["capture"]["exchanges"] == int(0.4 * len(recording.story.exchanges))
        # The next batch is being read, or just judged, when everything is killed.
        recording.grow(0.4, 0.7)
    finally:
        live.kill()
    live = Live(recording, out)
    try:
        recording.grow(0.7, 1)
        live.until(lambda told: told["capture"]["exchanges"] == len(recording.story.exchanges))
        live.process.send_signal(signal.SIGTERM)
        live.process.communicate(timeout=DEADLINE_S)
        assert live.process.returncode == 1
    finally:
        if live.process.poll() is None:
            live.kill()
    last = json.loads((out / "findings.json").read_text())
    assert last["set_aside"][0]["line"] == len(recording.said.read_text().splitlines())
    arguments = ["--capture", recording.capture, "--outcomes", recording.said, "--out", tmp_path / "once"]
    once = subprocess.run(
        [sys.executable, "-m", "notleader.spark_analysis", "analyze", *map(str, arguments), "--json"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
    )
    assert counted(last) == counted(json.loads(once.stdout))


@pytest.mark.spark
def test_what_is_said_of_the_time_behind_the_capture_waits_for_it(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.produce(1, message_ids=["m0"], base_offset=0)
    story.send(0, "m0", offset=0)
    story.send(3000, "m1", took_ms=1500, outcome="info", error="it is under way in no row yet")
    capture, said = story.write(tmp_path)
    state = tmp_path / "live"
    captured = spark.read.schema(schemas.EXCHANGE).parquet(str(capture))
    captured.write.parquet(f"{state}/exchanges/batch=0")
    told = read_outcomes(spark, [str(said)]).select(*schemas.OPERATION.fieldNames())
    told.write.parquet(f"{state}/said/batch=0")
    for sure_ms, sends in ((0, 0), (4400, 1), (4600, 2), (None, 2)):
        judged: list[Analysis] = []
        sure_us = None if sure_ms is None else START_US + 1000 * sure_ms
        _judge_all(spark, str(tmp_path), Options(), judged.append, lambda text: None, time.monotonic(), sure_us)
        assert judged[0].outcomes.sends == sends
