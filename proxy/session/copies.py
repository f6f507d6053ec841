"""What of a request the broker is given again: all of it, or the partitions that a rule means."""

from collections.abc import Callable, Iterator

from notleader.faults.actions import Duplicate, PartitionKey
from notleader.faults.answers import partition_key
from notleader.proxy.pump import Exchange, pieces
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.partitions import iter_partitions, without_partitions
from notleader.proxy.wire.view import Request


def copied_frames(exchange: Exchange, whole: bytes) -> Iterator[bytes]:
    """The frames that follow a forwarded one, itself included in none."""

    def only(meant: frozenset[PartitionKey]) -> bytes | None:
        request = Request(whole[4:])
        rest = _only(request, request.body, meant)
        return None if rest is None else pieces.framed(request.encode(rest))

    return _copies(exchange, whole, only)


def copied_bodies(exchange: Exchange, request: Request, body: Body, encoded: bytes) -> Iterator[bytes]:
    """The same of one broker's part of a request, of which `encoded` are the bytes."""

    def only(meant: frozenset[PartitionKey]) -> bytes | None:
        rest = _only(request, body, meant)
        return None if rest is None else request.codec.encode(rest)

    return _copies(exchange, encoded, only)


def _copies(
    exchange: Exchange, whole: bytes, only: Callable[[frozenset[PartitionKey]], bytes | None]
) -> Iterator[bytes]:
    """`whole` as often as was decided, or what `only` leaves of it, where that is anything."""
    for action in () if exchange.decision is None else exchange.decision.actions:
        if isinstance(action, Duplicate):
            copy = whole if action.partitions is None else only(action.partitions)
            if copy is not None:
                yield from [copy] * action.copies


def _only(request: Request, body: Body, meant: frozenset[PartitionKey]) -> Body | None:
    """The body with these partitions alone; None where it has none of them."""
    if not any(partition_key(entry) in meant for entry in iter_partitions(request.codec, body)):
        return None
    return without_partitions(request.codec, body, lambda entry: partition_key(entry) not in meant)
