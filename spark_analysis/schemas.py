"""The columns of every table, declared once: what is read, what passes between transforms, what is written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

SCHEMA_VERSION = 1
"""Of the tables that the analysis writes: raised with each change of their columns."""


class SchemaError(Exception):
    """A table that lacks columns or has them in another type; the message is one line for the user."""


class Told(NamedTuple):
    """What a column says, when it is null ("" for never), its words where these are few, the version it came with."""

    says: str
    null: str = ""
    words: Mapping[str, str] = {}
    since: int = 1


_TOLD: dict[int, dict[str, Told]] = {}


def _struct(*fields: tuple[str, DataType] | tuple[str, DataType, Told]) -> StructType:
    made = StructType([StructField(name, kind, True) for name, kind, *_ in fields])
    # Not as the fields' metadata: that would go through every plan.
    _TOLD[id(made)] = {name: told[0] for name, _, *told in fields if told}
    return made


def told_of(struct: StructType) -> Mapping[str, Told]:
    """What is said of the columns of one of the structs of this module, by their names."""
    return _TOLD[id(struct)]


_STRING, _LONG, _INT, _SHORT, _BOOL = StringType(), LongType(), IntegerType(), ShortType(), BooleanType()
_STRINGS = ArrayType(_STRING, True)

# In whose words `did` speaks: `notleader.faults.effects`.
_DID = {
    "answered": "the proxy answered in the broker's place, with `error_code`",
    "altered_request": "the request was changed; `error_code` is there where the client is told one because of it",
    "altered_answer": "the answer was changed; `error_code` as above",
    "swallowed_request": "it never arrived",
    "swallowed_answer": "it never arrived; the row has what the broker had said, its offset too",
    "held_request": "it waited until `forwarded_at_us`; so do those whose bytes `bandwidth` or `slice` slow down",
    "held_answer": "it waited from `broker_responded_at_us` until `response_at_us`",
    "garbled": "bytes that are no answer of Kafka's",
    "cut": "the connection was closed or reset",
    "repeated": "the broker got it more than once",
    "muted": "later requests of the connection waited",
    "refused": "a listener took no connection, by a rule that stands; a row of event `fault`",
    "silenced": "a listener or connection was silent, by a rule that stands; a row of event `fault`",
    "shaped": "a connection's bytes are slowed down, by a rule that stands; a row of event `fault`",
}
_EVENTS = {
    "exchange": "a request and what became of it",
    "connect": "a client connected; `detail` has the listener",
    "disconnect": "a connection ended, or before that its client closed its side; `detail` says how",
    "wire_error": "bytes that are none of Kafka's, or a TLS handshake that failed; `detail` says why",
    "fault": "a rule took a connection or a listener, or let it go",
    "mark": "a label that was set through `POST /v1/capture`",
    "gap": "rows are missing here; `detail` says how many and why",
}
_EXCHANGE_OUTCOMES = {
    "answered": "by the broker, and its answer passed as it was",
    "injected": "answered in the broker's place",
    "altered": "a rule changed the request or the answer",
    "dropped": "a rule swallowed the request or the answer",
    "closed": "a rule closed the connection over it, or the answer broke off in the middle",
    "no_response": "nothing came back; so ends every Produce with `acks=0`",
}
_PHASES = {
    "before_broker": "the request",
    "after_broker": "the broker's answer",
    "connection": "the connection",
}
_COMPRESSIONS = dict.fromkeys(("none", "gzip", "snappy", "lz4", "zstd"), "")
_BELOW_RECORD = "below level `record`; without batches"
_NO_BATCH = "without a batch; at level `header`"

PARTITION = _struct(
    ("topic", _STRING, Told("its name", "only the id was on the wire and nobody has told its name")),
    ("topic_id", _STRING, Told("its id, as a UUID", "not in this version of the request")),
    ("partition_index", _INT, Told("Kafka's number of the partition", "the topic was answered as a whole")),
    ("producer_id", _LONG, Told("the first batch's; -1: not idempotent", "without a batch; message formats before v2")),
    ("producer_epoch", _SHORT, Told("the first batch's; -1: not idempotent", "as `producer_id`")),
    ("base_sequence", _INT, Told("the first batch's; -1: not idempotent", "as `producer_id`")),
    ("record_count", _INT, Told("records in all batches", "as `batch_bytes`; compressed before format v2")),
    (
        "batch_bytes",
        _LONG,
        Told("all batches as they were sent, compressed", "neither Produce nor Fetch, or no records field came"),
    ),
    ("compression", _STRING, Told("the first batch's", "without a batch", _COMPRESSIONS)),
    (
        "base_offset",
        _LONG,
        Told(
            "of a Produce what the answer said (-1: refused), of a Fetch the first batch's, of OffsetCommit,"
            " OffsetFetch and ListOffsets the offset in question",
            "nobody said one",
        ),
    ),
    (
        "error_code",
        _SHORT,
        Told("the answer's code for this partition, 0 for none", "it has none, or there was no answer"),
    ),
    (
        "leader_epoch",
        _INT,
        Told("the request's current leader epoch; where it has none, or -1, the answer's", "not on the wire"),
    ),
    ("message_ids", _STRINGS, Told("of each record its header `notleader-id`; null for one without", _BELOW_RECORD)),
    (
        "key_hashes",
        ArrayType(_LONG, True),
        Told("of each record the CRC-32 of its key; null without key", _BELOW_RECORD),
    ),
)

_HELD = Told("how long this rule alone held it", "it did not, or until something else happened")
EFFECT = _struct(
    ("rule", _STRING, Told("the rule's name")),
    ("kind", _STRING, Told("the kind of its fault")),
    ("did", _STRING, Told("what it did", "", _DID)),
    ("error_code", _SHORT, Told("what the client is told because of it", "no error")),
    ("partitions", ArrayType(_INT, True), Told("places in the row's own `partitions`, from 0", "the whole exchange")),
    ("held_us", _LONG, _HELD),
    (
        "offsets_before",
        ArrayType(_LONG, True),
        Told(
            "of ListOffsets and OffsetFetch the offset that was named before of each of these `partitions`; null of one"
            " whose offset is as it was",
            "no offset was changed",
        ),
    ),
)

# What a rule did to one partition of an exchange.
TOUCH = _struct(
    ("rule", _STRING, Told("the rule's name")),
    ("kind", _STRING, Told("the kind of its fault")),
    (
        "did",
        _STRING,
        Told(
            "what it did, in the words of the capture's `effects`, `throttled`: told the client to wait, and no more,"
            " or `kept_behind`: unanswered behind an exchange of its connection that was swallowed, or held until that"
            " ended"
        ),
    ),
    ("error_code", _SHORT, Told("what the client is told because of it", "no error")),
    ("held_us", _LONG, _HELD),
)

CAUSE = _struct(
    ("rule", _STRING, Told("the rule's name")),
    ("kind", _STRING, Told("the kind of its fault")),
    (
        "how",
        _STRING,
        Told(
            "over which link it reached the operation",
            "",
            {
                "own": "on its own attempt",
                "behind": "an exchange before it on its connection",
                "broker": "an unanswered request to its broker",
                "partition": "an earlier batch of its partition",
                "told": "another answer to its client",
                "call": "another send of the same call",
                "cut": "its client's connections",
                "read": "an error to what its client asked for, to read",
                "follows": "an earlier operation of its client that went wrong",
                "anybody": "a connection that was refused or silenced before it said whose it was",
                "unread": "called done, and never read from a connection that was cut or silenced",
            },
        ),
    ),
    (
        "did",
        _STRING,
        Told("what it did, in the words of the capture's `effects`, or `throttled`: told the client to wait"),
    ),
    ("error_code", _SHORT, Told("what the client was told because of it", "no error")),
    ("sure", _BOOL, Told("false: likely, and not seen on the operation's own exchanges")),
    ("weight_us", _LONG, Told("for how much of the operation's time the rule was in the way")),
)

_ONLY_EXCHANGE = "not an exchange"
# One row per exchange and per connection event, exactly as the proxy writes it. Times: µs since the epoch, UTC.
EXCHANGE = _struct(
    ("run_id", _STRING, Told("one run of a proxy, or of several that were told to share it")),
    ("proxy_id", _STRING, Told("the process")),
    ("connection_id", _LONG, Told("counts the process's client connections, from 1", "an event of no connection")),
    ("exchange_seq", _LONG, Told("counts the connection's requests, from 1", _ONLY_EXCHANGE)),
    ("event", _STRING, Told("what the row is about", "", _EVENTS)),
    ("client_addr", _STRING, Told("the client's address and port", "an event of no connection")),
    (
        "listener",
        _STRING,
        Told("the proxy's listener: `bootstrap`, or `broker-` and the node", "an event of no connection"),
    ),
    ("node_id", _INT, Told("the broker behind the listener", "`bootstrap`; an event of no connection")),
    ("client_id", _STRING, Told("Kafka's, of the request or of the connection", "it gave none, or not yet")),
    ("client_software_name", _STRING, Told("as ApiVersions 3 or newer tells it", "it didn't, or not yet")),
    ("client_software_version", _STRING, Told("as ApiVersions 3 or newer tells it", "it didn't, or not yet")),
    (
        "principal",
        _STRING,
        Told(
            "who authenticated: by SASL, where its mechanism says it in the open; else whom its TLS certificate names",
            "nobody, or unknown",
        ),
    ),
    ("api_key", _SHORT, Told("Kafka's number of the API", _ONLY_EXCHANGE)),
    ("api_name", _STRING, Told("its name; `Unknown(key)` for one that this build doesn't know", _ONLY_EXCHANGE)),
    ("api_version", _SHORT, Told("the request's version", _ONLY_EXCHANGE)),
    ("correlation_id", _INT, Told("the request's", _ONLY_EXCHANGE)),
    (
        "request_at_us",
        _LONG,
        Told("when the request was there, or the event happened; of a gap its beginning", "a gap of unknown time"),
    ),
    ("forwarded_at_us", _LONG, Told("when the request went on to the broker", "it didn't; " + _ONLY_EXCHANGE)),
    ("broker_responded_at_us", _LONG, Told("when the broker's answer was there", "there was none; " + _ONLY_EXCHANGE)),
    (
        "response_at_us",
        _LONG,
        Told("when the answer went on to the client; of a gap its end", "none did; an event but `gap`"),
    ),
    ("request_bytes", _LONG, Told("the frame's length as it came, its own length field included", _ONLY_EXCHANGE)),
    (
        "response_bytes",
        _LONG,
        Told("as `request_bytes`, of the answer, or of what was sent of it; 0 without one", _ONLY_EXCHANGE),
    ),
    ("outcome", _STRING, Told("what became of the request", _ONLY_EXCHANGE, _EXCHANGE_OUTCOMES)),
    (
        "error_code",
        _SHORT,
        Told(
            "the answer's own, or the first of a partition that is not 0; else 0", "no answer was read; level `header`"
        ),
    ),
    ("throttle_time_ms", _INT, Told("as the answer has it", "not in the answer, or none was read; level `header`")),
    ("fault_names", _STRINGS, Told("the rules that touched it; empty for none")),
    ("fault_kinds", _STRINGS, Told("their kinds, in the same order")),
    ("fault_phase", _STRING, Told("where the first of them struck", "none did", _PHASES)),
    (
        "effects",
        ArrayType(EFFECT, True),
        Told("what each of them did; no entry for an error of the broker's own", "none did"),
    ),
    ("seed", _LONG, Told("what the run's random decisions began with")),
    ("transactional_id", _STRING, Told("the only one that the request names", "none or several; level `header`")),
    ("group_id", _STRING, Told("the only one that the request names", "none or several; level `header`")),
    ("acks", _SHORT, Told("a Produce's: -1 (all), 0 or 1", "no Produce; level `header`")),
    (
        "partitions",
        ArrayType(PARTITION, True),
        Told("what was asked and answered of each partition", "none; level `header`"),
    ),
    (
        "detail",
        _STRING,
        Told("in words: of an event what happened, of an exchange what could not be read", "nothing to say"),
    ),
    (
        "request_frame",
        BinaryType(),
        Told("as the client sent it, without the length field", "below level `payload`; not kept"),
    ),
    (
        "response_frame",
        BinaryType(),
        Told(
            "as the client got it, or as a rule swallowed it, without the length field",
            "below level `payload`; none, or one that broke off; not kept",
        ),
    ),
)

# Without these no question can be answered; any other column of EXCHANGE may be missing and reads as null.
EXCHANGE_REQUIRED = ("connection_id", "exchange_seq", "event", "api_name", "request_at_us", "outcome")

_ONLY_RECORD, _ONLY_PARTITION = "not a record", "not event `partition`"
_OF_BATCH = "neither a record nor `control`"
# What is in the brokers' log, as `notleader log read` writes it.
LOG = _struct(
    ("run_id", _STRING, Told("what `--run` gave", "it wasn't given")),
    (
        "event",
        _STRING,
        Told(
            "what the row is about",
            "",
            {
                "record": "one record",
                "control": "a marker: of a transaction's end, or another",
                "unread": "offsets that could not be read",
                "partition": "all of the partition; one row of each",
            },
        ),
    ),
    ("topic", _STRING, Told("its name")),
    ("topic_id", _STRING, Told("its id, as a UUID", _ONLY_PARTITION + "; the broker gives topics none")),
    ("partition", _INT, Told("Kafka's number of the partition")),
    (
        "offset",
        _LONG,
        Told(
            "the record's, or the first that was not read; of `partition` up to where it was read, exclusive",
            "of `partition`: nothing could be asked",
        ),
    ),
    ("last_offset", _LONG, Told("the record's, or the last that was not read", "event `partition`")),
    ("timestamp_ms", _LONG, Told("the record's, since the epoch", _OF_BATCH)),
    ("timestamp_type", _STRING, Told("who gave it", _OF_BATCH, {"create": "the client", "append": "the broker"})),
    (
        "message_id",
        _STRING,
        Told("its header `notleader-id`, or its value (`--value-is-id`)", "it has none; " + _ONLY_RECORD),
    ),
    ("key_hash", _LONG, Told("CRC-32 of its key", "without key; " + _ONLY_RECORD)),
    ("tombstone", _BOOL, Told("its value is null", _ONLY_RECORD)),
    ("producer_id", _LONG, Told("the batch's", "not idempotent; " + _OF_BATCH)),
    ("producer_epoch", _SHORT, Told("the batch's", "as `producer_id`")),
    ("base_sequence", _INT, Told("the batch's", "not idempotent; " + _ONLY_RECORD)),
    ("sequence", _INT, Told("the record's own place in the producer's sequence", "as `base_sequence`")),
    ("transactional", _BOOL, Told("sent in a transaction", _OF_BATCH)),
    (
        "transaction",
        _STRING,
        Told(
            "what became of it",
            "not in a transaction; " + _ONLY_RECORD,
            {"committed": "", "aborted": "", "open": "it had not ended at the end of the reading"},
        ),
    ),
    (
        "control_type",
        _STRING,
        Told("`commit`, `abort`, `leader_change`, or Kafka's number of another", "not `control`"),
    ),
    ("leader_epoch", _INT, Told("the batch's", "it has none; " + _OF_BATCH)),
    ("compression", _STRING, Told("the batch's", _OF_BATCH, _COMPRESSIONS)),
    ("log_start_offset", _LONG, Told("where the log began", "it could not be asked; " + _ONLY_PARTITION)),
    (
        "log_end_offset",
        _LONG,
        Told(
            "the high watermark at the start of the reading, and the reading's end",
            "it could not be asked; " + _ONLY_PARTITION,
        ),
    ),
    (
        "last_stable_offset",
        _LONG,
        Told(
            "the end of what a `read_committed` consumer gets",
            "nothing had to be fetched, or the broker doesn't tell; " + _ONLY_PARTITION,
        ),
    ),
    ("cleanup_policy", _STRING, Told("the topic's configuration", "the broker doesn't tell; " + _ONLY_PARTITION)),
    ("delete_retention_ms", _LONG, Told("the topic's configuration", "as `cleanup_policy`")),
    (
        "read_at_us",
        _LONG,
        Told(
            "when the log's end was asked for: of what was sent later the log says nothing",
            "it could not be asked; " + _ONLY_PARTITION,
        ),
    ),
    ("problem", _STRING, Told("what could not be read, and why", "nothing")),
)

LOG_REQUIRED = ("event", "topic", "partition", "offset", "log_start_offset", "log_end_offset")

_OPERATIONS = "`send`, `poll` (a record got), `commit`, `seek`, or the client's own word"
_OPERATION_OUTCOMES = {
    "ok": "it happened",
    "fail": "it surely did not happen",
    "info": "it may have happened",
    "pending": "nobody ever heard",
}
_BAD = "a bad line"
_UNTOLD = "not told; " + _BAD
# One JSON line of a recorder. `budget_ms`, `client_id`, `group_id` and `run_id` are optional extras.
_OUTCOME = (
    ("client", _STRING, Told("the client's own name; else the file's", _BAD)),
    ("client_version", _STRING, Told("as the line has it", _UNTOLD)),
    ("client_id", _STRING, Told("Kafka's, to find it on the wire", _UNTOLD)),
    ("operation", _STRING, Told(_OPERATIONS, _BAD)),
    ("message_id", _STRING, Told("the record's", _UNTOLD)),
    ("topic", _STRING, Told("its name", _UNTOLD)),
    ("partition", _INT, Told("Kafka's number of the partition", _UNTOLD)),
    ("offset", _LONG, Told("as the client was told; of a commit where to go on", _UNTOLD)),
    ("key_hash", _LONG, Told("CRC-32 of the record's key", _UNTOLD)),
    ("called_at_us", _LONG, Told("when the application called, by the client's clock", _UNTOLD)),
    ("returned_at_us", _LONG, Told("when the call gave the caller back", _UNTOLD)),
    ("completed_at_us", _LONG, Told("when the outcome was known", "it never was; " + _UNTOLD)),
    ("outcome", _STRING, Told("how it ended", _BAD, _OPERATION_OUTCOMES)),
    ("error", _STRING, Told("the client's own words", _UNTOLD)),
    ("thread", _STRING, Told("whose call it was", _UNTOLD)),
    ("group_id", _STRING, Told("the consumer's group", _UNTOLD)),
    ("budget_ms", _LONG, Told("longer than that is a negative verdict", _UNTOLD)),
    ("run_id", _STRING, Told("the capture's run that it belongs to", _UNTOLD)),
)
OUTCOME = _struct(*_OUTCOME)

_OPERATION_ID = Told("the same for the same operation in any analysis: a hash of who, what, where and when", _BAD)
# An outcome line after reading, of either format. A poll row stands for the records first `offset` … `last_offset`.
OPERATION = _struct(
    ("operation_id", _LONG, _OPERATION_ID),
    *_OUTCOME,
    ("last_offset", _LONG, Told("of Kafka's `records_consumed` the last; else `offset`", _UNTOLD)),
    ("record_count", _LONG, Told("records that the row stands for", "neither an operation with an offset nor a poll")),
    ("source", _STRING, Told("the file that the line stood in, without folders")),
    ("bad_reason", _STRING, Told("why the line was set aside; then all else but `source` is null", "a good line")),
)

# What `_weights`, `following` and `refused_reads` found of rules, before any is named for anything.
OPERATION_CAUSES = _struct(
    ("operation_id", _LONG, Told("the history's")),
    ("waits", ArrayType(CAUSE, True), Told("what was in its way, and for how long", "nothing was")),
    (
        "told",
        ArrayType(CAUSE, True),
        Told("those that told its client the error that it reports", "as `waits`"),
    ),
    (
        "kept",
        ArrayType(
            _struct(
                ("place", _INT, Told("which of its attempts, from 0")),
                ("cause", CAUSE, Told("the rule, and how it reached it")),
            ),
            True,
        ),
        Told("what stood on an attempt's connection until the client gave that attempt up", "as `waits`"),
    ),
    (
        "follows",
        ArrayType(CAUSE, True),
        Told("what its end follows from: an earlier operation's, or an error right before it", "it follows from none"),
    ),
)

# One row per partition of one Produce request: what a client sent, once.
ATTEMPT = _struct(
    ("attempt_id", _LONG),
    ("run_id", _STRING),
    ("proxy_id", _STRING),
    ("connection_id", _LONG),
    ("exchange_seq", _LONG),
    ("node_id", _INT),
    ("client_id", _STRING),
    ("topic", _STRING),
    ("partition_index", _INT),
    ("producer_id", _LONG),
    ("producer_epoch", _SHORT),
    ("base_sequence", _INT),
    ("record_count", _INT),
    ("batch_bytes", _LONG),
    ("base_offset", _LONG),
    ("error_code", _SHORT),
    ("outcome", _STRING),
    ("acks", _SHORT),
    ("request_at_us", _LONG),
    ("forwarded_at_us", _LONG),
    ("response_at_us", _LONG),
    ("fault_names", _STRINGS),
    ("fault_kinds", _STRINGS),
    ("fault_phase", _STRING),
    ("touches", ArrayType(TOUCH, True)),
    ("transactional_id", _STRING),
    ("message_ids", _STRINGS),
    ("key_hashes", ArrayType(_LONG, True)),
)

# The part of an attempt that a history row and a finding carry as evidence.
WIRE = _struct(
    ("request_at_us", _LONG, Told("the capture's")),
    ("run_id", _STRING, Told("the capture's: with the next three it finds the row")),
    ("proxy_id", _STRING, Told("the capture's")),
    ("connection_id", _LONG, Told("the capture's")),
    ("exchange_seq", _LONG, Told("the capture's", "evidence that is no exchange")),
    ("api_name", _STRING, Told("the capture's", "evidence that is no exchange")),
    ("node_id", _INT, Told("the capture's", "the bootstrap listener")),
    ("response_at_us", _LONG, Told("the capture's", "no answer")),
    ("outcome", _STRING, Told("the capture's", "evidence that is no exchange")),
    ("error_code", _SHORT, Told("the partition's, or the whole answer's", "no answer was read")),
    ("base_offset", _LONG, Told("the capture's", "nobody said one")),
    ("fault_names", _STRINGS, Told("the rules that touched this partition of it")),
    ("fault_kinds", _STRINGS, Told("their kinds")),
    ("fault_phase", _STRING, Told("the capture's", "no rule touched the exchange")),
    ("match_kind", _STRING, Told("by what it was found, as the history's", "evidence of no operation")),
    ("attempt_id", _LONG, Told("the same for the same attempt in any analysis", "evidence that is no attempt")),
    ("topic", _STRING, Told("the attempt's", "evidence of a whole exchange")),
    ("partition_index", _INT, Told("the attempt's", "evidence of a whole exchange")),
    ("touches", ArrayType(TOUCH, True), Told("what each rule did to it", "evidence of a whole exchange")),
)

LANDED = _struct(
    ("topic", _STRING, Told("where it is")),
    ("partition", _INT, Told("where it is")),
    ("offset", _LONG, Told("where it is")),
    (
        "seen_by",
        _STRING,
        Told(
            "who saw it there",
            "",
            {"log": "it is in the log", "consumer": "by its outcome lines", "fetch": "in a captured answer"},
        ),
    ),
)

# One row per client operation (records delivered by polls are not operations here: they are where things landed).
HISTORY = _struct(
    ("operation_id", _LONG, _OPERATION_ID._replace(null="")),
    (
        "scope",
        _STRING,
        Told("the run with `--by-run`; else empty: offsets are compared within a scope", "no run is known"),
    ),
    ("run_id", _STRING, Told("the line's own", "not told")),
    ("client", _STRING, Told("the client's own name; else the file's")),
    ("client_version", _STRING, Told("as the line has it", "not told")),
    ("operation", _STRING, Told(_OPERATIONS)),
    ("message_id", _STRING, Told("the record's", "not told")),
    ("topic", _STRING, Told("as told, or else as the first attempt has it", "nobody knows")),
    ("partition", _INT, Told("as told, or else as the first attempt has it", "nobody knows")),
    ("offset", _LONG, Told("as the client was told", "it wasn't")),
    ("called_at_us", _LONG, Told("by the proxy's clock, where the client's was measured to be wrong", "not told")),
    ("returned_at_us", _LONG, Told("as `called_at_us`", "not told")),
    ("completed_at_us", _LONG, Told("as `called_at_us`", "it never was, or not told")),
    ("blocked_us", _LONG, Told("how long the call held its caller", "not told")),
    (
        "latency_us",
        _LONG,
        Told(
            "from call to outcome; where no call was told, from the first request to the last answer",
            "no outcome, or unknown",
        ),
    ),
    ("budget_ms", _LONG, Told("longer than that is a negative verdict", "not told")),
    ("outcome", _STRING, Told("how it ended", "", _OPERATION_OUTCOMES)),
    ("error", _STRING, Told("the client's own words", "not told")),
    ("thread", _STRING, Told("whose call it was", "not told")),
    ("source", _STRING, Told("the file that the line stood in, without folders")),
    (
        "match_kind",
        _STRING,
        Told(
            "by what its attempts were found; the weakest of them",
            "",
            {
                "message_id": "the record header `notleader-id` (captures at level `record`): sure",
                "sequence": "producer id, epoch and base sequence of an attempt that was found: sure",
                "offset": "topic, partition and the offset that the client was told: sure",
                "batch": "an attempt refused or not answered, of the same client, partition, records and bytes as the"
                " one found by offset, after the call: likely",
                "key_hash": "topic, key and time of the call: likely",
                "time": "topic, time and a fault; only of sends that went wrong, slow or without a place: a guess",
                "none": "nothing was found: the row is kept, and counted in the report",
            },
        ),
    ),
    ("attempt_count", _INT, Told("how often it was on the wire")),
    ("attempts", ArrayType(WIRE, True), Told("each of them, in time order; 100 at most")),
    ("transactional", _BOOL, Told("an attempt was sent in a transaction")),
    ("fault_names", _STRINGS, Told("the rules that touched its attempts")),
    ("fault_kinds", _STRINGS, Told("their kinds")),
    (
        "trouble",
        _STRING,
        Told(
            "of the first attempt that met any: `error:CODE`, `outcome:WORD`; `unsent`: a named send that was not on"
            " the wire",
            "none",
        ),
    ),
    ("landed_count", _INT, Told("at how many places its message was seen")),
    ("landed", ArrayType(LANDED, True), Told("these places; 100 at most")),
    (
        "in_log",
        _STRING,
        Told(
            "what the brokers' log says of a send",
            "no log of its topic was given; no send",
            {
                "there": "in the log, where a `read_committed` consumer gets it; `landed` has the places",
                "aborted": "only in a transaction that was aborted",
                "open": "only in a transaction that had not ended",
                "superseded": "compacted away: the log, or an acknowledgement, has a later record of its key",
                "deleted": "it may have been there: before the log's present start, or in a compacted topic with no key"
                " known, or after `delete.retention.ms` (it may have been a tombstone)",
                "absent": "the log was read and does not have it",
                "unread": "the log can't tell: it could not be read there, was read before the send, or records in it"
                " have no ids",
            },
        ),
    ),
    (
        "log_here",
        _STRING,
        Told(
            "the message that is in the log where the client was told that this one is",
            "no log, no offset, or a record without id",
        ),
    ),
    ("life", _INT, Told("which life of its partition it fell into, from 1: a topic made anew begins another")),
)

# One thing one check noticed; findings are these, summed up. Where the check gives no `rule`, it and its kind are taken
# from `by`, the causes to blame, and so is the trouble where there are any, unless the check says it (`own_trouble`).
CASE = _struct(
    ("check", _STRING),
    ("verdict", _STRING),
    ("client", _STRING),
    ("topic", _STRING),
    ("partition", _INT),
    ("operation", _STRING),
    ("rule", _STRING),
    ("kind", _STRING),
    ("trouble", _STRING),
    ("at_us", _LONG),
    ("duration_us", _LONG),
    ("message_id", _STRING),
    ("operation_id", _LONG),
    ("note", _STRING),
    ("open", _BOOL),
    ("exchanges", ArrayType(WIRE, True)),
    ("by", ArrayType(CAUSE, True)),
    ("own_trouble", _BOOL),
)

EVIDENCE = _struct(
    ("at_us", _LONG, Told("when it happened", "unknown")),
    ("duration_us", _LONG, Told("how long it took", "it has no length")),
    ("message_id", _STRING, Told("the message's", "none, or unknown")),
    ("operation_id", _LONG, Told("the history's", "about no single operation")),
    ("note", _STRING, Told("more about it, in words", "nothing to say")),
    ("exchanges", ArrayType(WIRE, True), Told("the exchanges that show it", "none do")),
)

FINDING = _struct(
    ("check", _STRING, Told("the question, one of [these](../verdicts.md#questions)")),
    ("jepsen", _STRING, Told("Jepsen's name for it", "it has none")),
    (
        "verdict",
        _STRING,
        Told("the answer", "", {"invalid": "negative", "valid": "", "unknown": "the sentence says what is missing"}),
    ),
    ("sentence", _STRING, Told("the finding in words, which are no interface")),
    ("count", _LONG, Told("its cases; 0: all is well, or nothing could be judged")),
    ("client", _STRING, Told("whose they are", "no cases, several clients, or none in particular")),
    ("topic", _STRING, Told("where", "as `client`")),
    ("partition", _INT, Told("where", "as `client`")),
    ("operation", _STRING, Told("what they are, where that is no send", "no cases, or sends")),
    ("rule", _STRING, Told("the rules that had a hand in it, with commas between them", "no cases, or no rule had")),
    ("kind", _STRING, Told("their kinds", "as `rule`")),
    ("trouble", _STRING, Told("what was met: as the history's, or the check's own word", "nothing of the kind")),
    ("first_at_us", _LONG, Told("when the first case happened", "no cases, or unknown")),
    ("last_at_us", _LONG, Told("when the last one did", "as `first_at_us`")),
    ("slowest_us", _LONG, Told("the longest duration of a case", "no cases, or none has a length")),
    ("evidence", ArrayType(EVIDENCE, True), Told("the five longest cases; empty without cases")),
)


def as_field(field: StructField, column: Column | None = None) -> Column:
    """`column`, or else the one of the field's name, in the field's type and under its name."""
    if column is None:
        return _own(field.name, field.dataType.simpleString())
    # By its name a type is one call of Java's, as an object five; a plan of checks has a thousand of these.
    return column.cast(field.dataType.simpleString()).alias(field.name)


@cache
def _own(name: str, kind: str) -> Column:
    return F.col(name).cast(kind).alias(name)


def nothing_as(field: StructField) -> Column:
    """Null, in the field's type and under its name."""
    return _nothing(field.name, field.dataType.simpleString())


@cache
def _nothing(name: str, kind: str) -> Column:
    return F.lit(None).cast(kind).alias(name)


def conform(frame: DataFrame, schema: StructType, table: str) -> DataFrame:
    """Select exactly the columns of `schema`, in its order; SchemaError when one is missing or of another type."""
    found = {field.name: field.dataType for field in frame.schema.fields}
    for field in schema.fields:
        if field.name not in found:
            raise SchemaError(f"{table}: column {field.name} is missing")
        if not _same(found[field.name], field.dataType):
            raise SchemaError(
                f"{table}: column {field.name} is {found[field.name].simpleString()},"
                f" expected {field.dataType.simpleString()}"
            )
    if list(found) == schema.fieldNames():
        return frame
    return frame.select(*[F.col(field.name) for field in schema.fields])


def _same(left: DataType, right: DataType) -> bool:
    """True when two types agree, nullability aside."""
    return bool(left.simpleString() == right.simpleString())
