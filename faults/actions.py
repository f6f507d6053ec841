"""The closed set of things a fault can ask of the transport: faults are open, actions are not.

An action is *terminal* when nothing that a later rule says can still matter; the plan keeps at most one,
last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from uuid import UUID

Body = dict[str, Any]
PartitionKey = tuple[str | UUID, int]


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait `delay_us` before the next step: forwarding (on a request) or answering the client (on a response)."""

    delay_us: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait until `plan.is_held(rule_name, number)` is false, or until `until_us` where that is not None.

    `number` is which of the rules that had that name; one that replaced another holds nothing of what that one held.
    """

    rule_name: str
    until_us: int | None = None
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Drop:
    """Request: never forwarded, never answered. Response: thrown away.

    With `hold_later`, what the broker answers to later requests of this connection stays behind the gap
    (clients pair answers by order, so an answer that overtakes a lost one would be a protocol error, not a
    loss).
    """

    hold_later: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """The proxy answers with `body`, encoded as `api_version` (None: the request's); nothing reaches the broker."""

    body: Body
    api_version: int | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """Send `body` in place of the request; the broker's decoded answer goes through `merge`, if there is one.

    What `merge` returns is the answer from then on, for `Plan.on_response` too. With `close_after` the client's
    connection is closed (FIN) once `body` is with the broker: a Produce without acks whose rest was refused.
    """

    body: Body
    merge: Callable[[Body], Body] | None = None
    close_after: bool = False


class Lost(NamedTuple):
    """What a client is told of the part of a broker that can't be asked, and the rule because of which it was to be.

    `partitions` of None is the whole request.
    """

    rule_name: str
    kind: str
    error_code: int
    partitions: frozenset[PartitionKey] | None


@dataclass(frozen=True, slots=True)
class Relay:
    """Send `parts`, by node id, to these brokers too, and `body` (None: nothing) in place of the request.

    Once every answer is there, `merge` makes one of them: it gets the decoded answers by node id, that of the
    connection's own broker under None, and refuses the parts of those that can't be asked, which `lost` has. None where
    no answer will come (a Produce without acks); `close_after` is then Forward's.
    """

    parts: Mapping[int, Body]
    body: Body | None
    merge: Callable[[Mapping[int | None, Body]], Body] | None
    close_after: bool = False
    lost: Mapping[int, tuple[Lost, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """What reaches the broker, or the brokers, is made of `body`; the plan turns this into Forward or Relay."""

    body: Body


@dataclass(frozen=True, slots=True)
class RewriteResponse:
    """The broker's answer leaves as `body` (the version of the exchange)."""

    body: Body


@dataclass(frozen=True, slots=True)
class Close:
    """Close the client's connection with FIN, after `after_bytes` bytes of the step at hand, as Reset does."""

    after_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """Close the client's connection with RST, after `after_bytes` bytes (length prefix included) of the step at hand.

    On a request those bytes go to the broker, on a response to the client; None sends none of them.
    """

    after_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Mute:
    """On a response, not terminal: once the answer has left, requests of this connection wait for `for_us`."""

    for_us: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """On a request, not terminal: what is forwarded goes to the broker `copies` times more, right behind.

    The client gets the answer to the first; those to the copies are thrown away. With `partitions` the copies have no
    other ones.
    """

    copies: int = 1
    partitions: frozenset[PartitionKey] | None = None


@dataclass(frozen=True, slots=True)
class AnswerRaw:
    """These bytes, length prefix included, go to the client in place of the answer, in its turn.

    On a request nothing reaches the broker. With `close_after` the connection is closed (FIN) behind them, else it
    stays open and nothing more is sent.
    """

    data: bytes
    close_after: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Standing, of a listener: its port refuses new connections (RST in answer to SYN)."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Standing, of a listener or a connection: a black hole, as where a firewall drops every packet.

    A listener leaves SYNs unanswered. A connection neither reads nor writes, without FIN or RST; with
    `drop_packets` the client's bytes aren't even acknowledged. When it is lifted: `discard` resets the connection,
    `immediate` goes on where it stopped, `delayed` does so after `release_delay_us` more (a TCP retransmission).
    """

    drop_packets: bool = True
    release: Literal["discard", "immediate", "delayed"] = "immediate"
    release_delay_us: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """Standing, of a connection: how bytes flow in one direction; several shapes apply one after the other.

    At most `bytes_per_s`; in pieces of `slice_bytes` (each ± `slice_variation_bytes`, drawn by the transport) with
    `slice_delay_us` between them; no byte after the first `limit_bytes`, behind which the connection is closed. Of a
    response direction, `close_delay_us` is how much later than the broker the proxy closes the connection.
    """

    direction: Literal["request", "response"]
    bytes_per_s: int | None = None
    slice_bytes: int | None = None
    slice_variation_bytes: int = 0
    slice_delay_us: int = 0
    limit_bytes: int | None = None
    close_delay_us: int = 0


@dataclass(frozen=True, slots=True)
class Fail:
    """The broker refuses with `error_code`; the plan turns this into Answer, Forward or Close, never seen outside.

    `partitions` of None is the whole request, else the keys (`notleader.faults.answers.partition_key`) of those
    refused.
    """

    error_code: int
    partitions: frozenset[PartitionKey] | None = None


Action = Delay | Hold | Drop | Answer | AnswerRaw | Forward | Relay | RewriteResponse | Close | Reset | Mute | Duplicate
Standing = Refuse | Silence | Shape | Close | Reset
Outcome = Action | Fail | RewriteRequest
TERMINAL: tuple[type, ...] = (Drop, Answer, AnswerRaw, Forward, Relay, Close, Reset)
