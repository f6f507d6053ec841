"""What a first look over the input says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.io import read_captures
from notleader.spark_analysis.profile import CaptureProfile, profile_capture

from .synthetic import Story

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
