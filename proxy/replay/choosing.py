"""Which recorded exchange answers a request: the most alike, in their order, each once, then the last answer again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from notleader.proxy.replay.exchange import WHO, Exchange, Subject, member_id_of
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.enums import ApiKey

ASKED_OF_ANY_BROKER: Final = frozenset(
    (ApiKey.Metadata, ApiKey.FindCoordinator, ApiKey.ApiVersions, ApiKey.DescribeCluster, ApiKey.InitProducerId)
)
"""What every broker answers alike, so that which one was asked says nothing."""
_ABOVE_ALL: Final = frozenset((*WHO, "resource"))
"""What a request is about above all, where it names one."""


class Asked(NamedTuple):
    """A request of a client: who asks whom for what; ``body`` is in the newer shape of `shapes`."""

    api_key: int
    node_id: int | None
    client_id: str | None
    subject: Subject
    body: Body


class Usable(Protocol):
    """Something recorded, which is used once and then perhaps again."""

    is_used: bool

    @property
    def has_answer(self) -> bool:
        """Whether it was answered."""


T = TypeVar("T", bound=Usable)


class Chosen(NamedTuple):
    """What answers, and whether it has answered before."""

    exchange: Exchange
    is_again: bool


def next_of(alike: Sequence[T]) -> tuple[T, bool]:
    """The first of these that was not used, which is used now; says whether it was used before.

    Where all were, the last that has an answer: a connection that broke breaks once.
    """
    for one in alike:
        if not one.is_used:
            one.is_used = True
            return one, False
    return next((one for one in reversed(alike) if one.has_answer), alike[-1]), True


def nearest(found: Iterable[T], alike: Callable[[T], Any]) -> list[T]:
    """Those with the highest measure, in their order."""
    measured = [(alike(one), one) for one in found]
    highest = max((measure for measure, _ in measured), default=None)
    return [one for measure, one in measured if measure == highest]


class Choosing:
    """The recorded exchanges of one API, in recorded order."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._alike: dict[Any, list[Exchange]] = {}

    def choose(self, asked: Asked, *, of_anything: bool = False) -> Chosen | None:
        """What answers a request; None where nothing that was recorded is about what it names.

        ``of_anything``: then any will do.
        """
        member_id = member_id_of(asked.body)
        key = (asked.subject, member_id, asked.node_id, asked.client_id, of_anything)
        alike = self._alike.get(key)
        if alike is None:
            alike = self._alike[key] = self._most_alike(asked, member_id, of_anything)
        return Chosen(*next_of(alike)) if alike else None

    def _most_alike(self, asked: Asked, member_id: str | None, of_anything: bool) -> list[Exchange]:
        """What it is about decides first: an answer of another node is one, an answer about another group is none."""

        def alike(exchange: Exchange) -> tuple[int, ...]:
            return (
                len(asked.subject & exchange.subject),
                -len(exchange.subject - asked.subject),
                exchange.member_id == member_id,
                asked.api_key in ASKED_OF_ANY_BROKER or exchange.node_id == asked.node_id,
                exchange.client_id == asked.client_id,
            )

        who = frozenset(named for named in asked.subject if named[0] in _ABOVE_ALL)
        needed = who or asked.subject
        related = (one for one in self.exchanges if of_anything or not needed or needed & one.subject)
        return nearest(related, alike)
