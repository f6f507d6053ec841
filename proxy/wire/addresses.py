"""Where responses tell a client which host and port to talk to, derived from the definitions.

Every struct of a response with a host, a port and the broker they belong to is a carrier, so that a message
of a newer Kafka is rewritten before anybody has heard of it. The exclusions say why a pair isn't for clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from notleader.proxy.wire.codec import Body, Codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.schemas import Field

Advertise = Callable[[int, str, int], tuple[str, int]]

_RAFT = "controllers speak this among themselves, on listeners that no client is given"
_STREAMS = "the address of a Streams application, which other applications query; no broker"
EXCLUDED: dict[ApiKey, str] = {
    ApiKey.Vote: _RAFT,
    ApiKey.BeginQuorumEpoch: _RAFT,
    ApiKey.EndQuorumEpoch: _RAFT,
    ApiKey.FetchSnapshot: _RAFT,
    ApiKey.DescribeQuorum: "controller listeners, shown to an operator and never dialled by the client",
    ApiKey.UpdateRaftVoter: _RAFT,
    ApiKey.StreamsGroupHeartbeat: _STREAMS,
    ApiKey.StreamsGroupDescribe: _STREAMS,
}


class Carrier(NamedTuple):
    """A struct with an address: the field names that lead to it from the body, and those inside it."""

    path: tuple[str, ...]
    node_id: str
    host: str
    port: str


def address_structs(fields: tuple[Field, ...], path: tuple[str, ...] = ()) -> Iterator[Carrier]:
    """Every struct that holds a host and a port; `node_id` is "" where it names no broker."""
    names = {field.name: field for field in fields}
    host = next((name for name in names if name in ("host", "host_name", "v0_host")), None)
    port = next((name for name in names if name in ("port", "v0_port")), None)
    if host and port:
        node_id = next((name for name, field in names.items() if field.entity == "brokerId"), "")
        yield Carrier(path, node_id, host, port)
    for field in fields:
        yield from address_structs(field.fields, (*path, field.name))


@cache
def carriers(codec: Codec) -> tuple[Carrier, ...]:
    """The structs of this message whose addresses clients connect to; requests have none."""
    if codec.direction == "request" or codec.api_key in EXCLUDED:
        return ()
    return tuple(found for found in address_structs(codec.fields) if found.node_id)


def rewrite_addresses(codec: Codec, body: Body, advertise: Advertise) -> bool:
    """Replaces, in place, every address by `advertise(node_id, host, port)`; says whether any changed.

    An answer without a broker (node_id -1 or no host, as in a failed FindCoordinator) is left as it is.
    """
    changed = False
    for carrier in carriers(codec):
        for struct in _structs(body, carrier.path):
            node_id, host, port = struct[carrier.node_id], struct[carrier.host], struct[carrier.port]
            if node_id < 0 or not host:
                continue
            address = advertise(node_id, host, port)
            if address != (host, port):
                struct[carrier.host], struct[carrier.port] = address
                changed = True
    return changed


@cache
def _leading(codec: Codec) -> Codec | None:
    """A codec of the fields up to the last carrier, where all carriers are plain arrays and more fields follow."""
    names = [field.name for field in codec.fields if field.tag is None]
    roots = [carrier.path[0] if carrier.path else "" for carrier in carriers(codec)]
    if not all(root in names for root in roots):
        return None
    count = 1 + max(names.index(root) for root in roots)
    return codec.leading(count) if count < len(names) else None


class _Decoding(NamedTuple):
    """How an answer begins, up to the fields that hold no address, and what becomes of that."""

    start: bytes
    brokers: list[tuple[int, str, int]]
    addresses: list[tuple[str, int]]
    """Those of the brokers, as advertised."""
    told: bytes | None
    """None where nothing changes."""


_last: dict[Codec, _Decoding] = {}
"""Of each codec: most answers begin as the one before did, and to decode and encode that takes long."""


def with_addresses(codec: Codec, frame: bytes, offset: int, advertise: Advertise) -> tuple[bytes, memoryview] | None:
    """The body of a response with its addresses replaced, as two pieces, or None when none changes.

    Of Metadata only the brokers, which come first, are looked at: the topics behind them are passed on unread.
    """
    if not carriers(codec):
        return None
    leading = _leading(codec)
    if leading is None:
        body = codec.decode(frame, offset)
        return (codec.encode(body), memoryview(b"")) if rewrite_addresses(codec, body, advertise) else None
    last = _last.get(codec)
    if (
        last is None
        or not frame.startswith(last.start, offset)
        or last.addresses != [advertise(*broker) for broker in last.brokers]
    ):
        last = _last[codec] = _decoding(codec, leading, frame, offset, advertise)
    return None if last.told is None else (last.told, memoryview(frame)[offset + len(last.start) :])


def _decoding(codec: Codec, leading: Codec, frame: bytes, offset: int, advertise: Advertise) -> _Decoding:
    brokers: list[tuple[int, str, int]] = []
    addresses: list[tuple[str, int]] = []

    def noted(*broker: Any) -> tuple[str, int]:
        brokers.append(broker)
        addresses.append(advertise(*broker))
        return addresses[-1]

    body, end = leading.decode_some(frame, offset)
    told = leading.encode(body) if rewrite_addresses(codec, body, noted) else None
    return _Decoding(frame[offset:end], brokers, addresses, told)


def _structs(value: Any, path: tuple[str, ...]) -> Iterator[Body]:
    if isinstance(value, list):
        for element in value:
            yield from _structs(element, path)
    elif value is not None and path:
        yield from _structs(value.get(path[0]), path[1:])
    elif value is not None:
        yield value
