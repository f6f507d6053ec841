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


def test_a_capture_that_names_rules_only_says_not_what_they_did(spark: SparkSession, tmp_path: Path) -> None:
    assert profile(spark, tmp_path, {**_STRUCK, **_CUT}, {**_STRUCK, "effects": None}).did is None
