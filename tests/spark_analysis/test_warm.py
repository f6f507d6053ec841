"""The archive of Java's classes: one per Java and Spark, none where it could not be found again, no word on stdout."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis import warm


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java home of the test's own, a cache folder, and another folder for what is temporary."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return home


def test_java_is_told_to_use_the_archive_once_there_is_one(java: Path, tmp_path: Path) -> None:
    archive = warm._archive()
    assert archive is not None
    assert archive.is_relative_to(tmp_path / "cache")
    assert "RecordDynamicDumpInfo" in warm.java_options()
    archive.write_bytes(b"")
    assert f"-XX:SharedArchiveFile={archive}" in warm.java_options()


def test_another_java_has_another_archive_and_a_temporary_one_none(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = warm._archive()
    (java / "bin" / "java").write_text("newer")
    assert warm._archive() != before
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert warm._archive() is None
    assert warm.java_options() == ""


@pytest.mark.spark
def test_spark_s_java_writes_it_unless_there_is_one(
    spark: SparkSession, java: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    archive = warm._archive()
    assert archive is not None
    archive.write_bytes(b"another's")
    assert not warm.keep(spark)
    archive.unlink()
    # The session may itself run on the user's archive, and then Java refuses to write another: no more than false.
    if warm.keep(spark):
        assert archive.stat().st_size > 1_000_000
    assert capfd.readouterr().out == ""
