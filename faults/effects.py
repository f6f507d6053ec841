"""What a hit did to its exchange, in the words of the capture: blame is read from these, not guessed from the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from notleader.faults.actions import (
    Answer,
    AnswerRaw,
    Close,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Forward,
    Hold,
    Mute,
    Outcome,
    PartitionKey,
    Refuse,
    Relay,
    Reset,
    RewriteRequest,
    RewriteResponse,
    Shape,
    Silence,
    Standing,
)
from notleader.faults.answers import partition_key
from notleader.proxy.wire.codec import Codec
from notleader.proxy.wire.partitions import OFFSET_ANSWERS, iter_partitions

Did = Literal[
    "answered",
    "altered_request",
    "altered_answer",
    "swallowed_request",
    "swallowed_answer",
    "held_request",
    "held_answer",
    "garbled",
    "cut",
    "repeated",
    "muted",
    "refused",
    "silenced",
    "shaped",
]
"""answered: in the broker's place. altered: the broker's own, changed. garbled: bytes that are no answer of Kafka's.
muted: later requests of the connection wait. refused, silenced, shaped: listeners and connections, by rules that
stand."""

_OF_REQUEST: Final[Mapping[type, Did]] = {
    Answer: "answered",
    AnswerRaw: "garbled",
    Fail: "answered",
    RewriteRequest: "altered_request",
    Forward: "altered_request",
    Relay: "altered_request",
    Drop: "swallowed_request",
    Delay: "held_request",
    Hold: "held_request",
    Duplicate: "repeated",
    Close: "cut",
    Reset: "cut",
}
_OF_ANSWER: Final[Mapping[type, Did]] = {
    AnswerRaw: "garbled",
    RewriteResponse: "altered_answer",
    Drop: "swallowed_answer",
    Delay: "held_answer",
    Hold: "held_answer",
    Mute: "muted",
    Close: "cut",
    Reset: "cut",
}
_STANDING: Final[Mapping[type, Did]] = {
    Refuse: "refused",
    Silence: "silenced",
    Shape: "shaped",
    Close: "cut",
    Reset: "cut",
}


WHOLE_TOPIC: Final = -1
"""The partition number of an entry that stands for its topic."""


class Effect(NamedTuple):
    """One thing that a rule did; `partitions` of None is the whole exchange, the number WHOLE_TOPIC is a topic as such.

    `error_code` is what the client is told because of this rule; None where the rule tells it no error. `held_us` is
    for how long this rule alone held the exchange, µs; None where it did not, or until something else happened.
    `offsets_before` has the offsets that ListOffsets or OffsetFetch named where this rule has them name another.
    """

    did: Did
    error_code: int | None = None
    partitions: frozenset[PartitionKey] | None = None
    held_us: int | None = None
    offsets_before: tuple[tuple[PartitionKey, int], ...] = ()


def of_request(
    outcomes: Iterable[Outcome], partitions: frozenset[PartitionKey] | None, topics: Iterable[str] = ()
) -> tuple[Effect, ...]:
    """What these outcomes do to a request, of which the rule means `partitions`, and `topics` as wholes."""
    effects = []
    for outcome in outcomes:
        if isinstance(outcome, Fail):
            chosen = partitions if outcome.partitions is None else outcome.partitions
            if chosen is not None:
                chosen |= {(topic, WHOLE_TOPIC) for topic in topics}
            effects.append(Effect("answered", int(outcome.error_code), chosen))
        elif isinstance(outcome, Answer):
            effects.append(Effect("answered", next(error_codes(outcome.body), None)))
        else:
            of_partitions = partitions if isinstance(outcome, RewriteRequest) else None
            effects.append(Effect(_OF_REQUEST[type(outcome)], None, of_partitions, _held_us(outcome)))
    return tuple(effects)


def of_answer(action: Outcome, codec: Codec, before: Any, partitions: frozenset[PartitionKey] | None) -> Effect:
    """What an action does to an answer that said `before`, of which the rule means `partitions`."""
    if isinstance(action, RewriteResponse):
        return altered(codec, before, action.body, partitions)
    return Effect(_OF_ANSWER[type(action)], held_us=_held_us(action))


def _held_us(action: Outcome) -> int | None:
    return action.delay_us if isinstance(action, Delay) else None


def altered(codec: Codec, before: Any, after: Any, partitions: frozenset[PartitionKey] | None = None) -> Effect:
    """An answer that said `before` says `after`; an error is this rule's only where there was none of that code.

    Its partitions are those of which it says something else. Where it does of none (a throttle time, a coordinator, a
    topic as a whole) they are the `partitions` that the rule meant in the request, all if it named none: a Metadata
    request names topics, and the partitions of one that nobody has asked for yet are in the answer alone.
    """
    added = Counter(error_codes(after)) - Counter(error_codes(before))
    one, other = (
        {partition_key(entry): entry.fields for entry in iter_partitions(codec, body)} for body in (before, after)
    )
    changed = frozenset(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    offset = OFFSET_ANSWERS.get(codec.api_key)
    moved = tuple(
        (key, one[key][offset])
        for key in sorted(changed & one.keys() & other.keys(), key=str)
        if offset in one[key] and one[key][offset] != other[key].get(offset)
    )
    return Effect("altered_answer", next(iter(added), None), changed or partitions or None, offsets_before=moved)


def standing(actions: Iterable[Standing]) -> tuple[Effect, ...]:
    """What a standing rule does to a listener or a connection."""
    return tuple(dict.fromkeys(Effect(_STANDING[type(action)]) for action in actions))


def error_codes(body: Any) -> Iterator[int]:
    """Every error code other than 0 in a decoded answer, in its order."""
    if isinstance(body, dict):
        if code := body.get("error_code"):
            yield int(code)
        for value in body.values():
            yield from error_codes(value)
    elif isinstance(body, list):
        for value in body:
            yield from error_codes(value)
