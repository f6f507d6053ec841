"""From exchanges to capture rows: pure, and called off the hot path.

A row is a tuple in the order of :data:`COLUMNS`; ``notleader.proxy.recorder.schema`` gives the same columns their
Parquet types, and a test compares both with what ``spark_analysis`` reads.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Final
from uuid import UUID

from notleader.faults.actions import PartitionKey
from notleader.faults.base import Connection
from notleader.faults.match import NAMING_FIELDS, groups_named, transactional_ids_named
from notleader.faults.plan import Hit
from notleader.proxy.pump import Exchange, Kept, Passing
from notleader.proxy.record.block import WHAT
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.redaction import NOTHING, ROW_FIELDS, Redaction
from notleader.proxy.record.skim import skim_request, skim_response, skimmed, told
from notleader.proxy.wire.codec import Body, Codec, is_known
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.partitions import OFFSET_ANSWERS, PartitionEntry, iter_topic_errors, speaks_of_partitions
from notleader.proxy.wire.records import Allowance, iter_batches, iter_records
from notleader.proxy.wire.schemas import Field
from notleader.proxy.wire.secret_fields import WHOLLY_SECRET, without_secrets
from notleader.proxy.wire.view import Request, Response

SCHEMA_VERSION: Final = 1
COLUMN_KINDS: Final = {
    "run_id": "string",
    "proxy_id": "string",
    "connection_id": "int64",
    "exchange_seq": "int64",
    "event": "string",
    "client_addr": "string",
    "listener": "string",
    "node_id": "int32",
    "client_id": "string",
    "client_software_name": "string",
    "client_software_version": "string",
    "principal": "string",
    "api_key": "int16",
    "api_name": "string",
    "api_version": "int16",
    "correlation_id": "int32",
    "request_at_us": "int64",
    "forwarded_at_us": "int64",
    "broker_responded_at_us": "int64",
    "response_at_us": "int64",
    "request_bytes": "int64",
    "response_bytes": "int64",
    "outcome": "string",
    "error_code": "int16",
    "throttle_time_ms": "int32",
    "fault_names": "strings",
    "fault_kinds": "strings",
    "fault_phase": "string",
    "effects": "effects",
    "seed": "int64",
    "transactional_id": "string",
    "group_id": "string",
    "acks": "int16",
    "partitions": "partitions",
    "detail": "string",
    "request_frame": "binary",
    "response_frame": "binary",
}
"""The columns and what is in them."""
COLUMNS: Final = tuple(COLUMN_KINDS)
PARTITION_KINDS: Final = {
    "topic": "string",
    "topic_id": "string",
    "partition_index": "int32",
    "producer_id": "int64",
    "producer_epoch": "int16",
    "base_sequence": "int32",
    "record_count": "int32",
    "batch_bytes": "int64",
    "compression": "string",
    "base_offset": "int64",
    "error_code": "int16",
    "leader_epoch": "int32",
    "message_ids": "strings",
    "key_hashes": "int64s",
}
PARTITION_FIELDS: Final = tuple(PARTITION_KINDS)
# Of AddPartitionsToTxn and ShareFetch the last two. What CreateTopics says of configurations it can't show is none.
_ERROR_FIELDS: Final = ("error_code", "partition_error_code", "acknowledge_error_code")
MESSAGE_ID_HEADER: Final = "notleader-id"

Row = tuple[Any, ...]
PartitionRow = dict[str, Any]


API_NAMES: Final = {int(key): key.name for key in ApiKey}
_NO_FAULTS: Final[tuple[list[str], list[str], None, None]] = ([], [], None, None)
_NO_ID: Final = bytes(16)
_MOST_TOPICS: Final = 100_000
PARTITIONS: Final = COLUMNS.index("partitions")
WHAT_PLACES: Final = tuple(map(COLUMNS.index, WHAT))


def gap_row(run_id: str, proxy_id: str, seed: int, detail: str, first_us: int | None, last_us: int | None) -> Row:
    """A row of event `gap`: `detail` says how many rows are missing and why, the request's and the answer's
    time when the first and the last of them happened.
    """
    values: dict[str, Any] = {
        "run_id": run_id,
        "proxy_id": proxy_id,
        "event": "gap",
        "request_at_us": first_us,
        "response_at_us": last_us,
        "fault_names": [],
        "fault_kinds": [],
        "seed": seed,
        "detail": detail,
    }
    return tuple(map(values.get, COLUMNS))


class Level(StrEnum):
    """How much of each exchange is kept."""

    HEADER = "header"
    PARTITION = "partition"
    RECORD = "record"
    PAYLOAD = "payload"

    @property
    def reads_bodies(self) -> bool:
        return self is not Level.HEADER

    @property
    def reads_records(self) -> bool:
        return self in (Level.RECORD, Level.PAYLOAD)

    @property
    def keeps_frames(self) -> bool:
        return self is Level.PAYLOAD


class TopicIds:
    """Names of topic ids, as far as Metadata has told them, and their text."""

    def __init__(self, topic_name: Any = None) -> None:
        self.name = topic_name or (lambda topic_id: None)
        self._known: dict[bytes, tuple[str, str]] = {}
        self._nameless: dict[bytes, tuple[UUID, str]] = {}  # Metadata may tell their names yet

    def of(self, topic_id: bytes) -> tuple[str | None, str | None]:
        """Name and text of sixteen bytes; None for a name that is not known, twice None for no id."""
        if topic_id == _NO_ID:
            return None, None
        known = self._known.get(topic_id)
        if known is not None:
            return known
        nameless = self._nameless.get(topic_id)
        if nameless is None:
            uuid = UUID(bytes=topic_id)
            nameless = uuid, str(uuid)
            if len(self._nameless) < _MOST_TOPICS:
                self._nameless[topic_id] = nameless
        uuid, text = nameless
        name = self.name(uuid)
        if name is not None and len(self._known) < _MOST_TOPICS:
            self._known[topic_id] = name, text
        return name, text


class Rows:
    """Makes the rows of one run of one proxy.

    ``topic_name`` gives a topic id's name as far as Metadata has told them (``notleader.faults.cluster``).
    """

    def __init__(
        self,
        run_id: str,
        proxy_id: str,
        seed: int,
        level: Level,
        topic_name: Any = None,
        redaction: Redaction = NOTHING,
    ) -> None:
        self.run_id = run_id
        self.proxy_id = proxy_id
        self._identity = (run_id, proxy_id)
        self.seed = seed
        self.level = level
        self.topics = TopicIds(topic_name)
        self.redaction = redaction
        self.lost_frames = 0
        """Frames that a row should have had, but were larger than what may be kept."""
        self._allowance = Allowance(0)  # of one row: what reading its records may cost
        self._reads_bodies = level.reads_bodies
        self._reads_records = level.reads_records
        self._keeps_frames = level.keeps_frames

    def of(self, entry: Exchange | ConnectionEvent) -> Row:
        """The row of a finished exchange or a connection event."""
        if isinstance(entry, ConnectionEvent):
            row = self._event(entry)
        else:
            self._allowance = Allowance(entry.request_bytes + entry.response_bytes)
            row = self._exchange(entry)
        return self._redacted(row) if self.redaction else row

    def _redacted(self, row: Row) -> Row:
        values = dict(zip(COLUMNS, row, strict=True))
        hidden = {name: self.redaction.field(name, values[name]) for name in ROW_FIELDS}
        hidden["partitions"] = self.redaction.partitions(values["partitions"])
        hidden["request_frame"], hidden["response_frame"] = self.redaction.frames(
            values["request_frame"], values["response_frame"], values, self.topics.name
        )
        return tuple((values | hidden).values())

    def gap(self, detail: str, first_us: int, last_us: int) -> Row:
        """The row that says what is missing here."""
        return gap_row(self.run_id, self.proxy_id, self.seed, detail, first_us, last_us)

    def _event(self, entry: ConnectionEvent) -> Row:
        names, kinds, phase, effects = _faults(entry.hits, None)
        return (
            *self._identity,
            None if entry.connection is None else entry.connection.connection_id,
            None,
            entry.event,
            *_who(entry.connection),
            *(None,) * 4,
            entry.at_us,
            *(None,) * 8,
            names,
            kinds,
            phase,
            effects,
            self.seed,
            *(None,) * 4,
            entry.detail,
            None,
            None,
        )

    def _exchange(self, exchange: Exchange) -> Row:
        connection = exchange.connection
        facts = _NOTHING_READ
        if exchange.request is not None and self._reads_bodies:
            facts = self._facts(exchange)
        names, kinds, phase, effects = _faults(exchange.hits, facts.partitions) if exchange.hits else _NO_FAULTS
        request_frame = response_frame = None
        detail = facts.detail
        if self._keeps_frames:
            frames = _kept(exchange.request), _kept(exchange.response)
            request_frame, response_frame = without_secrets(exchange.api_key, exchange.api_version, *frames)
            if (request_frame, response_frame).count(None) > frames.count(None):
                detail = detail or "frames left out: they hold secrets that can't be hidden one by one"
        return (
            self.run_id,
            self.proxy_id,
            connection.connection_id,
            exchange.seq,
            "exchange",
            connection.client_addr,
            connection.listener,
            connection.node_id,
            exchange.client_id or connection.client_id,
            connection.client_software_name,
            connection.client_software_version,
            connection.principal,
            exchange.api_key,
            API_NAMES.get(exchange.api_key) or f"Unknown({exchange.api_key})",
            exchange.api_version,
            exchange.correlation_id,
            exchange.request_at_us,
            exchange.forwarded_at_us or None,
            exchange.broker_responded_at_us or None,
            exchange.response_at_us or None,
            exchange.request_bytes,
            exchange.response_bytes,
            exchange.outcome,
            facts.error_code,
            facts.throttle_time_ms,
            names,
            kinds,
            phase,
            effects,
            self.seed,
            facts.transactional_id,
            facts.group_id,
            facts.acks,
            facts.partitions,
            detail,
            request_frame,
            response_frame,
        )

    def _facts(self, exchange: Exchange) -> "_Facts":
        """What the bodies say."""
        facts = _Facts()
        if not self._skim(exchange, facts):
            if isinstance(exchange.request, Passing) or isinstance(exchange.response, Passing):
                facts.detail = "body not read: too large to be kept"
            else:
                self._read(exchange, facts)
        if self._keeps_frames and (lost := _too_large(exchange)):
            self.lost_frames += len(lost)
            facts.detail = facts.detail or f"too large to be kept: the frame of the {' and of the '.join(lost)}"
        return facts

    def _skim(self, exchange: Exchange, facts: "_Facts") -> bool:
        """Fill ``facts`` from what was told of a frame that passed; False where both are here, to be decoded."""
        api_key, version = exchange.api_key, exchange.api_version
        request, response = exchange.request, exchange.response
        passed = isinstance(request, Passing) or isinstance(response, Passing)
        if not passed:
            return False
        assert request is not None
        asked = skimmed(request) if isinstance(request, Passing) else skim_request(api_key, version, _frame(request))
        if response is None or isinstance(response, Passing):
            answered = None if response is None else skimmed(response)
        else:
            answered = skim_response(api_key, version, _frame(response))
        if asked is None or (answered is None and exchange.response is not None):
            return False
        facts.transactional_id = asked.transactional_id
        facts.acks = asked.acks
        if answered is not None:
            facts.error_code = answered.error_code
            facts.throttle_time_ms = answered.throttle_time_ms
        facts.partitions = []
        for name, topic_id, index, producer_id, epoch, compression, error, leader_epoch, *numbers in told(
            asked, answered
        ):
            known, text = (None, None) if topic_id is None else self.topics.of(topic_id)
            row: PartitionRow = dict.fromkeys(PARTITION_FIELDS)
            row["topic"] = name or known
            row["topic_id"] = text
            row["partition_index"] = index
            row["producer_id"], row["producer_epoch"], row["compression"] = producer_id, epoch, compression
            row["error_code"], row["leader_epoch"] = error, leader_epoch
            row["base_sequence"], row["record_count"], row["batch_bytes"], row["base_offset"] = numbers
            facts.partitions.append(row)
        facts.partitions = facts.partitions or None
        return True

    def _read(self, exchange: Exchange, facts: "_Facts") -> None:
        """Fill ``facts`` from the bodies; what can't be decoded is said in ``detail``."""
        if not is_known(exchange.api_key, exchange.api_version):
            facts.detail = "version not known to this build: bodies not read"
            return
        entries: dict[Any, PartitionRow] = {}
        try:
            assert exchange.request is not None
            request = Request(_frame(exchange.request))
            leading = _leading_request(request.codec)
            if leading is not None:
                body, _ = leading.decode_some(request.frame, request.header.body_offset)
            else:
                body = request.body
            # The only ones that it names, wherever its version has them.
            facts.transactional_id = body.get("transactional_id")
            if facts.transactional_id is None:
                facts.transactional_id = _only(transactional_ids_named(exchange.api_key, body))
            facts.group_id = body.get("group_id")
            if facts.group_id is None:
                facts.group_id = _only(groups_named(exchange.api_key, body))
            facts.acks = body.get("acks")
            facts.detail = body.get("reason") or None  # why a member joins or leaves (KIP-800)
            if leading is None:
                for entry in request.partitions:
                    row = entries[_key(entry)] = self._partition(entry)
                    if exchange.api_key == ApiKey.Produce:
                        self._batches(row, entry.fields["records"], facts)
                        row["base_offset"] = None
            if exchange.response is not None:
                response = Response(_frame(exchange.response), request)
                brief = _leading_response(response.codec)
                if brief is not None:
                    body, _ = brief.decode_some(response.frame, response.body_offset)
                    facts.throttle_time_ms = body.get("throttle_time_ms")
                    facts.error_code = body["error_code"]
                else:
                    self._read_response(exchange, response, entries, facts)
        except WireError as error:
            facts.detail = f"body not read: {error.reason}"
        # What was asked stays known where the answer can't be read: a fault may have made it nonsense.
        facts.partitions = list(entries.values()) or None

    def _read_response(
        self,
        exchange: Exchange,
        response: Response,
        entries: dict[Any, PartitionRow],
        facts: "_Facts",
    ) -> None:
        body = response.body
        facts.throttle_time_ms = body.get("throttle_time_ms")
        error = body.get("error_code", 0)
        for entry in response.partitions:
            fields = entry.fields
            row = entries.get(_key(entry))
            if row is None:
                row = entries[_key(entry)] = self._partition(entry)
            code = fields.get("error_code")
            if code is None:
                code = fields.get("partition_error_code")
            if code is None:
                code = entry.topic_fields.get("error_code")
            row["error_code"] = code
            error = error or code or 0
            if exchange.api_key == ApiKey.Produce:
                row["base_offset"] = fields["base_offset"]
            elif exchange.api_key == ApiKey.Fetch:
                self._batches(row, fields["records"], facts)
            elif exchange.api_key in OFFSET_ANSWERS:
                row["base_offset"] = fields.get(OFFSET_ANSWERS[exchange.api_key])
            epoch = _leader_epoch(fields)
            if epoch is not None and (row["leader_epoch"] is None or row["leader_epoch"] < 0):
                row["leader_epoch"] = epoch
        if topics := list(iter_topic_errors(response.codec, body)):
            named = {row["topic"] for row in entries.values()}
            for topic, code in topics:
                if topic not in named:
                    row = entries[topic, None] = dict.fromkeys(PARTITION_FIELDS)
                    row["topic"], row["error_code"] = topic, code
        if not error:
            error = first_error(body)
        facts.error_code = error

    def _partition(self, entry: PartitionEntry) -> PartitionRow:
        row: PartitionRow = dict.fromkeys(PARTITION_FIELDS)
        topic_id = entry.topic_id
        row["topic"] = entry.topic or (self.topics.name(topic_id) if topic_id is not None else None)
        row["topic_id"] = str(topic_id) if topic_id is not None and topic_id.int else None
        row["partition_index"] = entry.partition_index
        row["leader_epoch"] = entry.fields.get("current_leader_epoch")
        row["base_offset"] = entry.fields.get("committed_offset")  # what an OffsetCommit wants kept
        return row

    def _batches(self, row: PartitionRow, records: Any, facts: "_Facts") -> None:
        """What the record batches of one partition say about themselves."""
        if records is None:
            return
        count = 0
        is_counted = True
        first = None
        try:
            for batch in iter_batches(records):
                first = first or batch
                count += batch.record_count
                is_counted &= batch.magic >= 2 or batch.record_count >= 0
        except WireError as error:
            # What the broker says of it is told all the same.
            facts.detail = facts.detail or f"batches not read: {error.reason}"
            is_counted = False
        # A compressed message of the formats before v2 doesn't say how many are in it.
        row["record_count"] = count if is_counted else None
        row["batch_bytes"] = len(records)
        if first is None:
            return
        if first.magic >= 2:
            row["producer_id"] = first.producer_id
            row["producer_epoch"] = first.producer_epoch
            row["base_sequence"] = first.base_sequence
        row["compression"] = first.compression
        row["base_offset"] = first.base_offset
        if self._reads_records:
            try:
                row["message_ids"], row["key_hashes"] = self._records(records)
            except WireError as error:
                facts.detail = facts.detail or f"records not read: {error.reason}"

    def _records(self, records: Any) -> tuple[list[str | None], list[int | None]]:
        """Message ids and key hashes, one of each per record."""
        ids: list[str | None] = []
        keys: list[int | None] = []
        for record in iter_records(records, allowance=self._allowance):
            if record.batch.is_control:
                continue
            ids.append(_message_id(record.headers))
            keys.append(None if record.key is None else zlib.crc32(record.key))
        return ids, keys


class _Facts:
    """What the bodies of one exchange add to its row."""

    __slots__ = (
        "acks",
        "detail",
        "error_code",
        "group_id",
        "partitions",
        "throttle_time_ms",
        "transactional_id",
    )

    def __init__(self) -> None:
        self.acks: int | None = None
        self.detail: str | None = None
        self.error_code: int | None = None
        self.group_id: str | None = None
        self.partitions: list[PartitionRow] | None = None
        self.throttle_time_ms: int | None = None
        self.transactional_id: str | None = None


_NOTHING_READ: Final = _Facts()


def _who(connection: Connection | None, client_id: str | None = None) -> tuple[Any, ...]:
    """The columns client_addr to principal."""
    if connection is None:
        return (None,) * 7
    return (
        connection.client_addr,
        connection.listener,
        connection.node_id,
        client_id or connection.client_id,
        connection.client_software_name,
        connection.client_software_version,
        connection.principal,
    )


def _only(names: Iterator[str]) -> str | None:
    """The name that all of them are; None without one, and of several."""
    found = set(names)
    return found.pop() if len(found) == 1 else None


@cache
def _leading_request(codec: Codec) -> Codec | None:
    """The beginning of a request that has all a row needs; None where only the whole has it."""
    names = [field.name for field in codec.fields]
    if speaks_of_partitions(codec) or "reason" in names:
        return None
    wanted = [place for place, name in enumerate(names, 1) if name == "acks" or name in NAMING_FIELDS]
    return codec.leading(max(wanted, default=0))


@cache
def _leading_response(codec: Codec) -> Codec | None:
    """The beginning of an answer up to its error code; None where errors, or partitions, come further inside."""
    names = [field.name for field in codec.fields]
    if speaks_of_partitions(codec) or "error_code" not in names or any(map(_has_errors, codec.fields)):
        return None
    wanted = [place for place, name in enumerate(names, 1) if name in ("throttle_time_ms", "error_code")]
    return codec.leading(max(wanted))


def _has_errors(field: Field) -> bool:
    return any(inner.name in _ERROR_FIELDS or _has_errors(inner) for inner in field.fields)


def _faults(
    hits: Iterable[Hit], partitions: list[PartitionRow] | None
) -> tuple[list[str], list[str], str | None, list[dict[str, Any]] | None]:
    names: list[str] = []
    kinds: list[str] = []
    effects: list[dict[str, Any]] = []
    phase = None
    for hit in hits:
        names.append(hit.rule_name)
        kinds.append(hit.kind)
        phase = phase or hit.phase
        who = {"rule": hit.rule_name, "kind": hit.kind}
        for did, code, chosen, held_us, before in hit.effects:
            places = _places(chosen, partitions)
            effects.append(
                {
                    **who,
                    "did": did,
                    "error_code": code,
                    "partitions": places,
                    "held_us": held_us,
                    "offsets_before": _offsets(before, places or (), partitions or ()) if before else None,
                }
            )
    return names, kinds, phase, effects or None


def _places(chosen: Iterable[PartitionKey] | None, partitions: list[PartitionRow] | None) -> list[int] | None:
    """Where in the row's partitions those stand that an effect was on; None for the whole exchange."""
    if chosen is None:
        return None
    keys: set[tuple[str | None, int | None]] = {(str(topic), index) for topic, index in chosen}
    keys |= {(topic, None) for topic, _ in keys}  # where an answer speaks of the topic alone
    return [place for place, row in enumerate(partitions or ()) if not keys.isdisjoint(_keys(row))]


def _keys(row: PartitionRow) -> tuple[tuple[str, int], ...]:
    """How an effect may call a row's partition: by name, or by the topic's id."""
    return (row["topic"], row["partition_index"]), (row["topic_id"], row["partition_index"])


def _offsets(
    before: Iterable[tuple[PartitionKey, int]], places: Iterable[int], partitions: Sequence[PartitionRow]
) -> list[int | None]:
    """What was said of each of `places` before; None where the offset is as it was."""
    said = {(str(topic), index): offset for (topic, index), offset in before}
    return [next((said[key] for key in _keys(partitions[place]) if key in said), None) for place in places]


def _kept(frame: Kept) -> bytes | None:
    return None if frame is None or isinstance(frame, Passing) else _frame(frame)


def _frame(frame: Kept) -> bytes:
    assert frame is not None
    assert not isinstance(frame, Passing)
    if isinstance(frame, bytes):
        return frame
    return b"".join(frame) if isinstance(frame, list) else bytes(frame)


def _too_large(exchange: Exchange) -> list[str]:
    """Which of its frames went by without being kept; what is nothing but a secret never is."""
    if exchange.api_key in WHOLLY_SECRET:
        return []
    frames = (("request", exchange.request), ("answer", exchange.response))
    return [name for name, kept in frames if isinstance(kept, Passing)]


def _leader_epoch(answered: Body) -> int | None:
    """The epoch that an answer tells of a partition; who refuses it may name the leader (KIP-951)."""
    epoch: int | None = answered.get("leader_epoch")
    if epoch is None and (leader := answered.get("current_leader")) and leader["leader_epoch"] >= 0:
        epoch = leader["leader_epoch"]
    return epoch


def _key(entry: PartitionEntry) -> tuple[Any, int]:
    """What pairs a partition of the request with the one of the answer."""
    topic: Any = entry.topic or entry.topic_id
    return topic, entry.partition_index


def first_error(body: Any) -> int:
    """The first error anywhere in a decoded answer, 0 where all is well."""
    if isinstance(body, dict):
        for name in _ERROR_FIELDS:
            if code := body.get(name):
                return int(code)
        return next((found for value in body.values() if (found := first_error(value))), 0)
    if isinstance(body, list):
        return next((found for value in body if (found := first_error(value))), 0)
    return 0


def _message_id(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    for key, value in headers:
        if key == MESSAGE_ID_HEADER and value is not None:
            return bytes(value).decode("utf-8", "replace")
    return None
