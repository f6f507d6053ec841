"""What a first look over the input says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.io import read_captures
from notleader.spark_analysis.jobs.analyze import analyze
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import InputError
from notleader.spark_analysis.profile import CaptureProfile, profile_capture

from .synthetic import Story, incident

pytestmark = pytest.mark.spark

_CUT = {"effects": [{"rule": "r", "kind": "close", "did": "cut", "error_code": None, "partitions": None}]}
_STRUCK = {"fault_names": ["r"], "fault_kinds": ["close"], "outcome": "closed"}


def profile(spark: SparkSession, folder: Path, *exchanges: dict[str, object]) -> CaptureProfile:
    story = Story()
    for number, given in enumerate(exchanges):
        story.produce(10.0 * number, message_ids=[f"m{number}"], **given)
    capture, _ = story.write(folder)
    return profile_capture(read_captures(spark, [str(capture)]))


def test_all_that_rules_did_is_known(spark: SparkSession, tmp_path: Path) -> None:
    assert profile(spark, tmp_path / "nothing", {}).did == ()
    assert profile(spark, tmp_path / "cut", {}, {**_STRUCK, **_CUT}).did == ("cut",)


def test_what_rules_did_is_read_from_how_exchanges_ended_where_a_capture_names_rules_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    answered = {**_STRUCK, "outcome": "injected", "effects": None}
    found = profile(spark, tmp_path, {**_STRUCK, "effects": None}, answered, {"effects": None})
    assert sorted(found.did) == ["answered", "cut"]


def in_unit(us: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A line with its times in a unit of so many µs."""
    return lambda line: {
        name: int(value / us) if name.endswith("_at_us") and value is not None else value
        for name, value in line.items()
    }


def backwards(line: dict[str, Any]) -> dict[str, Any]:
    return line | {"returned_at_us": None, "completed_at_us": line["called_at_us"] - 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (in_unit(1000), "have their times in ms: `…_at_us` is in µs since 1970"),
        (in_unit(1_000_000), "have their times in s: "),
        (in_unit(0.001), "have their times in ns: "),
        (lambda _: {"hello": 1}, "none of the 20 outcome lines can be read; the first, "),
        (backwards, "it returned, or completed, before it was called"),
    ],
    ids=["ms", "s", "ns", "no lines of ours", "backwards"],
)
def test_lines_that_say_nothing_usable_are_refused(
    spark: SparkSession, tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    capture, outcomes = incident(20).write(tmp_path)
    lines = [json.loads(line) for line in outcomes.read_text().splitlines()]
    sends = [line for line in lines if line["operation"] == "send" and line["outcome"] != "pending"][:20]
    outcomes.write_text("".join(f"{json.dumps(change(line))}\n" for line in sends))
    with pytest.raises(InputError, match=said.replace("(", "[(]")):
        analyze(spark, [str(capture)], [str(outcomes)], str(tmp_path / "out"), Options())
