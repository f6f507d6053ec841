from __future__ import annotations

from notleader.proxy.lab.explore.points import points, signature, spread
from tests.proxy.lab.explore.script import row


def test_a_point_is_an_exchange_by_api_and_place() -> None:
    found = points([row("Metadata", 0), row("Produce", 10, 0), row("Produce", 20, 0, producer_id=7)])
    assert [str(each) for each in found] == ["Metadata #1 of 1", "Produce #1 of 2", "Produce #2 of 2"]
    assert [each.at_ms for each in found] == [0, 10, 20]
    assert found[1].idempotent
    assert not found[0].idempotent


def test_partitions_are_told_apart_where_there_are_several() -> None:
    found = points([row("Produce", 0, 0, 1), row("Produce", 5, 1)])
    assert [str(each) for each in found] == [
        "Produce of partition 0 #1 of 1",
        "Produce of partition 1 #1 of 2",
        "Produce of partition 1 #2 of 2",
    ]


def test_of_many_exchanges_the_first_the_last_and_some_between() -> None:
    chosen = spread(1000)
    assert chosen[:2] == [0, 1]
    assert chosen[-1] == 999
    assert len(chosen) <= 12
    assert spread(3) == [0, 1, 2]


def test_a_signature_is_what_followed_what_went_wrong_however_often() -> None:
    refused = {"error_code": 6, "fault_names": ["x"], "outcome": "injected"}
    one = [row("Produce", 0, 0, **refused), row("Metadata", 1), row("Produce", 2, 0)]
    twice = [row("Produce", 0, 0, **refused), row("Produce", 1, 0, **refused), row("Metadata", 2), row("Produce", 3, 0)]
    assert signature(one) == {"Produce=6 > Metadata > Produce"}
    assert signature(twice) == signature(one)
    assert signature([row("Produce", 0, 0)]) == frozenset()
