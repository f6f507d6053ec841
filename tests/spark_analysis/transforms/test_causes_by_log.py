"""Who is to blame where only the log tells what became of a record: it never came out of a socket, or came twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import Story
from tests.spark_analysis.transforms.test_causes import did, link_event

pytestmark = pytest.mark.spark


def _fire(s: Story, at: float, message: str, *, seen: float | None, **given: object) -> None:
    """A send without acknowledgements: done when it is written; read by the proxy at `seen`, or never."""
    if seen is not None:
        s.produce(seen, message_ids=[message], acks=0, took_ms=None, **given)
    s.send(at, message, took_ms=0.3)


def _cut(s: Story, at: float, connection: int) -> None:
    row = s.exchange(at, "", event="disconnect", connection_id=connection, took_ms=None, outcome=None)
    row["api_name"] = row["api_key"] = None


def lay_in_a_socket_that_was_cut(s: Story) -> None:
    # An earlier connection was cut by another rule, and everything that was written to it had been read.
    cut = {"outcome": "closed", "forwarded_at_us": None, "fault_phase": "before_broker"}
    _fire(s, 0, "m0", seen=1)
    _fire(s, 100, "m1", seen=101, **cut, **did(("first", "close", "cut")))
    _cut(s, 101, 1)
    s.exchange(110, "ApiVersions", connection_id=2)
    _fire(s, 200, "m2", seen=201, connection_id=2)
    _fire(s, 300, "m3", seen=700, connection_id=2, **cut, **did(("break", "close", "cut")))
    _fire(s, 500, "m4", seen=None)
    _cut(s, 700, 2)
    _fire(s, 710, "m5", seen=None)
    s.exchange(720, "ApiVersions", connection_id=3)
    _fire(s, 800, "m6", seen=801, connection_id=3)
    # Nobody's: its connection was read, and goes on.
    _fire(s, 900, "m7", seen=None)
    _fire(s, 1000, "m8", seen=1001, connection_id=3)
    s.holds("m0", "m2", "m6", "m8")


def done_a_moment_before_the_cut_was_read(s: Story) -> None:
    # The proxy was busy: it read the request that it cut off when its client had called done what lay behind that.
    cut = {"outcome": "closed", "forwarded_at_us": None, "fault_phase": "before_broker"}
    _fire(s, 0, "m0", seen=1)
    _fire(s, 100, "m1", seen=104, **cut, **did(("break", "truncate", "cut")))
    _fire(s, 101, "m2", seen=None)
    _cut(s, 105, 1)
    s.holds("m0")


def _spoilt(s: Story, ended: str) -> None:
    _fire(s, 0, "m0", seen=1)
    _fire(s, 100, "m1", seen=101, outcome="altered", **did(("damage", "corrupt", "altered_request")))
    _fire(s, 101, "m2", seen=102)
    row = s.exchange(120, "", event="disconnect", connection_id=1, took_ms=None, outcome=None, detail=ended)
    row["api_name"] = row["api_key"] = None
    s.holds("m0")


def behind_what_the_broker_could_not_take(s: Story) -> None:
    _spoilt(s, "the broker closed the connection")


def behind_what_was_changed_and_left(s: Story) -> None:
    # Its client went, and the broker may have taken it and lost it.
    _spoilt(s, "the client closed the connection")


def written_into_silence(s: Story) -> None:
    _fire(s, 0, "m0", seen=1)
    s.exchange(
        50, "", event="fault", took_ms=None, outcome=None, exchange_seq=None, detail="silenced", api_key=None,
        **did(("off", "blackhole", "silenced")),
    )  # fmt: skip
    _fire(s, 100, "m1", seen=None)
    _cut(s, 3000, 1)
    _fire(s, 3100, "m2", seen=3101, connection_id=2)
    s.holds("m0", "m2")


def written_where_one_of_two_went_on(s: Story) -> None:
    # What a silence kept is read when that is over, and lost where the connection ends with it.
    for connection, rule in ((1, "off"), (2, "elsewhere")):
        there = {"connection_id": connection, "node_id": connection}
        _fire(s, 0, f"m{connection}", seen=1, **there)
        link_event(s, 50, "fault", connection, **did((rule, "blackhole", "silenced")))
        link_event(s, 2000, "fault", connection, detail="goes on")
    _cut(s, 2000, 1)
    _fire(s, 100, "m3", seen=None)
    s.holds("m1", "m2")


def copied_under_two_trifles(s: Story) -> None:
    """Refused after the broker had it, and both attempts held for moments that make up a quarter of its time."""
    held = (("trifle", "delay", "held_request"), ("trifle-after", "delay", "held_answer"))
    refused = ("refusal", "error", "altered_answer", 6, [0])
    first = did(held[0], refused, held[1], since_ms=15, until_ms=15)
    s.produce(0, message_ids=["m0"], took_ms=30, error_code=6, outcome="altered", **first)
    s.produce(80, message_ids=["m0"], base_offset=1, took_ms=30, **did(*held, since_ms=95, until_ms=95))
    s.send(0, "m0", offset=1, took_ms=112)
    s.holds("m0", "m0")


def copied_in_a_batch_of_another_size(s: Story) -> None:
    """No batch names its messages: that the first ones were theirs, which nobody answered, the log's offsets tell."""
    gone: dict[str, Any] = {"message_ids": [None], "took_ms": None}
    s.produce(0, base_offset=0, outcome="dropped", **gone, **did(("lose", "drop_response", "swallowed_answer")))
    s.produce(30, base_offset=1, outcome="no_response", **gone)
    s.produce(1200, message_ids=[None, None], base_offset=2, connection_id=2)
    for number in range(2):
        s.send(30 * number, f"m{number}", offset=2 + number, took_ms=1210 - 30 * number)
    s.holds("m0", "m1", "m0", "m1")


def _silent(s: Story, connection: int, since: float, until: float, rule: str = "off") -> None:
    link_event(s, since, "fault", connection, **did((rule, "blackhole", "silenced")))
    link_event(s, until, "fault", connection, detail="goes on")
    link_event(s, until, "disconnect", connection)


def given_up_in_a_silence(s: Story) -> None:
    """The answer of the first was held for a moment when the silence began, and never came."""
    moment = did(("trifle", "delay", "held_answer"), since_ms=1)
    moment["effects"][0]["held_us"] = 60_000
    for number in range(2):
        gone = {"outcome": "no_response", "took_ms": None}
        s.produce(number, message_ids=[f"m{number}"], **gone, **(moment if number == 0 else {}))
        s.produce(1200 + number, message_ids=[f"m{number}"], base_offset=2 + number, connection_id=2)
        s.send(number, f"m{number}", offset=2 + number, took_ms=1204)
    _silent(s, 1, 10, 4010)
    s.holds("m0", "m1", "m0", "m1")


def answered_when_a_silence_was_over(s: Story) -> None:
    s.produce(0, message_ids=["m0"], base_offset=0, took_ms=4010)
    s.produce(4500, message_ids=["m0"], base_offset=1, connection_id=2)
    s.send(0, "m0", offset=1, took_ms=4504)
    _silent(s, 1, 10, 4010)
    s.holds("m0", "m0")


def read_when_a_silence_was_over(s: Story) -> None:
    """Written to the first connection, which the proxy read again when the message had gone over the second."""
    s.produce(0, message_ids=["m0"], base_offset=0)
    s.send(0, "m0", offset=0, took_ms=4)
    _silent(s, 1, 10, 4010)
    s.produce(1200, message_ids=["m1"], base_offset=1, connection_id=2)
    s.produce(4010, message_ids=["m1"], outcome="no_response", took_ms=None)
    s.send(20, "m1", offset=1, took_ms=1184)
    s.holds("m0", "m1", "m1")


def held_for_longer_than_it_waited(s: Story) -> None:
    """What the client had left was passed on when the hold was over, and so was what had come behind it."""
    s.produce(
        0, message_ids=["m0"], base_offset=0, took_ms=4005, **did(("long", "stall", "held_request"), until_ms=4000)
    )
    s.produce(30, message_ids=["m1"], outcome="no_response", took_ms=None, **did(until_ms=4000))
    for number in range(2):
        s.produce(1200 + number, message_ids=[f"m{number}"], base_offset=2 + number, connection_id=2)
        s.send(30 * number, f"m{number}", offset=2 + number, took_ms=1210 - 30 * number)
    link_event(s, 4010, "disconnect", 1)
    s.holds("m0", "m1", "m0", "m1")


def overtaken_on_the_way_out_of_a_silence(s: Story) -> None:
    """Neither had been read; what had been called later was sent elsewhere first."""
    s.produce(0, message_ids=["m0"], base_offset=0)
    s.send(0, "m0", offset=0, took_ms=4)
    _silent(s, 1, 10, 4010)
    for at, message, offset in ((1500, "m2", 1), (1500, "m1", 2)):
        s.produce(at, message_ids=[message], base_offset=offset, connection_id=2)
    s.send(20, "m1", offset=2, took_ms=1484)
    s.send(30, "m2", offset=1, took_ms=1474)
    s.holds("m0", "m2", "m1")


TRUE = {
    copied_in_a_batch_of_another_size: {"duplicate": {("lose", 2)}, "retried": {("lose", 2)}},
    lay_in_a_socket_that_was_cut: {"lost": {("first", 1), ("break", 3), (None, 1)}},
    written_into_silence: {"lost": {("off", 1)}},
    written_where_one_of_two_went_on: {"lost": {("off", 1)}},
    copied_under_two_trifles: {"duplicate": {("refusal", 1)}},
    given_up_in_a_silence: {"duplicate": {("off", 2)}, "retried": {("off", 2)}},
    done_a_moment_before_the_cut_was_read: {"lost": {("break", 2)}},
    behind_what_the_broker_could_not_take: {"lost": {("damage", 2)}},
    behind_what_was_changed_and_left: {"lost": {("damage", 1), (None, 1)}},
    answered_when_a_silence_was_over: {"duplicate": {("off", 1)}, "retried": {("off", 1)}},
    read_when_a_silence_was_over: {"duplicate": {("off", 1)}},
    held_for_longer_than_it_waited: {"duplicate": {("long", 2)}, "retried": {("long", 2)}},
    overtaken_on_the_way_out_of_a_silence: {"reordered": {("off", 1)}},
}


_WITHOUT_ACKS = ("lay_in_a_socket_that_was_cut", "written_into_silence", "written_where_one_of_two_went_on")


@pytest.fixture(scope="module")
def findings(analyse: Callable[..., tuple[object, list[Finding]]]) -> list[Finding]:
    together = Story()
    for tell in TRUE:
        told = Story(run_id=tell.__name__, client=tell.__name__)
        tell(told)
        together.add(told)
    return analyse(together, Options(by_run=True))[1]


@pytest.mark.parametrize("tell", TRUE, ids=lambda tell: tell.__name__)
def test_the_rule_that_did_it_is_named_and_no_other(findings: list[Finding], tell: Callable[[Story], None]) -> None:
    for check, by in TRUE[tell].items():
        theirs = [f.group for f in findings if f.check == check and f.group and f.group.client == tell.__name__]
        counts: dict[str | None, int] = {}
        for group in theirs:
            counts[group.rule] = counts.get(group.rule, 0) + group.cases
        assert set(counts.items()) == by


def test_the_sentence_says_where_it_lay(findings: list[Finding]) -> None:
    told = [f.sentence for f in findings if f.check == "lost"]
    words = "no request with it reached the broker; it lay unread in a connection that was cut by rule break (close)"
    both = words.replace("with it", "with them").replace("it lay", "they lay")
    assert any(said in sentence and sentence.endswith("(likely).") for sentence in told for said in (words, both))


def test_nothing_is_acknowledged_again_where_nothing_ever_is(findings: list[Finding]) -> None:
    told = [f for f in findings if f.check == "recovery" and f.group and f.group.client in _WITHOUT_ACKS]
    assert {f.verdict for f in told} == {"unknown"}
