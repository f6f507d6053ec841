"""Wherever what is said is cut: bytes out are bytes in, nothing closes, and the captured row is the same.

Here frames are cut at every place or at some; `make test-cuts` cuts all of them at every place, which takes a quarter
of an hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from notleader.proxy.record import rows
from notleader.proxy.record.rows import Level
from tests.proxy.session.cut_frames import large_cuts, large_fetches
from tests.proxy.session.cutting import Said, Stage, differences

PROJECT = Path(__file__).parents[3]


@pytest.mark.parametrize("form", ["compiled", "pure"])
def test_nothing_depends_on_the_cuts(form: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "NOTLEADER_PURE"}
    env |= {"NOTLEADER_PURE": "1"} if form == "pure" else {}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.proxy.session.cutting"], cwd=PROJECT, env=env, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
    assert ran.stdout.startswith(f"{form}: ")


def found(level: Level | None, said: list[Said]) -> list[str]:
    random = Random(1)
    return [line for each in said for line in differences(Stage(level), each, large_cuts(each, random, 9))]


_STUMBLING = """
from notleader.proxy.pump import pure
from tests.proxy.session.cut_frames import large_fetches
from tests.proxy.session.test_cut_anywhere import found

whole = pure._without_endpoints

def stumbling(probe, data, position, stop):
    data = whole(probe, data, position, stop)
    if not probe.skip and not probe.ended:
        raise WireError("a read that ended just there")
    return data

several = [said for said in large_fetches() if said.name.endswith("v17")]
assert found(None, several) == []
pure._without_endpoints = stumbling
print(found(None, several)[0])
"""


def test_a_pump_that_stumbles_between_records_and_what_follows_is_found() -> None:
    env = {**os.environ, "NOTLEADER_PURE": "1"}
    ran = subprocess.run([sys.executable, "-c", _STUMBLING], cwd=PROJECT, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "wire_error" in ran.stdout


def test_a_piece_that_the_capture_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    several = list(large_fetches())[:2]
    whole = rows._frame
    monkeypatch.setattr(rows, "_frame", lambda kept: whole(kept[1:] if isinstance(kept, list) else kept))
    assert "rows" in found(Level.PAYLOAD, several)[0]
