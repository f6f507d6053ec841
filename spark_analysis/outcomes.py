"""Reads what the clients said: our recorders' JSON lines and Kafka's verifiable producer and consumer lines.

A line that is neither is set aside with its file and line number; it never stops the reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from notleader.spark_analysis.paths import InputError
from notleader.spark_analysis.plans import broadcast, gathered, in_key_order, table_of
from notleader.spark_analysis.schemas import OPERATION, OUTCOME, as_field, conform, nothing_as

_RANGE = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("count", LongType()),
        StructField("minOffset", LongType()),
        StructField("maxOffset", LongType()),
    ]
)
_COMMITTED = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
# Both formats at once: a field that the other format also has means the same in both.
_LINE = StructType(
    [
        *OUTCOME.fields,
        StructField("name", StringType()),
        StructField("timestamp", LongType()),
        StructField("time_ms", LongType()),
        StructField("key", StringType()),
        StructField("value", StringType()),
        StructField("exception", StringType()),
        StructField("message", StringType()),
        StructField("success", BooleanType()),
        StructField("partitions", ArrayType(_RANGE)),
        StructField("offsets", ArrayType(_COMMITTED)),
        StructField("_corrupt", StringType()),
    ]
)

OUTCOMES = ("ok", "fail", "info", "pending")
# What the verifiable clients print that is not an operation.
_NOT_OPERATIONS = (
    "startup_complete",
    "shutdown_requested",
    "shutdown_complete",
    "tool_data",
    "partitions_assigned",
    "partitions_revoked",
    "partitions_lost",
)


# What surely kept a record out: refused before anything was appended, and no retry gets past it. Any other may have
# happened, NOT_LEADER_OR_FOLLOWER included, which can come after the append (KAFKA-13574).
_REFUSED = (
    "RecordTooLargeException",
    "RecordBatchTooLargeException",
    "InvalidTopicException",
    "InvalidRecordException",
    "InvalidTimestampException",
    "InvalidRequiredAcksException",
    "PolicyViolationException",
    "BufferExhaustedException",
    "UnsupportedVersionException",
    "InvalidRequestException",
    "UnsupportedForMessageFormatException",
    "UnsupportedCompressionTypeException",
    "SerializationException",
)


_UNREAD = "not a JSON object with fields of the right types"
_MOST_TEXT = 1 << 16  # characters of a bad line, to see what is wrong; that many are shown:
_SHOWN_TEXT = 200
_KINDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
_WANTED = {
    BooleanType: "a boolean",
    IntegerType: "an integer",
    LongType: "an integer",
    ArrayType: "an array",
    StructType: "an object",
}


class BadLine(NamedTuple):
    """A line that was set aside: 1-based line number, what is wrong, and its beginning."""

    file: str
    line: int
    reason: str
    text: str


def bad_line(file: str, line: int, reason: str, text: str) -> BadLine:
    """One row of `set_aside`, looked at more closely where Spark couldn't read it."""
    return BadLine(file, line, _why_unread(text) if reason == _UNREAD else reason, text[:_SHOWN_TEXT])


def _why_unread(text: str) -> str:
    try:
        told = json.loads(text)
    except json.JSONDecodeError:
        return "not JSON" if len(text) < _MOST_TEXT else _UNREAD
    except (ValueError, RecursionError):  # JSON, but with a number or a depth that Python doesn't take
        return _UNREAD
    return _wrong_type(told, _LINE, "") or _UNREAD


def _wrong_type(told: object, wanted: DataType, path: str) -> str | None:
    """The first field of the line whose type is wrong, and what it should be; anything is read as a string."""
    inner: Iterable[tuple[object, DataType, str]] = ()
    if told is None or isinstance(wanted, StringType):
        return None
    if isinstance(told, dict) and isinstance(wanted, StructType):
        fields = {field.name: field.dataType for field in wanted.fields}
        inner = [(told[n], fields[n], f"{path}.{n}" if path else n) for n in told if n in fields]
    elif isinstance(told, list) and isinstance(wanted, ArrayType):
        inner = [(one, wanted.elementType, f"{path}[{place}]") for place, one in enumerate(told)]
    elif _KINDS[type(told)] != _WANTED[type(wanted)]:
        name = f"`{path}`" if path else "the line"
        return f"{name} is {_KINDS[type(told)]}, and should be {_WANTED[type(wanted)]}"
    elif isinstance(told, int):
        bits = 32 if isinstance(wanted, IntegerType) else 64
        if not -(1 << bits - 1) <= told < 1 << bits - 1:
            return f"`{path}` is an integer of more than {bits} bits"
    return next((wrong for each in inner if (wrong := _wrong_type(*each))), None)


def _lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    try:
        text = spark.read.text(list(files))
    except AnalysisException as error:
        raise InputError(f"outcomes: {str(error).strip().splitlines()[0]}") from error
    lines = text.select(
        "value",
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        # Rows of one file block are consecutive in one task, so this is the line's place in its block.
        F.monotonically_increasing_id().alias("row"),
    )
    return gathered(lines)


def read_outcomes(spark: SparkSession, files: Sequence[str], *, runs: Sequence[str] = ()) -> DataFrame:
    """One OPERATION row per operation said, and one per bad line (`bad_reason` not null, all else null).

    Of an operation that was told twice (pending, then done) the last word counts. With `runs` a line that names
    another run is left out; one that names none stays.
    """
    if not files:
        return table_of(spark, [], OPERATION.simpleString())
    rows = said(_lines(spark, files))
    if runs:
        rows = rows.filter(F.col("run_id").isNull() | F.col("run_id").isin(list(runs)))
    return last_word(rows)


def said(lines: DataFrame) -> DataFrame:
    """One OPERATION row per operation that a line tells of, in any order, and one per bad line; streams too.

    `lines` has `value` (one line) and `file` (where it stands).
    """
    lines = lines.filter(F.trim("value") != "")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    # As a generator's output: a filter of what was said is not pushed down to where each line would be parsed for it.
    parsed = lines.select(
        F.inline(F.array(F.from_json("value", _LINE, options))), F.element_at(F.split("file", "/"), -1).alias("source")
    )
    told = parsed.withColumn("bad_reason", _bad_reason()).filter(
        F.col("bad_reason").isNotNull() | ~F.coalesce(F.col("name"), F.lit("")).isin(*_NOT_OPERATIONS)
    )
    rows = told.select(
        F.explode(F.when(F.col("bad_reason").isNotNull(), F.array(_bad())).otherwise(_said())).alias("r")
    )
    return conform(rows.select("r.*").withColumn("operation_id", _identity()), OPERATION, "outcomes")


def last_word(rows: DataFrame) -> DataFrame:
    """`rows` without the pending ones that another line of the same call settles; bad lines as they are.

    Message id, topic and partition tell calls apart where all lines that began in that microsecond have them; of those
    that nothing tells apart each line that isn't pending settles one that is.
    """
    # Bad lines have no identity: each stays a row of its own.
    told = rows.withColumn("one", F.coalesce("operation_id", F.monotonically_increasing_id()))
    told = told.withColumn("call", F.coalesce(_call(), "one"))
    pending = F.coalesce(F.col("outcome") == "pending", F.lit(False))
    once = (
        in_key_order(told, "call", "one")
        .groupBy("call", "one")
        .agg(
            F.max_by(F.struct(*rows.columns), ~pending).alias("r"),
            F.count_if(pending).alias("waiting"),
            F.count_if(~pending).alias("ended"),
        )
    )
    # What has the very identity of another line was settled, or settles, already.
    alone = F.least("waiting", "ended") == 0
    of_call = Window.partitionBy("call")
    parts = {
        f"same_{name}": F.when(
            F.bool_and(F.when(alone, F.col(f"r.{name}").isNotNull())).over(of_call), F.col(f"r.{name}")
        )
        for name in ("message_id", "topic", "partition")
    }
    alike = Window.partitionBy("call", *parts)
    counted = once.withColumns(parts).withColumns(
        {
            "settled": F.sum(F.when(alone, F.col("ended"))).over(alike),
            "up_to_this": F.sum(F.when(alone, F.col("waiting"))).over(alike.orderBy("one")),
        }
    )
    last = counted.filter((F.col("ended") > 0) | (F.col("up_to_this") > F.col("settled")))
    return conform(last.select("r.*"), OPERATION, "outcomes")


def verifiable_polls() -> Column:
    """Whether a row is what Kafka's verifiable consumer got: it tells neither the call nor the thread."""
    unsaid = F.coalesce("called_at_us", "returned_at_us").isNull() & F.col("thread").isNull()
    return (F.col("operation") == "poll") & F.col("offset").isNotNull() & unsaid


def is_failed_read() -> Column:
    """Whether a row is a read of which its client says that it failed, or may have."""
    return (F.col("operation") == "poll") & F.col("outcome").isin("fail", "info")


def told_once(operations: DataFrame) -> DataFrame:
    """`operations` without what a verbose verifiable consumer tells a second time: as ranges, beside each record."""
    record_by_record = (
        operations.filter(verifiable_polls() & F.col("message_id").isNotNull())
        .select(F.col("source").alias("verbose"))
        .distinct()
    )
    again = verifiable_polls() & F.col("message_id").isNull() & F.col("verbose").isNotNull()
    verbose = F.col("source") == F.col("verbose")
    return operations.join(broadcast(record_by_record), verbose, "left").filter(~again).drop("verbose")


def good(operations: DataFrame) -> DataFrame:
    """The operations without the bad lines."""
    return operations.filter(F.col("bad_reason").isNull())


def bad_lines(spark: SparkSession, files: Sequence[str], limit: int = 20) -> list[BadLine]:
    """The first `limit` bad lines of `files`, in order, with their line numbers."""
    lines = _lines(spark, files)
    bad = set_aside(lines, "block", "row").orderBy("file", "block", "row").limit(limit).collect()
    # A file is read in blocks by many tasks; a line's number needs the lines of the blocks before it.
    blocks = lines.groupBy("file", "block").agg(F.count("*").alias("lines"), F.min("row").alias("first")).collect()
    numbered = []
    for line in bad:
        before = sum(b.lines for b in blocks if b.file == line.file and b.block < line.block)
        first = next(b.first for b in blocks if b.file == line.file and b.block == line.block)
        name = line.file.removeprefix("file://")
        numbered.append(bad_line(name, before + line.row - first + 1, line.reason, line.text))
    return numbered


def set_aside(lines: DataFrame, *place: str) -> DataFrame:
    """`file`, the columns of `place`, `reason` and `text` of each bad line, for `bad_line`; streams too."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    return (
        lines.filter(F.trim("value") != "")
        .select(
            "file",
            *place,
            F.substring("value", 1, _MOST_TEXT).alias("text"),
            F.inline(F.array(F.from_json("value", _LINE, options))),
        )
        .withColumn("reason", _bad_reason())
        .filter(F.col("reason").isNotNull())
        .select("file", *place, "text", "reason")
    )


def _bad_reason() -> Column:
    name, operation, outcome = F.col("name"), F.col("operation"), F.lower("outcome")
    known = ("producer_send_success", "producer_send_error", "records_consumed", "record_data", "offsets_committed")
    return (
        F.when(F.col("_corrupt").isNotNull(), F.lit(_UNREAD))
        .when(operation.isNull() & name.isNull(), F.lit("neither `operation` nor `name`"))
        .when(operation.isNull() & ~name.isin(*known, *_NOT_OPERATIONS), F.concat(F.lit("unknown name "), name))
        .when(operation.isNotNull() & outcome.isNull(), F.lit("`outcome` is missing"))
        .when(
            operation.isNotNull() & ~outcome.isin(*OUTCOMES),
            F.concat(F.lit("unknown outcome "), F.col("outcome")),
        )
        .when(
            F.least("returned_at_us", "completed_at_us") < F.col("called_at_us"),
            F.lit("it returned, or completed, before it was called"),
        )
    )


def _row(**given: Column) -> Column:
    """One OPERATION (without its id) as a struct; what is not given is null."""
    columns = [
        as_field(field, given[field.name]) if field.name in given else nothing_as(field)
        for field in OPERATION.fields
        if field.name != "operation_id"
    ]
    return F.struct(*columns)


def _bad() -> Column:
    return _row(source=F.col("source"), bad_reason=F.col("bad_reason"))


def _said() -> Column:
    """The operations that one good line tells of: one, except for Kafka's lines about many partitions."""
    name, source = F.col("name"), F.col("source")
    at_us = F.coalesce(F.col("timestamp"), F.col("time_ms")) * F.lit(1000)
    client = F.coalesce(F.col("client"), F.regexp_replace(source, r"\.[^.]*$", ""))
    offset = F.when(F.col("offset") >= 0, F.col("offset"))
    ours = _row(
        **{
            field.name: F.col(field.name)
            for field in OUTCOME.fields
            if field.name not in ("client", "operation", "offset", "outcome")
        },
        client=client,
        # Words other recorders use for the same thing.
        operation=F.when(F.lower("operation").isin("receive", "consume", "record"), F.lit("poll"))
        .when(F.lower("operation").isin("produce", "publish"), F.lit("send"))
        .otherwise(F.lower("operation")),
        offset=offset,
        last_offset=offset,
        record_count=F.when(offset.isNotNull(), F.lit(1)),
        outcome=F.lower("outcome"),
        source=source,
    )
    common = {"client": client, "completed_at_us": at_us, "source": source}
    sent = {"operation": F.lit("send"), "message_id": F.col("value"), "topic": F.col("topic")}
    success = _row(
        **common, **sent, partition=F.col("partition"), offset=offset, last_offset=offset, outcome=F.lit("ok")
    )
    failure = _row(
        **common,
        **sent,
        outcome=_ended(),
        error=F.concat_ws(": ", F.regexp_replace("exception", "^class ", ""), F.col("message")),
    )
    record = _row(
        **common,
        operation=F.lit("poll"),
        message_id=F.col("value"),
        topic=F.col("topic"),
        partition=F.col("partition"),
        offset=F.col("offset"),
        last_offset=F.col("offset"),
        record_count=F.lit(1),
        outcome=F.lit("ok"),
    )
    consumed = F.transform(
        F.filter("partitions", lambda p: p["minOffset"].isNotNull() & (p["minOffset"] >= 0)),
        lambda p: _row(
            **common,
            operation=F.lit("poll"),
            topic=p["topic"],
            partition=p["partition"],
            offset=p["minOffset"],
            last_offset=p["maxOffset"],
            record_count=p["count"],
            outcome=F.lit("ok"),
        ),
    )
    committed = F.transform(
        "offsets",
        lambda o: _row(
            **common,
            operation=F.lit("commit"),
            topic=o["topic"],
            partition=o["partition"],
            offset=o["offset"],
            last_offset=o["offset"],
            outcome=F.when(F.col("success"), "ok").otherwise("info"),
            error=F.col("error"),
        ),
    )
    return (
        F.when(F.col("operation").isNotNull(), F.array(ours))
        .when(name == "producer_send_success", F.array(success))
        .when(name == "producer_send_error", F.array(failure))
        .when(name == "record_data", F.array(record))
        .when(name == "records_consumed", consumed)
        .when(name == "offsets_committed", committed)
    )


def _ended() -> Column:
    """The outcome behind an exception of Java's: `fail` when it surely kept the record out, else `info`."""
    name = F.element_at(F.split("exception", r"\."), -1)
    unsent = (name == "TimeoutException") & F.coalesce(F.col("message").contains("etadata after"), F.lit(False))
    surely = unsent | name.isin(*_REFUSED) | name.endswith("AuthorizationException")
    return F.when(F.coalesce(surely, F.lit(False)), "fail").otherwise("info")


def _identity() -> Column:
    """The same operation said twice has the same id: who, what, which message, where and when it was called."""
    # A send that pends has no place yet: message and call time tell it apart. Anything else needs its place, and the
    # end where nobody said when it was called.
    called = F.col("called_at_us").isNotNull()
    told_apart = called & F.col("message_id").isNotNull() & (F.col("operation") == "send")
    place = [F.when(~told_apart, F.col(name)) for name in ("topic", "partition", "offset")]
    ended = F.when(~called, F.col("completed_at_us"))
    known = F.xxhash64("client", "thread", "operation", "message_id", "called_at_us", *place, ended)
    return F.when(F.col("bad_reason").isNull(), known)


def _call() -> Column:
    """The same for all lines of one call, as far as who called, and when, tells calls apart; null where it doesn't."""
    when = F.coalesce(F.col("called_at_us").cast("string"), "message_id")
    return F.when(when.isNotNull(), F.xxhash64("client", "thread", "operation", when))
