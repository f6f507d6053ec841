"""A run told in order: exchanges and the client's own words, alike neighbours together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from notleader.proxy.lab.story import Line, shortened, story
from notleader.proxy.recorder.schema import EXCHANGE


def exchange(at_us: int, **fields: Any) -> dict[str, Any]:
    row = {"event": "exchange", "client_id": "c", "api_name": "Produce", "outcome": "answered", "error_code": 0}
    return {**row, "request_at_us": at_us, "response_at_us": at_us + 2000, **fields}


def told(tmp_path: Path, rows: list[dict[str, Any]], said: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    pq.write_table(pa.Table.from_pylist(rows, EXCHANGE), tmp_path / "capture.parquet")
    outcomes = tmp_path / "c.jsonl"
    outcomes.write_text("".join(json.dumps({"operation": "send", "client": "c", **line}) + "\n" for line in said))
    return [(line.at_us, line.text, line.count) for line in story(tmp_path / "capture.parquet", outcomes, "c")]


def test_in_order_and_alike_ones_together(tmp_path: Path) -> None:
    refused = {"outcome": "injected", "error_code": 6, "fault_names": ["lie"], "fault_phase": "before_broker"}
    place = {"partitions": [{"topic": "orders", "partition_index": 0, "record_count": 2}]}
    rows = [exchange(2_000, **refused, **place), exchange(1_000, api_name="Metadata"), exchange(9_000, client_id="d")]
    said = [
        {"outcome": "pending", "called_at_us": 1_500},
        {"outcome": "pending", "called_at_us": 1_600},
        {"outcome": "fail", "called_at_us": 1_500, "completed_at_us": 5_500, "error": "no leader"},
    ]
    assert told(tmp_path, rows, said) == [
        (1_000, "Metadata → answered after 2 ms", 1),
        (1_500, "the application calls send", 2),
        (2_000, "Produce orders-0 x2 → the proxy says NOT_LEADER_OR_FOLLOWER (rule lie); the broker never saw it", 1),
        (5_500, "send is told fail after 4 ms: no leader", 1),
    ]


def test_a_lost_answer_says_that_the_broker_applied_it(tmp_path: Path) -> None:
    lost = {"outcome": "dropped", "fault_names": ["lost"], "response_at_us": None, "forwarded_at_us": 2}
    acted = {**lost, "broker_responded_at_us": 3}
    assert told(tmp_path, [exchange(1, **acted)], []) == [
        (1, "Produce → no answer (rule lost), though the broker has acted on it", 1)
    ]
    # Passed on and never answered: nobody knows whether the broker read it.
    assert told(tmp_path, [exchange(1, **lost)], []) == [(1, "Produce → no answer (rule lost)", 1)]


def test_a_call_that_blocked_is_told_when_it_returns(tmp_path: Path) -> None:
    said = [
        {"outcome": "pending", "called_at_us": 0},
        {"outcome": "pending", "called_at_us": 0, "returned_at_us": 2_000_000},
        {"outcome": "pending", "called_at_us": 0, "returned_at_us": 9},
    ]
    assert told(tmp_path, [], said) == [
        (0, "the application calls send", 1),
        (2_000_000, "send returns after 2000 ms", 1),
    ]


def test_a_program_that_hung_is_told_at_its_end(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_pylist([exchange(1_000_000), exchange(6_000_001, event="disconnect")], EXCHANGE),
        tmp_path / "capture.parquet",
    )
    outcomes = tmp_path / "c.jsonl"
    outcomes.write_text("")
    *_, last, _ = story(tmp_path / "capture.parquet", outcomes, "c", ended_at_us=6_000_000)
    assert (last.at_us, last.text) == (6_000_000, "still running, after 5.0 s of nothing; the program is ended")


def test_a_fault_that_comes_into_force_is_a_line(tmp_path: Path) -> None:
    rows = [exchange(1_000), exchange(9_000)]
    rows += [exchange(at, event="fault", client_id=None, detail="listener x is silent") for at in (5_000, 10_000)]
    assert [text for _, text, _ in told(tmp_path, rows, [])][1:2] == ["— listener x is silent —"]


def test_the_story_of_a_command_is_of_all_clients_and_tells_a_fault_once(tmp_path: Path) -> None:
    rows = [exchange(1_000), exchange(9_000, client_id="another", api_name="Fetch")]
    rows.append(exchange(5_000, event="fault", client_id=None, detail="listener x is silent"))
    told(tmp_path, rows, [])
    lines = story(tmp_path / "capture.parquet", tmp_path / "c.jsonl", None)
    assert [line.text.split(" →")[0] for line in lines] == ["Produce", "— listener x is silent —", "Fetch"]


def test_long_stretches_of_the_usual_are_left_out() -> None:
    usual = [Line(at, f"line {at}", usual=True) for at in range(10)]
    lines = [*usual, Line(10, "trouble"), *usual[:3]]
    assert [line.text for line in shortened(lines)] == [
        "line 0", "line 1", "… all as usual, 6 lines …", "line 8", "line 9", "trouble", "line 0", "line 1", "line 2",
    ]  # fmt: skip


def test_an_error_is_the_broker_s_own_though_a_rule_held_the_answer(tmp_path: Path) -> None:
    held = {"outcome": "answered", "error_code": 10, "fault_names": ["slow"], "fault_kinds": ["delay"]}
    changed = held | {"outcome": "altered", "error_code": 6}
    told_ = [text for _, text, _ in told(tmp_path, [exchange(1_000, **held), exchange(2_000, **changed)], [])]
    assert "→ the broker says MESSAGE_TOO_LARGE" in told_[0]
    assert "→ the proxy, in the broker's place, says NOT_LEADER_OR_FOLLOWER" in told_[1]
