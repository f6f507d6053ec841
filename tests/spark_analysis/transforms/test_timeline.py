"""What the report draws of a rule: from its first hit to the end of what it did."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from notleader.spark_analysis.checks import Tables
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.timeline import fault_hits
from tests.spark_analysis.synthetic import MS, START_US, Story
from tests.spark_analysis.transforms.test_causes import did, link_event, listener

pytestmark = pytest.mark.spark

LATER = ("later", "slow_close", "silenced")


def test_what_stands_is_drawn_until_it_is_lifted(build: Callable[..., Tables]) -> None:
    s = Story()
    listener(s, 0, "silent: off", ("off", "blackhole", "silenced"))
    listener(s, 1500, "open")
    link_event(s, 10, "fault", 2, **did(("mute", "blackhole", "silenced")))
    link_event(s, 700, "fault", 2, detail="goes on")
    kept = did(LATER)
    kept["effects"][0]["held_us"] = 300 * MS
    link_event(s, 20, "fault", 3, **kept)
    listener(s, 3000, "refusing: shut", ("shut", "refuse", "refused"))
    s.exchange(5000, "Metadata")
    tables = build(s, Options())
    rows = fault_hits(tables.exchanges, START_US, START_US + 6000 * MS, 10_000 * MS).collect()
    assert {row.rule: ((row.first_us - START_US) // MS, (row.until_us - START_US) // MS) for row in rows} == {
        "off": (0, 1500),
        "mute": (10, 700),
        "later": (20, 320),
        "shut": (3000, 6000),
    }
