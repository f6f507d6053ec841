"""Of which operations the capture can't tell what became of them on the wire, although rules were at work there."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import any_did
from notleader.spark_analysis.transforms.obstacles import CUTS, PAUSE_US, connection, ends_of

UNSEEN = "unseen"
"""`trouble` of a history row whose own requests nobody can tell from others that a rule touched."""

PERHAPS = "perhaps"
"""`trouble` of a case that rules were near to, where what is known names none of them and clears none."""

LITTLE = "little"
"""`trouble` of a case whose time no rule accounts for, although one had answered it with an error."""

UNRECORDED = "unrecorded"
"""`trouble` of a case that no rule is known to have had a hand in, near a gap of the capture."""

_WRITES = ("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
_SURE = ("message_id", "sequence")
_MOST = 10_000
_STILL_OPEN = 2**62
"""µs: the end of a connection whose end the capture doesn't have; PAUSE_US more still fits."""


def with_unseen(history: DataFrame, exchanges: DataFrame, names: DataFrame) -> DataFrame:
    """`history` with UNSEEN as `trouble` of sends whose requests aren't known, where rules touched their client's.

    Below level `record` a capture names no messages. What is found out without them stays: a send that has causes is
    told with these. A client id that several clients have on the wire may be any of them.
    """
    struck = _struck(exchanges)
    by_name = names.select(
        F.col("scope").alias("n_scope"), F.col("wire_id").alias("n_wire_id"), F.col("client").alias("u_client")
    )
    same = F.col("scope").eqNullSafe(F.col("n_scope")) & (F.col("client_id") == F.col("n_wire_id"))
    # What follows from it may come some seconds later.
    span = ("from_us", (F.col("until_us") + PAUSE_US).alias("until_us"))
    theirs = struck.join(broadcast(by_name), same, "left")
    spans = (
        _merged(theirs.select(F.col("scope").alias("u_scope"), "u_client", *span))
        .groupBy("u_scope", "u_client")
        .agg(F.slice(F.array_sort(F.collect_list(F.struct("from_us", "until_us"))), 1, _MOST).alias("struck"))
    )
    of_scope = F.col("scope").eqNullSafe(F.col("u_scope"))
    own = spans.filter(F.col("u_client").isNotNull())
    anybody_s = spans.filter(F.col("u_client").isNull()).select(
        F.col("u_scope").alias("a_scope"), F.col("struck").alias("struck_anybody")
    )
    rows = history.join(broadcast(own), of_scope & (F.col("client") == F.col("u_client")), "left").join(
        broadcast(anybody_s), F.col("scope").eqNullSafe(F.col("a_scope")), "left"
    )
    begun = F.coalesce("called_at_us", "completed_at_us", F.lit(0))

    def meanwhile(spans: str) -> Column:
        found = F.exists(
            spans,
            # A failure may follow from what was long before: a client that a rule broke stays broken.
            lambda s: (
                ((s["until_us"] >= begun) | (F.col("outcome") != "ok"))
                & (s["from_us"] <= F.coalesce("completed_at_us", s["from_us"]))
            ),
        )
        return F.coalesce(found, F.lit(False))

    unseen = (
        (F.col("operation") == "send")
        & ~F.col("match_kind").isin(*_SURE)
        & ~F.col("trouble").eqNullSafe(F.lit("unsent"))
        & (meanwhile("struck") | meanwhile("struck_anybody"))
    )
    return rows.withColumn("trouble", F.when(unseen, F.lit(UNSEEN)).otherwise(F.col("trouble"))).select(
        *history.columns
    )


def with_unwritten(history: DataFrame, exchanges: DataFrame) -> DataFrame:
    """`history` with PERHAPS as `trouble` of reads that never ended, where rules touched what anybody writes with.

    Who waits for records may wait for what others could not write.
    """
    written = exchanges.filter(F.col("api_name").isin(*_WRITES) & (F.size("touches") > 0))
    written = written.select(F.col("scope").alias("w_scope")).distinct().withColumn("is_touched", F.lit(True))
    rows = history.join(broadcast(written), F.col("scope").eqNullSafe(F.col("w_scope")), "left")
    reads_on = (F.col("operation") == "poll") & (F.col("outcome") == "pending") & F.col("is_touched")
    trouble = F.when(reads_on, F.lit(PERHAPS)).otherwise(F.col("trouble"))
    return rows.withColumn("trouble", trouble).select(*history.columns)


def _struck(exchanges: DataFrame) -> DataFrame:
    """scope, client_id, from_us, until_us: Produce requests that rules touched, and connections that they took.

    What needs no acknowledgement its client has called done before it is read here, and what lay in a connection that
    was taken nobody has read.
    """
    batches = exchanges.filter((F.col("event") == "exchange") & (F.col("api_name") == "Produce"))
    batches = batches.filter(F.size("touches") > 0)
    done_before = F.when(F.col("acks") == 0, F.lit(PAUSE_US)).otherwise(F.lit(0))
    taken = exchanges.filter((F.col("event") == "fault") & any_did("touches", *CUTS)).select(
        "scope", "client_id", connection().alias("connection"), "request_at_us"
    )
    lines = taken.join(broadcast(ends_of(exchanges)), "connection", "left")
    return batches.select(
        "scope",
        "client_id",
        (F.col("request_at_us") - done_before).alias("from_us"),
        F.coalesce("response_at_us", "request_at_us").alias("until_us"),
    ).unionByName(
        lines.select(
            "scope",
            "client_id",
            (F.col("request_at_us") - PAUSE_US).alias("from_us"),
            F.greatest("request_at_us", F.coalesce("ended_us", F.lit(_STILL_OPEN))).alias("until_us"),
        )
    )


def _merged(spans: DataFrame) -> DataFrame:
    """u_scope, u_client, from_us, until_us: spans of a client that overlap as one."""
    in_order = Window.partitionBy("u_scope", "u_client").orderBy("from_us", "until_us")
    reached = F.max("until_us").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.coalesce(F.col("from_us") > F.col("reached"), F.lit(True))
    numbered = spans.withColumn("reached", reached).withColumn("place", F.count_if(apart).over(in_order))
    return numbered.groupBy("u_scope", "u_client", "place").agg(
        F.min("from_us").alias("from_us"), F.max("until_us").alias("until_us")
    )
