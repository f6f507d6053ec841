"""What a connection whose bytes a rule slows down or cuts off records of its exchanges."""

from __future__ import annotations

from notleader.faults.actions import Shape
from notleader.faults.base import Connection
from notleader.faults.decision import Hit
from notleader.faults.effects import Effect
from notleader.proxy.net.shaped import Entry, ShapedRecord
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.wire.schemas import Direction

NARROW = Hit("narrow", "bandwidth", "before_broker")
FEW = Hit("few", "limit", "before_broker")
CONNECTION = Connection(connection_id=1, nth=0, client_addr="", listener="bootstrap", node_id=None)


class Line:
    """A connection with one rule each way, and what it has recorded."""

    def __init__(self, **by: tuple[Shape, Hit]) -> None:
        self.told: list[Entry] = []
        self.record = ShapedRecord(self.told.append)
        ways: tuple[Direction, ...] = ("request", "response")
        for way in ways:
            self.record.shaped(way, [by[way]] if way in by else [])

    def came(self, way: Direction, size: int, at_us: int, requests: int = 0) -> None:
        self.record.crossings[way].came(size, at_us, requests)

    def went(self, way: Direction, size: int, at_us: int) -> None:
        self.record.crossings[way].went(size, at_us)
        self.record.tell(at_us)


def exchange(seq: int, at_us: int, *, answered_us: int = 0) -> Exchange:
    made = Exchange(CONNECTION, seq, 0, 7, seq, "c", at_us, 100, 0)
    made.forwarded_at_us = at_us
    made.broker_responded_at_us = made.response_at_us = answered_us
    made.awaits_broker = not answered_us
    if answered_us:
        made.outcome = "answered"
    return made


def effects(entry: Entry) -> list[tuple[str, Effect]]:
    return [(hit.rule_name, effect) for hit in entry.hits for effect in hit.effects]


def test_an_answer_has_left_when_its_last_byte_has() -> None:
    line = Line(response=(Shape("response", bytes_per_s=100), NARROW))
    line.came("response", 50, 1_000)
    line.went("response", 20, 1_000)
    line.record.add(exchange(1, 500, answered_us=1_000), 1_000)
    assert not line.told
    line.went("response", 30, 501_000)
    (told,) = line.told
    assert isinstance(told, Exchange)
    assert (told.response_at_us, told.outcome) == (501_000, "answered")
    assert effects(told) == [("narrow", Effect("held_answer", held_us=500_000))]


def test_an_answer_that_was_not_read_as_too_much_waited_was_held_meanwhile() -> None:
    """And not for the time that the broker took by itself, when nothing waited."""
    line = Line(response=(Shape("response", bytes_per_s=100), NARROW))
    crossing = line.record.crossings["response"]
    line.came("response", 100, 1_000)
    line.went("response", 100, 1_000_000)
    line.came("response", 100, 3_000_000)
    crossing.crowded(True, 3_000_000)
    line.went("response", 100, 4_000_000)
    crossing.crowded(False, 4_000_000)
    line.came("response", 100, 4_001_000)
    answered = exchange(1, 500, answered_us=4_001_000)
    answered.response_bytes = 300
    line.record.add(answered, 4_001_000)
    line.went("response", 100, 5_000_000)
    (told,) = line.told
    assert isinstance(told, Exchange)
    assert (told.broker_responded_at_us, told.response_at_us) == (3_001_000, 5_000_000)
    assert effects(told) == [("narrow", Effect("held_answer", held_us=1_999_000))]


def test_of_answers_that_came_in_one_piece_each_has_left_when_its_own_last_byte_has() -> None:
    line = Line(response=(Shape("response", bytes_per_s=100), NARROW))
    line.came("response", 100, 1_000)
    for seq, size in ((1, 40), (2, 50), (3, 10)):
        answered = exchange(seq, 500, answered_us=1_000)
        answered.response_bytes = size
        line.record.add(answered, 1_000)
    for size, at_us in ((30, 300_000), (10, 400_000), (50, 900_000), (10, 1_000_000)):
        line.went("response", size, at_us)
    assert [told.response_at_us for told in line.told if isinstance(told, Exchange)] == [400_000, 900_000, 1_000_000]


def test_a_request_is_with_the_broker_when_its_last_byte_is() -> None:
    line = Line(request=(Shape("request", bytes_per_s=100), NARROW))
    for piece in (0, 1, 2):
        line.came("request", 100, 1_000 + piece * 10, requests=1)
    line.came("request", 30, 2_000, requests=2)
    line.went("request", 100, 1_000_000)
    line.went("request", 200, 3_000_000)
    line.record.add(exchange(1, 1_000, answered_us=3_001_000), 3_001_000)
    (first,) = line.told
    assert isinstance(first, Exchange)
    assert first.forwarded_at_us == 3_000_000
    assert effects(first) == [("narrow", Effect("held_request", held_us=2_999_000))]
    line.record.add(exchange(2, 2_000), 4_000_000)  # its client gives up
    second = line.told[1]
    assert isinstance(second, Exchange)
    assert second.forwarded_at_us == 0
    assert effects(second) == [("narrow", Effect("held_request", held_us=3_998_000))]


def test_what_leaves_at_once_was_held_by_nobody() -> None:
    line = Line(
        request=(Shape("request", bytes_per_s=10**9), NARROW), response=(Shape("response", slice_bytes=10), NARROW)
    )
    line.came("request", 100, 7, requests=1)
    line.went("request", 100, 7)
    line.came("response", 100, 9)
    line.went("response", 100, 9)
    line.record.add(exchange(1, 7, answered_us=9), 9)
    assert [effects(entry) for entry in line.told] == [[]]


def test_an_answer_left_when_it_did_however_long_a_busy_process_takes_to_say_so() -> None:
    """Else a client's clock seems to be wrong, which had it before."""
    whole = (Shape("response", slice_bytes=1000, slice_delay_us=5), NARROW)
    for by in ({"response": whole}, {"request": (Shape("request", bytes_per_s=10**9), NARROW)}):
        line = Line(**by)
        if "response" in by:
            line.came("response", 100, 9)
            line.went("response", 100, 9)
        line.record.add(exchange(1, 7, answered_us=9), 40_000)
        (told,) = line.told
        assert isinstance(told, Exchange)
        assert told.response_at_us == 9
        assert effects(told) == []


def test_of_two_rules_each_held_it_for_as_long_as_it_would_have_done_alone() -> None:
    # 100 bytes: 1 s at a hundred a second, 100 ms at a thousand, whichever stands first in the chain.
    wide = Hit("wide", "bandwidth", "before_broker")
    line = Line()
    ways: tuple[Direction, ...] = ("request", "response")
    for way in ways:
        both = [(Shape(way, bytes_per_s=1000), wide), (Shape(way, bytes_per_s=100), NARROW)]
        line.record.shaped(way, both if way == "request" else both[::-1])
    line.came("request", 100, 1_000, requests=1)
    line.went("request", 100, 1_011_000)
    line.came("response", 100, 2_000_000)
    line.record.add(exchange(1, 1_000, answered_us=2_000_000), 2_000_000)
    line.went("response", 100, 3_010_000)
    (told,) = line.told
    assert effects(told) == [
        ("wide", Effect("held_request", held_us=100_000)),
        ("wide", Effect("held_answer", held_us=100_000)),
        ("narrow", Effect("held_request", held_us=1_000_000)),
        ("narrow", Effect("held_answer", held_us=1_000_000)),
    ]
    # Once a rule has gone, what it still held leaves with the rest.
    line.came("request", 100, 4_000_000, requests=2)
    line.went("request", 100, 4_050_000)
    line.record.shaped("request", [])
    line.record.add(exchange(2, 4_000_000), 5_000_000)
    assert [(name, effect.held_us) for name, effect in effects(line.told[1])] == [("wide", 50_000), ("narrow", 50_000)]


def test_a_limit_cuts_what_was_not_answered_and_the_connection() -> None:
    line = Line(response=(Shape("response", limit_bytes=10), FEW))
    answered, torn, unanswered = exchange(1, 1, answered_us=2), exchange(2, 3, answered_us=4), exchange(3, 5)
    line.came("response", 10, 2)
    line.went("response", 10, 2)
    line.record.add(answered, 2)
    line.came("response", 20, 4)
    line.record.cut([FEW])
    for entry in (torn, unanswered):
        line.record.add(entry, 5)
    line.record.add(ConnectionEvent("disconnect", CONNECTION, 5, "closed at the limit of a shape"), 5)
    cut = [("few", Effect("cut"))]
    assert [effects(entry) for entry in line.told] == [[], cut, cut, cut]
    assert [entry.outcome for entry in (answered, torn, unanswered)] == ["answered", "closed", "no_response"]
    assert torn.response_at_us == 0


def test_an_answer_whose_client_has_gone_never_arrived() -> None:
    line = Line(response=(Shape("response", bytes_per_s=1), NARROW))
    line.came("response", 50, 1_000)
    line.record.add(exchange(1, 500, answered_us=1_000), 1_000)
    line.record.add(ConnectionEvent("disconnect", CONNECTION, 2_000, "the client closed the connection"), 2_000)
    assert not line.told, "events come in their order"
    line.record.tell(9_000, for_good=True)
    told, ended = line.told
    assert isinstance(told, Exchange)
    assert isinstance(ended, ConnectionEvent)
    assert (told.outcome, told.response_at_us) == ("no_response", 0)
    assert effects(told) == [("narrow", Effect("held_answer", held_us=8_000))]
    assert ended.at_us == 9_000
