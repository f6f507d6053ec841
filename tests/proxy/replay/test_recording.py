"""What a capture's rows are to a replay, and what of them is none."""

from __future__ import annotations

from notleader.proxy.replay.exchange import Ending
from notleader.proxy.replay.recording import Recording
from notleader.proxy.wire.enums import ApiKey
from tests.proxy.replay.made import Row, batch, ended, metadata, produced, row

HEARTBEAT = ({"group_id": "g"}, {"error_code": 0})


def heartbeat(at_ms: int, *, is_answered: bool = True, **columns: object) -> Row:
    request, answer = HEARTBEAT
    return row(at_ms, ApiKey.Heartbeat, 0, request, answer if is_answered else None, **columns)


def test_exchanges_are_in_the_order_of_their_requests() -> None:
    late, early = heartbeat(9, response_at_us=10_000), heartbeat(2, response_at_us=20_000)
    recording = Recording([late, early])
    assert [one.latency_us for one in recording.exchanges[ApiKey.Heartbeat]] == [18_000, 1_000]


def test_brokers_are_those_that_answered_and_those_that_were_named() -> None:
    assert Recording([metadata(0, "orders", nodes=(1, 2)), heartbeat(1, node_id=3)]).brokers == {
        1: ("kafka", 9001),
        2: ("kafka", 9002),
        3: ("", 0),
    }


def test_how_what_was_not_answered_ended() -> None:
    def ending(why: str, left_ms: int = 5, **columns: object) -> list[Ending]:
        rows = [heartbeat(1, is_answered=False, **columns), ended(left_ms, why)]
        return [one.ending for one in Recording(rows).exchanges[ApiKey.Heartbeat]]

    assert ending("the client closed the connection", 5000) == [Ending.SILENT]
    assert ending("the client closed the connection", fault_names=["x"]) == [Ending.SILENT]
    for left in ("the client closed the connection", "the client reset the connection", "Connection reset by peer"):
        assert ending(left) == [], "nobody waited for it"
    assert ending("the client closed the connection", outcome="dropped") == [Ending.UNANSWERED]
    assert ending("the broker closed the connection") == [Ending.CLOSED]
    assert ending("reset by fault x", outcome="closed") == [Ending.RESET]
    assert ending("the proxy stopped") == []


def test_a_produce_that_nobody_answers_by_design_is_none_that_was_lost() -> None:
    rows = [produced(0, batch(b"a"), 0, is_answered=False, acks=0), ended(9, "the client closed the connection")]
    assert Recording(rows).read == 0


def test_what_has_no_frames_is_counted_by_its_reason() -> None:
    bare = {"request_frame": None, "response_frame": None}
    recording = Recording([heartbeat(0, **bare), heartbeat(1, **bare, detail="too large"), heartbeat(2)])
    assert (recording.seen, recording.read) == (3, 1)
    assert sorted(recording.without_frames.values()) == [1, 1]
    assert "too large" in recording.without_frames


def test_what_can_not_be_read_answers_nothing() -> None:
    broken = heartbeat(0)
    broken["response_frame"] = broken["response_frame"][:3]
    recording = Recording([broken, heartbeat(1)])
    assert (recording.read, recording.unread.total()) == (1, 1)


def test_gaps_are_counted() -> None:
    assert Recording([{**heartbeat(0), "event": "gap"}, heartbeat(1)]).lost == 1
