"""Whose log is read before the analysis: the topics that a capture and outcome lines name."""

from __future__ import annotations

from pathlib import Path

import pytest

from notleader.proxy.brokerlog.before_analysis import with_log
from notleader.proxy.brokerlog.reading import LogError


def test_a_capture_in_which_nothing_happened_names_no_topic(tmp_path: Path) -> None:
    (tmp_path / "capture" / "date=2026-11-27").mkdir(parents=True)
    (tmp_path / "said.jsonl").touch()
    folders = ["--capture", str(tmp_path / "capture"), "--outcomes", str(tmp_path / "said.jsonl")]
    with pytest.raises(LogError, match=r"neither .* name a topic: say --topic"):
        with_log([*folders, "--out", str(tmp_path / "out"), "--kafka", "127.0.0.1:1"])


def test_a_capture_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"capture folder .*nosuch does not exist"):
        with_log(["--capture", str(tmp_path / "nosuch"), "--out", str(tmp_path / "out"), "--kafka", "127.0.0.1:1"])
