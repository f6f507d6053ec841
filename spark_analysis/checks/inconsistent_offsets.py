"""Does one place in the log hold one record for everybody?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import (
    Check,
    Group,
    Meaning,
    Tables,
    as_cases,
    is_send,
    joined,
)
from notleader.spark_analysis.checks.phrases import because, count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.lives import in_one_life, with_lives
from notleader.spark_analysis.transforms.log import settled_by_log

_PLACE = ("scope", "topic", "partition", "offset")
_PAIRS = (("one", "other"), ("other", "one"), ("one_client", "other_client"), ("other_client", "one_client"))


class InconsistentOffsets(Check):
    """Offsets for which two clients, or a client and the log, name different messages."""

    name = "inconsistent_offsets"
    title = "Inconsistent offsets"
    brief = "{n} with different messages"
    counts = ("offset", "offsets")
    jepsen = "inconsistent offsets"
    needs = ("operations",)
    reading = True
    order = 16
    means = Meaning(
        invalid="one offset holds different messages, by what two calls or reads, or one and the log, say",
        valid=(
            "no such offset; a topic that was made anew (the broker appends at offset 0 again) is another topic from "
            "there on"
        ),
        unknown="no operation was told of, or nobody read, no log was given, and what clients said shows no case",
        evidence="acknowledgements and reads with a message id and an offset, and the log",
        cause="a rule that made up or changed the acknowledgement that told a wrong offset",
    )

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        named = _named(tables).groupBy(*_PLACE, "life")
        named = named.agg(F.min("message_id").alias("one"), F.max("message_id").alias("other"))
        differing = named.filter(F.col("one") != F.col("other")).select("scope")
        if tables.log is None:
            return differing
        return differing.unionByName(_acknowledged(tables).filter(_is_wrong()).select("scope"))

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        wrong = None if tables.log is None else _acknowledged(tables).filter(_is_wrong())
        named = _named(tables, _told_by())
        rows = (
            named.groupBy(*_PLACE, "life")
            .agg(
                F.min("message_id").alias("one"),
                F.max("message_id").alias("other"),
                F.min("at_us").alias("at_us"),
                F.min_by("client", "message_id").alias("one_client"),
                F.max_by("client", "message_id").alias("other_client"),
                F.flatten(F.collect_list("told_by")).alias("told_by"),
            )
            .filter(F.col("one") != F.col("other"))
            # A finding is a client's: the log is what it differs from.
            .withColumn("swapped", F.col("one_client") == "the log")
            .select(
                *_PLACE,
                "at_us",
                "told_by",
                *[
                    F.when(F.col("swapped"), F.col(second)).otherwise(F.col(first)).alias(first)
                    for first, second in _PAIRS
                ],
            )
        )
        if wrong is not None:
            # Who was told a wrong offset tells of it; that another read there what it is not told once more.
            places = wrong.select(*[F.col(name).alias(f"w_{name}") for name in _PLACE])
            rows = rows.join(places.distinct(), same("w_", *_PLACE), "left_anti")
        note = F.format_string(
            "offset %d is %s for %s and %s for %s", "offset", "one", "one_client", "other", "other_client"
        )
        first = F.get("told_by", F.lit(0))
        between_readers = from_exchanges(
            rows,
            self.name,
            "invalid",
            client=F.col("one_client"),
            message_id=F.col("one"),
            note=note,
            rule=joined(F.array_distinct("told_by.rule")),
            kind=joined(F.array_distinct("told_by.kind")),
            trouble=F.when(F.size("told_by") > 0, F.concat_ws(":", first["how"], first["did"], first["error_code"])),
        )
        return between_readers if wrong is None else between_readers.unionByName(self._told_wrong(wrong))

    def _told_wrong(self, wrong: DataFrame) -> DataFrame:
        """Acknowledged at an offset where the log has something else, or nothing while the message is elsewhere."""
        what = F.when(_is_another(), F.concat(F.lit("message "), F.col("log_here"))).otherwise(F.lit("no message"))
        wrong = wrong.withColumn("told_by", _told_by())
        # Several sends may have been told one offset.
        one = F.min_by(F.struct(*wrong.columns), "operation_id").alias("r")
        rows = wrong.groupBy(*_PLACE, "life").agg(one).select("r.*")
        note = F.concat(F.lit("it was told offset "), F.col("offset"), F.lit(", which is "), what, F.lit(" in the log"))
        return as_cases(rows, self.name, "invalid", "told_by", note=note, duration_us=F.lit(None))

    def sentence(self, group: Group) -> str:
        verb = "holds" if group.cases == 1 else "hold"
        what = f"{count(group.cases, 'offset')} of {place(group)} {verb} different messages"
        return f"{what}, by what clients or the log say{because(group) if group.rule else ''}"

    def all_clear(self, tables: Tables) -> str:
        return "every offset holds the same message for everybody"


def _acknowledged(tables: Tables) -> DataFrame:
    return tables.history.filter(is_send() & (F.col("outcome") == "ok"))


def _named(tables: Tables, told_by: Column | None = None) -> DataFrame:
    """Which message was at a place, by each client and the log: _PLACE, life, message_id, at_us, client, told_by."""
    acked = (
        _acknowledged(tables)
        .filter(~settled_by_log())
        .select(
            *_PLACE,
            "life",
            "message_id",
            _told_at().alias("at_us"),
            "client",
            (F.array() if told_by is None else told_by).alias("told_by"),
        )
    )
    nobody = F.array().alias("told_by")
    read = tables.delivered.filter(F.col("first_offset") == F.col("last_offset")).select(
        *_PLACE[:3], F.col("first_offset").alias("offset"), "life", "message_id", "at_us", "client", nobody
    )
    named = acked.unionByName(read)
    if tables.log is not None:
        records = tables.log.rows.filter(F.col("event") == "record").withColumns(
            {"at_us": F.lit(None).cast("long"), "client": F.lit("the log")}
        )
        anew = tables.capture.anew
        records = with_lives(records, tables.exchanges, F.col("at_us")) if anew else in_one_life(records)
        named = named.unionByName(records.select(*_PLACE, "life", "message_id", "at_us", "client", nobody))
    return named.filter(F.col("offset").isNotNull() & F.col("message_id").isNotNull() & F.col("partition").isNotNull())


def _is_wrong() -> Column:
    """Of an acknowledged send: by the log its message is elsewhere, or isn't there and another one is."""
    is_here = F.exists("landed", lambda p: (p["partition"] == F.col("partition")) & (p["offset"] == F.col("offset")))
    # A copy that was aborted is no place where it has landed, and yet the place that its sender was told.
    is_here |= F.coalesce(~_is_another(), F.lit(False))
    wrong = ((F.col("in_log") == "there") & ~is_here) | ((F.col("in_log") == "absent") & _is_another())
    return F.col("offset").isNotNull() & wrong


def _is_another() -> Column:
    return F.col("log_here") != F.col("message_id")


def _told_by() -> Column:
    """The rules that made up or changed the answer to a send."""
    return F.filter("touched_by", lambda c: c["did"].isin("altered_answer", "answered"))


def _told_at() -> Column:
    return F.coalesce("completed_at_us", "called_at_us")
