"""Reads that failed because of what a broker was made to say: the last error, or changed records, that came before."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.outcomes import is_failed_read
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import changes_records, error_of, touches_at
from notleader.spark_analysis.transforms.choices import CAUSES, as_cause
from notleader.spark_analysis.transforms.following import names_error
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import of_clients

_ASKED = ("Fetch", "ListOffsets")
# An error that the client names may have come before it was called: clients fetch ahead.
_NAMED_US = 10_000_000
# Of an error that it doesn't name all that is known is that the failure came right after it.
_UNNAMED_US = 1_000_000
# CORRUPT_MESSAGE, which no broker says of what a rule changed behind it; and what clients say that read it.
_CORRUPT = 2
_SAYS_CORRUPT = r"(?i)crc|checksum|corrupt|magic|bad_msg|invalid record|fetching the next record"
_PLACE = ("scope", "client", "topic", "code")


def refused_reads(rows: DataFrame, exchanges: DataFrame, names: DataFrame) -> DataFrame:
    """`operation_id` → `said` and `reads`, CAUSES: the rule whose error a failed read names, or came right after.

    `rows` are the history's, with `end_us`. A read has no exchange of its own: it is told with the last error that its
    client got for its topic (for any, where it names none) in answer to a Fetch or ListOffsets, and that may be the
    broker's own, which is no rule's. Records that a rule changed are such an error.
    """
    failed = rows.filter(is_failed_read()).select(
        "operation_id",
        "error",
        F.col("scope").alias("o_scope"),
        F.col("client").alias("o_client"),
        F.col("topic").alias("o_topic"),
        F.coalesce("called_at_us", "end_us").alias("called_us"),
        F.col("end_us").alias("at_us"),
    )
    answers = _errors(exchanges, names)
    places = answers.select(*_PLACE).distinct()
    its_topic = F.col("topic").isNull() | F.col("o_topic").isNull() | (F.col("topic") == F.col("o_topic"))
    asked = failed.join(broadcast(places), same("o_", "scope", "client") & its_topic).select(
        *_PLACE,
        "at_us",
        "operation_id",
        "called_us",
        (names_error(F.col("error"), F.col("code")) | _says_corrupt()).alias("named"),
    )
    both = answers.unionByName(asked, allowMissingColumns=True)
    is_read = F.col("operation_id").isNotNull()
    until_then = Window.partitionBy(*_PLACE).orderBy("at_us", is_read)
    answer = F.when(~is_read, F.struct("at_us", "t"))
    met = both.withColumn("last", F.last(answer, ignorenulls=True).over(until_then)).filter(is_read)
    ago_us = F.col("at_us") - F.col("last.at_us")
    # Who trips over a record reads it again and again.
    in_time = (ago_us <= _NAMED_US) | (F.col("code") == _CORRUPT)
    close = F.when(F.col("named"), in_time).otherwise(
        (ago_us <= _UNNAMED_US) & (F.col("last.at_us") >= F.col("called_us"))
    )
    found = (
        met.filter(close)
        .groupBy("operation_id")
        .agg(F.max_by(F.struct("last.t", "named"), F.struct("named", "last.at_us")).alias("f"))
        .filter(F.col("f.t").isNotNull())
    )
    cause = F.array(as_cause(F.col("f.t"), "read", F.col("f.named"), F.lit(0))).cast(CAUSES)
    return found.select(
        "operation_id", F.when(F.col("f.named"), cause).alias("said"), F.when(~F.col("f.named"), cause).alias("reads")
    )


def _errors(exchanges: DataFrame, names: DataFrame) -> DataFrame:
    """_PLACE, `at_us` and `t`: each error that came to a client's Fetch or ListOffsets; `t` null: the broker's own."""
    changed = (F.col("api_name") == "Fetch") & F.exists("touches", changes_records)
    in_one = F.exists("partitions", lambda p: F.coalesce(p["error_code"] != 0, F.lit(False)))
    wrong = F.coalesce(F.col("error_code") != 0, F.lit(False)) | F.coalesce(in_one, F.lit(False)) | changed
    asked = exchanges.filter(
        F.col("api_name").isin(*_ASKED) & (F.col("event") == "exchange") & F.col("response_at_us").isNotNull() & wrong
    )
    placed = asked.select("*", F.posexplode_outer("partitions").alias("place", "p"))
    here = touches_at(F.coalesce("place", F.lit(-1)))
    said = error_of("p")
    of_error = F.filter(here, lambda t: F.coalesce(t["error_code"] == said, F.lit(False)))
    of_records = F.filter(F.when(F.col("api_name") == "Fetch", here), changes_records)
    code = F.when(said != 0, said).when(F.size(of_records) > 0, F.lit(_CORRUPT))
    placed = placed.withColumns({"code": code, "t": F.get(F.when(said != 0, of_error).otherwise(of_records), F.lit(0))})
    return of_clients(placed.filter(F.col("code").isNotNull()), names).select(
        "scope",
        F.col("t_client").alias("client"),
        F.col("p.topic").alias("topic"),
        "code",
        F.col("response_at_us").alias("at_us"),
        "t",
    )


def _says_corrupt() -> Column:
    return (F.col("code") == _CORRUPT) & F.coalesce(F.rlike("error", F.lit(_SAYS_CORRUPT)), F.lit(False))
