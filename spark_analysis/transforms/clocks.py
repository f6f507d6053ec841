"""How far each client's clock was from the proxy's, measured from the messages that both saw, and taken out.

A send is called before its request is seen and completed after its answer is, so every message that both sides name
bounds the difference; only a clock that these bounds prove wrong is corrected. A consumer is handed a record after the
answer that brought it, and soon after it at least once: a reader whose quickest record took seconds has another clock.
Where the bounds contradict each other it was set meanwhile: no one difference is right, and the least that one of them
allows is taken out.

Where a capture names no messages, those that begin or end a batch are met by the offset that the broker gave them. It
recurs where a topic is made anew, or in another cluster: it takes several of them that agree.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast, table_of
from notleader.spark_analysis.profile import CaptureProfile
from notleader.spark_analysis.transforms.attempts import was_answered, with_topics
from notleader.spark_analysis.transforms.keys import same

# More messages than this bound a clock no better.
_ENOUGH = 50_000
_MOST_CLOCKS = 10_000
# Fewer than that may agree by chance: offsets of another run, or of a topic's life that was not captured.
_FEWEST_BY_OFFSET = 10
_AHEAD = "struct<c_source:string,c_client:string,ahead_us:bigint>"
_OF_FILE = "struct<f_source:string,file_us:bigint>"
_TIMES = ("called_at_us", "returned_at_us", "completed_at_us")


ONE_CLOCK_US = 1_000
"""By how much what was seen of one clock may contradict itself: so far is a moment from its being written down."""


class Clock(NamedTuple):
    """One client's clock, as one file of outcome lines has it: `ahead_us` of the proxy's, by that many messages.

    `set_by_us`: by how much it was set meanwhile at least, either way; 0 where it may be one clock.
    """

    source: str
    client: str
    ahead_us: int
    messages: int
    set_by_us: int = 0


def clocks(told: DataFrame, exchanges: DataFrame, capture: CaptureProfile, skew_ms: int) -> list[Clock]:
    """The clocks that could be measured, worst first; `ahead_us` is 0 where one may be right."""
    by_id = capture.batches_with_ids > 0 or capture.fetches_with_ids > 0
    if not by_id and (capture.anew or not capture.produce_batches):
        return []
    few = max(capture.produce_batches // _ENOUGH, 1)
    named = with_topics(exchanges) if capture.unnamed_topics else exchanges
    said, seen = (_said(told), _seen(named)) if by_id else _placed(told, named, capture)
    if few > 1:
        said, seen = (rows.filter(F.pmod("_key", F.lit(few)) == 0) for rows in (said, seen))
    # A message that was sent twice doesn't say which call an attempt belongs to, nor which record a read brought.
    once = said.groupBy("_key").agg(
        F.count_if("is_send").alias("calls"),
        F.collect_list(F.struct("is_send", "source", "client", "wire_id", *_TIMES[::2], "ok")).alias("said"),
    )
    once = once.filter(F.col("calls") <= 1).select("_key", F.explode("said").alias("s"))
    once = once.withColumn("is_send", F.col("s.is_send"))
    met = once.join(seen, ["_key", "is_send"])
    # Who names no messages often tells whole milliseconds, cut off.
    cut_us = F.lit(0 if by_id else 999)
    of_reader = F.coalesce(F.col("s.wire_id") == F.col("reader"), F.lit(True))
    bounds = (
        met.groupBy("s.source", "s.client")
        .agg(
            F.max(F.when(F.col("is_send"), F.col("s.called_at_us") - F.col("from_us"))).alias("least"),
            F.min(
                F.when(F.col("is_send") & F.col("s.ok"), F.col("s.completed_at_us") - F.col("until_us") + cut_us)
            ).alias("most"),
            F.min(F.when(~F.col("is_send") & of_reader, F.col("s.completed_at_us") - F.col("until_us"))).alias("read"),
            F.count("*").alias("messages"),
        )
        .limit(_MOST_CLOCKS)
        .collect()
    )
    found = [
        Clock(row.source, row.client, _ahead(row.least, row.most, row.read, skew_ms), row.messages, _set_by(row))
        for row in bounds
        if by_id or (row.messages >= _FEWEST_BY_OFFSET and not _set_by(row))
    ]
    return sorted(found, key=lambda clock: -abs(clock.ahead_us))


def _ahead(least: int | None, most: int | None, read: int | None, skew_ms: int) -> int:
    """What a clock is ahead, from the bounds that sends and reads set; 0 where it may be right."""
    if read is not None and (read < 0 or (least is None and most is None and read > 2000 * skew_ms)):
        most = read if most is None else min(most, read)
        least = read if least is None else least
    if (least is None or least <= 0) and (most is None or most >= 0):
        return 0
    known = [bound for bound in (least, most) if bound is not None]
    if least is not None and most is not None and least > most + ONE_CLOCK_US:
        nearest = min(known, key=abs) if (least > 0) == (most > 0) else 0
        return nearest if abs(nearest) > ONE_CLOCK_US else 0
    return sum(known) // len(known)


def _set_by(row: Row) -> int:
    """By how much the bounds of a producer's clock contradict each other."""
    by = row.least - row.most if row.least is not None and row.most is not None else 0
    return by if by > ONE_CLOCK_US else 0


def in_proxy_time(told: DataFrame, found: list[Clock]) -> DataFrame:
    """`told` with the times of the clients in `found` as the proxy's clock would have shown them.

    A client that could not be measured has the clock of the others in its file: these are of one machine, as a rule.
    """
    spark = told.sparkSession
    of_clients = [{"c_source": c.source, "c_client": c.client, "ahead_us": c.ahead_us} for c in found]
    ahead = table_of(spark, of_clients, _AHEAD)
    by_file = {clock.source: clock.ahead_us for clock in sorted(found, key=lambda clock: clock.messages)}
    of_file = table_of(spark, [{"f_source": source, "file_us": us} for source, us in by_file.items()], _OF_FILE)
    joined = told.join(broadcast(ahead), same("c_", "source", "client"), "left")
    joined = joined.join(broadcast(of_file), same("f_", "source"), "left")
    right = {name: F.col(name) - F.coalesce("ahead_us", "file_us", F.lit(0)) for name in _TIMES}
    return joined.withColumns(right).select(*told.columns)


def _said(told: DataFrame) -> DataFrame:
    """_key, is_send, source, client, wire_id, called_at_us, completed_at_us, ok: what can be met on the wire."""
    named = told.filter(
        F.col("bad_reason").isNull() & F.col("message_id").isNotNull() & F.col("operation").isin("send", "poll")
    )
    return named.select(
        # Whoever passes a record on with its headers does so at its own time.
        F.xxhash64("topic", "message_id").alias("_key"),
        (F.col("operation") == "send").alias("is_send"),
        "source",
        "client",
        F.coalesce("client_id", "client").alias("wire_id"),
        *_TIMES[::2],
        (F.col("outcome") == "ok").alias("ok"),
    )


def _placed(told: DataFrame, exchanges: DataFrame, capture: CaptureProfile) -> tuple[DataFrame, DataFrame]:
    """What `_said` and `_seen` give, of acknowledged sends whose offset is the first or the last of a batch.

    Of several runs each has offsets of its own. An offset that was answered twice, or differently than the broker did,
    is nobody's.
    """
    of_run = ["run_id"] if len(capture.runs) > 1 else []
    acknowledged = told.filter(
        (F.col("operation") == "send") & (F.col("outcome") == "ok") & F.col("partition").isNotNull()
    ).filter(F.col("offset").isNotNull())
    said = acknowledged.select(
        F.xxhash64(*of_run, "topic", "partition", "offset").alias("_key"),
        F.lit(True).alias("is_send"),
        "source",
        "client",
        F.coalesce("client_id", "client").alias("wire_id"),
        *_TIMES[::2],
        F.lit(True).alias("ok"),
    )
    batches = (
        exchanges.filter((F.col("event") == "exchange") & (F.col("api_name") == "Produce"))
        .filter(F.col("outcome") == "answered")
        .select("run_id", "request_at_us", "response_at_us", F.explode("partitions").alias("p"))
        .filter((F.coalesce("p.error_code", F.lit(0)) == 0) & (F.col("p.base_offset") >= 0))
    )
    last = F.col("p.base_offset") + F.greatest(F.coalesce("p.record_count", F.lit(1)), F.lit(1)) - 1
    ends = batches.withColumn("offset", F.explode(F.array_distinct(F.array("p.base_offset", last))))
    seen = (
        ends.groupBy(F.xxhash64(*of_run, "p.topic", "p.partition_index", "offset").alias("_key"))
        .agg(
            F.min("request_at_us").alias("from_us"),
            F.max("request_at_us").alias("to_us"),
            F.min("response_at_us").alias("until_us"),
        )
        .filter(F.col("from_us") == F.col("to_us"))
        .select("_key", F.lit(True).alias("is_send"), F.lit(None).cast("string").alias("reader"), "from_us", "until_us")
    )
    return said, seen


def _seen(exchanges: DataFrame) -> DataFrame:
    """_key, is_send, reader, from_us, until_us: when a message's first request came and its first good answer left.

    Of a Fetch it is the first answer that brought the message to a client: it may be fetched again.
    """
    parts = exchanges.filter((F.col("event") == "exchange") & F.col("api_name").isin("Produce", "Fetch")).select(
        (F.col("api_name") == "Produce").alias("is_send"),
        "client_id",
        "request_at_us",
        "response_at_us",
        was_answered(F.col("outcome")).alias("answered"),
        F.explode("partitions").alias("p"),
    )
    rows = parts.filter(F.size("p.message_ids") > 0).select("*", F.explode("p.message_ids").alias("message_id"))
    good = F.col("answered") & (F.coalesce("p.error_code", F.lit(0)) == 0)
    reader = F.when(~F.col("is_send"), F.col("client_id"))
    return (
        rows.filter(F.col("message_id").isNotNull())
        .groupBy(F.xxhash64("p.topic", "message_id").alias("_key"), "is_send", reader.alias("reader"))
        .agg(F.min("request_at_us").alias("from_us"), _end(good).alias("until_us"))
    )


def _end(good: Column) -> Column:
    first = F.min(F.when(good & F.col("is_send"), F.col("response_at_us")))
    return F.coalesce(first, F.min(F.when(good & ~F.col("is_send"), F.col("response_at_us"))))
