"""The most alike recorded exchange: what a request is about decides before who asks whom."""

from __future__ import annotations

from typing import Any

import pytest

from notleader.proxy.replay.choosing import Asked, Choosing
from notleader.proxy.replay.exchange import Exchange, Subject
from notleader.proxy.wire.enums import ApiKey


def subject(**named: str) -> Subject:
    return frozenset(named.items())


def exchange(order: int, about: Subject, **other: Any) -> Exchange:
    who: dict[str, Any] = {"node_id": 1, "client_id": "shop", **other}
    return Exchange(order, ApiKey.Heartbeat, 0, who["node_id"], who["client_id"], about, {}, {"order": order})


def asked(about: Subject, node_id: int = 1, client_id: str = "shop") -> Asked:
    return Asked(ApiKey.Heartbeat, node_id, client_id, about, {})


def chosen(choosing: Choosing, request: Asked, times: int = 1) -> list[int | None]:
    found = [choosing.choose(request) for _ in range(times)]
    return [None if one is None else one.exchange.order for one in found]


def made(*exchanges: Exchange) -> Choosing:
    choosing = Choosing()
    choosing.exchanges += exchanges
    return choosing


A, B = subject(group="a"), subject(group="b")


def test_each_once_in_order_and_then_the_last_again() -> None:
    choosing = made(exchange(0, A), exchange(1, B), exchange(2, A))
    assert chosen(choosing, asked(A), 4) == [0, 2, 2, 2]
    told = choosing.choose(asked(A))
    assert told is not None
    assert told.is_again


def test_an_answer_that_never_came_is_not_repeated() -> None:
    lost = exchange(1, A)
    lost.answer = None
    assert chosen(made(exchange(0, A), lost), asked(A), 4) == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (exchange(1, A, node_id=2, client_id="till"), exchange(0, B)),
        (exchange(1, A, client_id="till"), exchange(0, A, node_id=2)),
        (exchange(1, A), exchange(0, A, client_id="till")),
        (exchange(1, A), exchange(0, A | subject(topic="orders"))),
    ],
    ids=["the group before the node", "the node before the client", "the client", "nothing more"],
)
def test_more_alike(better: Exchange, worse: Exchange) -> None:
    assert chosen(made(worse, better), asked(A)) == [1]


def test_what_is_about_another_group_is_no_answer() -> None:
    both = subject(group="a", topic="orders")
    assert chosen(made(exchange(0, subject(group="b", topic="orders"))), asked(both)) == [None]
