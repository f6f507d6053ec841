"""The columns of every table, declared once: what is read, what passes between transforms, what is written."""

from __future__ import annotations

from functools import cache

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


class SchemaError(Exception):
    """A table that lacks columns or has them in another type; the message is one line for the user."""


def _struct(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in fields])


_STRING, _LONG, _INT, _SHORT, _BOOL = StringType(), LongType(), IntegerType(), ShortType(), BooleanType()
_STRINGS = ArrayType(_STRING, True)

PARTITION = _struct(
    ("topic", _STRING),
    ("topic_id", _STRING),
    ("partition_index", _INT),
    ("producer_id", _LONG),
    ("producer_epoch", _SHORT),
    ("base_sequence", _INT),
    ("record_count", _INT),
    ("batch_bytes", _LONG),
    ("compression", _STRING),
    ("base_offset", _LONG),
    ("error_code", _SHORT),
    ("leader_epoch", _INT),
    ("message_ids", _STRINGS),
    ("key_hashes", ArrayType(_LONG, True)),
)

# What one rule did to an exchange; `partitions` are places in the row's own, null for the whole exchange. `held_us`:
# for how long this rule alone held it; null where it didn't, where nobody knows, and in captures of before.
EFFECT = _struct(
    ("rule", _STRING),
    ("kind", _STRING),
    ("did", _STRING),
    ("error_code", _SHORT),
    ("partitions", ArrayType(_INT, True)),
    ("held_us", _LONG),
)

# What a rule did to one partition of an exchange; `did` in the words of `notleader.faults.effects`.
TOUCH = _struct(("rule", _STRING), ("kind", _STRING), ("did", _STRING), ("error_code", _SHORT), ("held_us", _LONG))

# One rule's part in what became of an operation. `how` it reached the operation: own (its own attempt) | behind (an
# exchange before it on its connection) | broker (an unanswered request to its broker) | partition (an earlier batch of
# its partition) | told (another answer to its client) | cut (its client's connections) | follows (an earlier operation
# of its client that went wrong) | anybody (a connection that was refused or silenced before it said whose it was) |
# unread (called done, and never read from a connection of its client that was cut or silenced).
# `sure` is false where that is likely and not seen on its own exchanges. `weight_us`: for how much of the operation's
# time the rule was in the way.
CAUSE = _struct(
    ("rule", _STRING),
    ("kind", _STRING),
    ("how", _STRING),
    ("did", _STRING),
    ("error_code", _SHORT),
    ("sure", _BOOL),
    ("weight_us", _LONG),
)

# One row per exchange and per connection event, exactly as the proxy writes it. Times: µs since the epoch, UTC.
EXCHANGE = _struct(
    ("run_id", _STRING),
    ("proxy_id", _STRING),
    ("connection_id", _LONG),
    ("exchange_seq", _LONG),
    ("event", _STRING),
    ("client_addr", _STRING),
    ("listener", _STRING),
    ("node_id", _INT),
    ("client_id", _STRING),
    ("client_software_name", _STRING),
    ("client_software_version", _STRING),
    ("principal", _STRING),
    ("api_key", _SHORT),
    ("api_name", _STRING),
    ("api_version", _SHORT),
    ("correlation_id", _INT),
    ("request_at_us", _LONG),
    ("forwarded_at_us", _LONG),
    ("broker_responded_at_us", _LONG),
    ("response_at_us", _LONG),
    ("request_bytes", _LONG),
    ("response_bytes", _LONG),
    ("outcome", _STRING),
    ("error_code", _SHORT),
    ("throttle_time_ms", _INT),
    ("fault_names", _STRINGS),
    ("fault_kinds", _STRINGS),
    ("fault_phase", _STRING),
    ("effects", ArrayType(EFFECT, True)),
    ("seed", _LONG),
    ("transactional_id", _STRING),
    ("group_id", _STRING),
    ("acks", _SHORT),
    ("partitions", ArrayType(PARTITION, True)),
    ("detail", _STRING),
    ("request_frame", BinaryType()),
    ("response_frame", BinaryType()),
)

# Without these no question can be answered; any other column of EXCHANGE may be missing and reads as null.
EXCHANGE_REQUIRED = ("connection_id", "exchange_seq", "event", "api_name", "request_at_us", "outcome")

# What is in the brokers' log, as `notleader log read` writes it: `event` is record, control (a transaction's marker, or
# another), unread (offsets that could not be read), or partition (one row about all of it).
LOG = _struct(
    ("run_id", _STRING),
    ("event", _STRING),
    ("topic", _STRING),
    ("topic_id", _STRING),
    ("partition", _INT),
    ("offset", _LONG),
    ("last_offset", _LONG),
    ("timestamp_ms", _LONG),
    ("timestamp_type", _STRING),
    ("message_id", _STRING),
    ("key_hash", _LONG),
    ("tombstone", _BOOL),
    ("producer_id", _LONG),
    ("producer_epoch", _SHORT),
    ("base_sequence", _INT),
    ("sequence", _INT),
    ("transactional", _BOOL),
    ("transaction", _STRING),
    ("control_type", _STRING),
    ("leader_epoch", _INT),
    ("compression", _STRING),
    ("log_start_offset", _LONG),
    ("log_end_offset", _LONG),
    ("last_stable_offset", _LONG),
    ("cleanup_policy", _STRING),
    ("delete_retention_ms", _LONG),
    ("read_at_us", _LONG),
    ("problem", _STRING),
)

LOG_REQUIRED = ("event", "topic", "partition", "offset", "log_start_offset", "log_end_offset")

# One JSON line of a recorder. `budget_ms`, `client_id`, `group_id` and `run_id` are optional extras.
OUTCOME = _struct(
    ("client", _STRING),
    ("client_version", _STRING),
    ("client_id", _STRING),
    ("operation", _STRING),
    ("message_id", _STRING),
    ("topic", _STRING),
    ("partition", _INT),
    ("offset", _LONG),
    ("key_hash", _LONG),
    ("called_at_us", _LONG),
    ("returned_at_us", _LONG),
    ("completed_at_us", _LONG),
    ("outcome", _STRING),
    ("error", _STRING),
    ("thread", _STRING),
    ("group_id", _STRING),
    ("budget_ms", _LONG),
    ("run_id", _STRING),
)

# An outcome line after reading, of either format. A poll row stands for the records first `offset` … `last_offset`.
OPERATION = StructType(
    [
        StructField("operation_id", _LONG, True),
        *OUTCOME.fields,
        StructField("last_offset", _LONG, True),
        StructField("record_count", _LONG, True),
        StructField("source", _STRING, True),
        StructField("bad_reason", _STRING, True),
    ]
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
    ("request_at_us", _LONG),
    ("run_id", _STRING),
    ("proxy_id", _STRING),
    ("connection_id", _LONG),
    ("exchange_seq", _LONG),
    ("api_name", _STRING),
    ("node_id", _INT),
    ("response_at_us", _LONG),
    ("outcome", _STRING),
    ("error_code", _SHORT),
    ("base_offset", _LONG),
    ("fault_names", _STRINGS),
    ("fault_kinds", _STRINGS),
    ("fault_phase", _STRING),
    ("match_kind", _STRING),
    ("attempt_id", _LONG),
    ("topic", _STRING),
    ("partition_index", _INT),
    ("touches", ArrayType(TOUCH, True)),
)

LANDED = _struct(("topic", _STRING), ("partition", _INT), ("offset", _LONG), ("seen_by", _STRING))

# One row per client operation (records delivered by polls are not operations here: they are where things landed).
HISTORY = _struct(
    ("operation_id", _LONG),
    ("scope", _STRING),
    ("run_id", _STRING),
    ("client", _STRING),
    ("client_version", _STRING),
    ("operation", _STRING),
    ("message_id", _STRING),
    ("topic", _STRING),
    ("partition", _INT),
    ("offset", _LONG),
    ("called_at_us", _LONG),
    ("returned_at_us", _LONG),
    ("completed_at_us", _LONG),
    ("blocked_us", _LONG),
    ("latency_us", _LONG),
    ("budget_ms", _LONG),
    ("outcome", _STRING),
    ("error", _STRING),
    ("thread", _STRING),
    ("source", _STRING),
    ("match_kind", _STRING),
    ("attempt_count", _INT),
    ("attempts", ArrayType(WIRE, True)),
    ("transactional", _BOOL),
    ("fault_names", _STRINGS),
    ("fault_kinds", _STRINGS),
    ("trouble", _STRING),
    ("landed_count", _INT),
    ("landed", ArrayType(LANDED, True)),
    # What the log says of a send, see `transforms.log`; null without a log of its topic. `log_here`: the message that
    # is in the log where the client was told that this one is.
    ("in_log", _STRING),
    ("log_here", _STRING),
    # Which life of its partition it fell into, from 1: a topic that was made anew begins another.
    ("life", _INT),
)

# One thing one check noticed; findings are these, summed up. Where the check gives no `rule`, it and its kind are taken
# from `by`, the causes to blame, and so is the trouble where there are any, unless the check says it (`own_trouble`).
CASE = _struct(
    ("check", _STRING),
    ("verdict", _STRING),
    ("client", _STRING),
    ("topic", _STRING),
    ("partition", _INT),
    ("rule", _STRING),
    ("kind", _STRING),
    ("trouble", _STRING),
    ("at_us", _LONG),
    ("duration_us", _LONG),
    ("message_id", _STRING),
    ("operation_id", _LONG),
    ("note", _STRING),
    ("exchanges", ArrayType(WIRE, True)),
    ("by", ArrayType(CAUSE, True)),
    ("own_trouble", _BOOL),
)

EVIDENCE = _struct(
    ("at_us", _LONG),
    ("duration_us", _LONG),
    ("message_id", _STRING),
    ("operation_id", _LONG),
    ("note", _STRING),
    ("exchanges", ArrayType(WIRE, True)),
)

FINDING = _struct(
    ("check", _STRING),
    ("jepsen", _STRING),
    ("verdict", _STRING),
    ("sentence", _STRING),
    ("count", _LONG),
    ("client", _STRING),
    ("topic", _STRING),
    ("partition", _INT),
    ("rule", _STRING),
    ("kind", _STRING),
    ("trouble", _STRING),
    ("first_at_us", _LONG),
    ("last_at_us", _LONG),
    ("slowest_us", _LONG),
    ("evidence", ArrayType(EVIDENCE, True)),
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
    return frame.select(*[F.col(field.name) for field in schema.fields])


def _same(left: DataType, right: DataType) -> bool:
    """True when two types agree, nullability aside."""
    return bool(left.simpleString() == right.simpleString())
