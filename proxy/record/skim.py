"""The few facts a capture row needs of Produce and Fetch, taken by a probe without decoding the rest. Pure.

These two are nearly all of the traffic; a full decode costs ten times as much. A test compares every version with what
the codecs say.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from notleader.proxy.pump import Passing, Probe
from notleader.proxy.wire.compression import compression_name
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.probe import FACTS_APIS, NOTHING, ROW_PLACES, Frame, Row, facts_program
from notleader.proxy.wire.schemas import Direction

COMPRESSIONS: Final = tuple(map(compression_name, range(8)))
SKIMMED: Final = FACTS_APIS
_UUID_BYTES: Final = 16

Buffer = bytes | memoryview


class Batches(NamedTuple):
    """What the record batches of one partition say about themselves; of the first one, but for the sums."""

    record_count: int
    batch_bytes: int
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    compression: str | None = None
    base_offset: int | None = None


# topic name, topic id (16 bytes), partition index, error code, base offset, leader epoch, records or None
Part = tuple[str | None, bytes | None, int, int | None, int | None, int | None, Batches | None]


class Skimmed(NamedTuple):
    """What a body says; ``parts`` in wire order."""

    parts: list[Part]
    transactional_id: str | None = None
    acks: int | None = None
    error_code: int = 0
    throttle_time_ms: int | None = None


def skimmed(frame: Passing) -> Skimmed | None:
    """What a frame said that was not kept; None until its end, and where it can't be told."""
    if frame.said is None and frame.probe is not None and frame.probe.ended:
        frame.said = said_by(frame.probe, produces=False, answers=False)
    said: Any = frame.said
    return said if isinstance(said, Skimmed) else None


def told_error(error_code: int) -> Passing:
    """Stands for both frames of an exchange of which nothing else may be told."""
    return Passing(said=Skimmed([], error_code=error_code))


def skim_request(api_key: int, version: int, request: Buffer) -> Skimmed | None:
    """A request, skimmed; None for other APIs, and for what has to be decoded in full."""
    return _skim(api_key, version, "request", request)


def skim_response(api_key: int, version: int, response: Buffer) -> Skimmed | None:
    """An answer, likewise."""
    return _skim(api_key, version, "response", response)


def _skim(api_key: int, version: int, direction: Direction, frame: Buffer) -> Skimmed | None:
    code = facts_program(api_key, version, direction)
    if code is None:
        return None
    probe = Probe(code, len(frame))
    probe.feed(frame)
    return said_by(probe, produces=api_key == ApiKey.Produce, answers=direction == "response")


def said_by(probe: Probe, *, produces: bool, answers: bool) -> Skimmed | None:
    """What a probe of a Produce or Fetch has found; None where that isn't all, or a number is our word for none."""
    if not probe.is_good:
        return None
    text, numbers, frame = bytes(probe.text), probe.rows.tolist(), probe.frame
    parts: list[Part] = []
    error = frame[Frame.ERROR_CODE] if frame[Frame.ERROR_CODE] != NOTHING else 0
    for start in range(0, len(numbers), ROW_PLACES):
        row = numbers[start : start + ROW_PLACES]
        if produces and answers and row[Row.BASE_OFFSET] == NOTHING:
            return None
        records = None
        if row[Row.RECORDS_BYTES] != NOTHING:
            records = Batches(row[Row.RECORD_COUNT], row[Row.RECORDS_BYTES])
            if row[Row.ATTRIBUTES] != NOTHING:
                if NOTHING in (row[Row.PRODUCER_ID], row[Row.FIRST_OFFSET]):
                    return None
                who = row[Row.PRODUCER_ID], row[Row.PRODUCER_EPOCH], row[Row.BASE_SEQUENCE]
                records = Batches(*records[:2], *who, COMPRESSIONS[row[Row.ATTRIBUTES] & 7], row[Row.FIRST_OFFSET])
        name, topic_id = row[Row.NAME], row[Row.TOPIC_ID]
        code, offset, epoch = (_some(row[place]) for place in (Row.ERROR_CODE, Row.BASE_OFFSET, Row.LEADER_EPOCH))
        error = error or code or 0
        parts.append(
            (
                None if name == NOTHING else _text(text, name, row[Row.NAME_BYTES]),
                None if topic_id == NOTHING else text[topic_id : topic_id + _UUID_BYTES],
                row[Row.INDEX],
                code,
                offset,
                epoch,
                records,
            )
        )
    at = frame[Frame.TRANSACTIONAL_ID]
    return Skimmed(
        parts,
        None if at == NOTHING else _text(text, at, frame[Frame.TRANSACTIONAL_ID_BYTES]),
        _some(frame[Frame.ACKS]),
        error,
        _some(frame[Frame.THROTTLE_TIME_MS]),
    )


def _some(number: int) -> int | None:
    return None if number == NOTHING else number


def _text(text: bytes, start: int, size: int) -> str | None:
    return None if size < 0 else str(text[start : start + size], "utf-8", "surrogateescape")


# What one partition of an exchange comes to: topic, topic id, index, producer id and epoch, compression, error code,
# leader epoch; base sequence, number of records, their bytes, base offset.
PartitionFacts = list[Any]
_NO_RECORDS: Final = (None, None, None, None)


def told(asked: Skimmed, answered: Skimmed | None) -> list[PartitionFacts]:
    """Request and answer brought together, partition by partition."""
    if not asked.parts and (answered is None or not answered.parts):
        return []
    found: dict[Any, PartitionFacts] = {}
    for name, topic_id, index, _, _, epoch, records in asked.parts:
        found[name or topic_id, index] = one = [name, topic_id, index, None, None, None, None, epoch, *_NO_RECORDS]
        if records is not None:
            one[9], one[10], one[3], one[4], one[8], one[5], _ = records  # the offset is the client's own count
    for name, topic_id, index, error, offset, epoch, records in answered.parts if answered is not None else ():
        one = found.get((name or topic_id, index))  # type: ignore[assignment]
        if one is None:
            found[name or topic_id, index] = one = [name, topic_id, index, None, None, None, None, epoch, *_NO_RECORDS]
        one[6] = error
        asked_epoch: Any = one[7]
        if epoch is not None and (asked_epoch is None or asked_epoch < 0):
            one[7] = epoch
        if offset is not None:
            one[11] = offset
        if records is not None:
            one[9], one[10] = records[:2]
            if records.compression is not None:  # there is a batch
                one[3], one[4], one[8], one[5], one[11] = records[2:]
    return list(found.values())
