"""Recorded frames of real clients, played twice through the session itself: the same seed, the same bytes.

A session recorded by the proxy is played in tests/integration/faults/test_replay.py.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.faults.replay import Recorded, Replay

RECORDINGS = sorted((Path(__file__).parents[1] / "golden" / "frames").glob("*.jsonl"))


def recorded(path: Path) -> list[Recorded]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]
    return [
        (
            0,
            base64.b64decode(row["request"]),
            base64.b64decode(row["response"]) if row.get("response") else None,
        )
        for row in rows
    ]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_same_seed_and_traffic_give_the_same_bytes_at_the_same_time(path: Path) -> None:
    assert Replay(recorded(path), 7).log == Replay(recorded(path), 7).log


def test_another_seed_decides_otherwise_and_every_rule_has_its_say() -> None:
    hits: dict[str, int] = defaultdict(int)
    for path in RECORDINGS:
        one, other = (Replay(recorded(path), seed) for seed in (7, 8))
        assert one.log != other.log
        for rule in one.plan.rules():
            hits[rule.name] += rule.hits
    assert min(hits.values()) > 0, hits
