"""What of a request the broker is given again: all of it, or the partitions that a rule means."""

from collections.abc import Iterator

from notleader.faults.actions import Duplicate
from notleader.faults.answers import partition_key
from notleader.proxy.pump import Exchange, pieces
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.partitions import PartitionEntry, without_partitions
from notleader.proxy.wire.view import Request


def copied_frames(exchange: Exchange, whole: bytes) -> Iterator[bytes]:
    """The frames that follow a forwarded one, itself included in none."""
    for duplicate in _duplicates(exchange):
        frame: bytes | None = whole
        if duplicate.partitions is not None:
            request = Request(whole[4:])
            body = _only(request, request.body, duplicate)
            frame = None if body is None else pieces.framed(request.encode(body))
        if frame is not None:
            yield from [frame] * duplicate.copies


def copied_bodies(exchange: Exchange, request: Request, body: Body) -> Iterator[Body]:
    """The same of one broker's part of a request."""
    for duplicate in _duplicates(exchange):
        rest = body if duplicate.partitions is None else _only(request, body, duplicate)
        if rest is not None:
            yield from [rest] * duplicate.copies


def _duplicates(exchange: Exchange) -> Iterator[Duplicate]:
    if exchange.decision is not None:
        yield from (action for action in exchange.decision.actions if isinstance(action, Duplicate))


def _only(request: Request, body: Body, duplicate: Duplicate) -> Body | None:
    """The body with the partitions that are doubled; None where it has none of them."""
    meant = duplicate.partitions or frozenset()
    found = []

    def is_other(entry: PartitionEntry) -> bool:
        is_meant = partition_key(entry) in meant
        found.append(is_meant)
        return not is_meant

    rest = without_partitions(request.codec, body, is_other)
    return rest if any(found) else None
