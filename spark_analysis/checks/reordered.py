"""Do records of one sender lie in the log in the order of the calls?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import because, by_client, count, place
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import (
    all_but_last,
    any_did,
    kept_from_broker,
    was_answered,
)
from notleader.spark_analysis.transforms.clocks import ONE_CLOCK_US
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.landed import with_passed
from notleader.spark_analysis.transforms.log import settled_by_log

_CHANGES = ("altered_answer", "altered_request", "answered", "repeated")


class Reordered(Check):
    """Sends of one thread to one partition whose offset is smaller than that of a call that was over before.

    A coroutine's thread calls while earlier calls of its own still wait: they have no order between them. Nor have
    sends of two producers: those that were captured must have had a connection in common, which no two producers have.
    Where a client's clock was set meanwhile, which what was captured proves, its order must be that of the wire, too.

    Their offsets are those in the log, of several copies the first: what is not there has no place. Without a log, or
    where it can't tell, they are those that the client was told, or a smaller one at which a consumer got a copy; what
    may have a first copy that nobody saw has no place.
    """

    name = "reordered"
    title = "Reordered"
    brief = "{n} out of order"
    brief_unknown = "{n} perhaps out of order, by a clock that was set meanwhile"
    jepsen = "nonmonotonic send"
    needs = ("sends",)
    reading = True
    order = 13
    means = Meaning(
        invalid=(
            "of two acknowledged calls of a thread, with a connection in common where they were captured, the later "
            "has the smaller offset in a partition, and the earlier had returned before it"
        ),
        valid=(
            "no such pair; a topic that was made anew is another topic from there on, and what readers passed over "
            "lies nowhere"
        ),
        unknown=(
            "no send was told of, or nobody read, no log was given, and the offsets that were told show no case; or "
            "the client's clock was set while it sent (a call was made after its request, or ended before its answer, "
            "by a clock that is right for the others), and the earlier was not first on the wire"
        ),
        evidence=(
            "the offsets in the log, of several copies the first, without what is not there; without the log those "
            "that clients were told, or a smaller one at which a consumer got the record"
        ),
        cause=(
            "why the overtaken one was sent again; without a retry on the wire, what it had waited for where it came "
            "there after the other, or a rule that changed what was said"
        ),
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.ok > 1

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        return _overtaken(tables.history)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        told = ("operation_id", "slow_by", "retried_by", "touched_by", "trouble", "attempts", "source", "client")
        before = F.struct(*told)
        rows = (
            tables.history.drop("scope", "partition", "offset")
            .join(_overtaken(_with_places(tables), of_one_producer=True), "operation_id")
            .join(
                tables.history.select(before.alias("before")),
                F.col("before.operation_id") == F.col("earlier.operation_id"),
            )
            .join(broadcast(_set_meanwhile(tables.history)), same("s_", "scope", "source", "client"), "left")
        )
        first, then = (F.get(attempts, F.lit(0)) for attempts in ("before.attempts", "attempts"))
        known = F.col("s_source").isNull() | F.coalesce(first["request_at_us"] < then["request_at_us"], F.lit(False))
        # The one that was overtaken was sent again; without a retry a rule can only have changed what was said.
        again = F.when(F.size("before.retried_by") > 0, F.col("before.retried_by")).otherwise(F.col("retried_by"))
        # What was read on the wire after the one that overtook it had waited for what kept it from there.
        late = F.when(_came_before(then, first), F.col("before.slow_by"))
        both = F.array_union("touched_by", F.col("before.touched_by"))
        changed = F.filter(both, lambda c: c["did"].isin(*_CHANGES))
        overtaken = rows.withColumns(
            {
                "verdict": F.when(known, "invalid").otherwise("unknown"),
                "overtaken_by": F.when(F.size(again) > 0, again).when(F.size(late) > 0, late).otherwise(changed),
                "trouble": F.coalesce("before.trouble", "trouble"),
                "attempts": F.concat(F.slice("before.attempts", 1, 5), F.slice("attempts", 1, 5)),
            }
        )
        note = F.concat(
            F.lit("offset "),
            F.col("offset"),
            F.lit(", though message "),
            F.coalesce(F.col("earlier.message_id"), F.lit("before it")),
            F.lit(" of an earlier call has "),
            F.col("earlier.offset"),
        )
        return as_cases(overtaken, self.name, F.col("verdict"), "overtaken_by", note=note)

    def sentence(self, group: Group) -> str:
        verb = "lies" if group.cases == 1 else "lie"
        what = f"{count(group.cases, 'send')} to {place(group)}{by_client(group)}"
        if group.verdict == "unknown":
            set_ = f"by a clock that was set meanwhile: {'its' if group.cases == 1 else 'their'} order is not known"
            return f"{what} {verb} in the log before an earlier call's record {set_}"
        one = "one of the two" if group.cases == 1 else "of each two one"
        return f"{what} {verb} in the log before an earlier call's record{because(group, one)}"

    def all_clear(self, tables: Tables) -> str:
        return "every partition holds its records in the order of the calls"


def _has_a_first_copy() -> Column:
    """An attempt before the last may have reached the log: nobody knows at which offset, and it came first."""

    def arrived(a: Column) -> Column:
        own = was_answered(a["outcome"]) & ~any_did(a["touches"], "altered_answer")
        refused = own & (F.coalesce(a["error_code"], F.lit(0)) != 0)
        return ~kept_from_broker(a) & ~refused

    return F.coalesce(F.exists(all_but_last(), arrived), F.lit(False))


def _came_before(one: Column, other: Column) -> Column:
    """Whether an attempt was read before another; of those that were read at once their connection has the order."""
    moment = one["request_at_us"] == other["request_at_us"]
    in_turn = (one["connection_id"] == other["connection_id"]) & (one["exchange_seq"] < other["exchange_seq"])
    return (one["request_at_us"] < other["request_at_us"]) | (moment & in_turn)


def _set_meanwhile(history: DataFrame) -> DataFrame:
    """s_scope, s_source, s_client: whose clock was no one clock, by calls and requests that are each other's for sure.

    A call comes before its request, and an acknowledgement after its answer: each bounds what the clock is ahead.
    """
    sure = F.filter("attempts", lambda a: a["match_kind"].isin("message_id", "sequence", "offset"))
    good = F.filter(sure, lambda a: was_answered(a["outcome"]) & (F.coalesce(a["error_code"], F.lit(0)) == 0))
    least = F.col("called_at_us") - F.get(sure, F.lit(0))["request_at_us"]
    most = F.col("completed_at_us") - F.array_min(F.transform(good, lambda a: a["response_at_us"]))
    return (
        history.filter(is_send() & (F.col("outcome") == "ok"))
        .groupBy(*[F.col(name).alias(f"s_{name}") for name in ("scope", "source", "client")])
        .agg(F.max(least).alias("least"), F.min(most).alias("most"))
        .filter(F.col("least") > F.col("most") + ONE_CLOCK_US)
        .drop("least", "most")
    )


def _with_places(tables: Tables) -> DataFrame:
    """The history without sends of which readers show that they are nowhere: these lie before and behind nothing."""
    if not tables.outcomes.polled:
        return tables.history
    nowhere = is_send() & ~settled_by_log() & ~F.col("transactional") & (F.size("landed") == 0)
    unseen = tables.history.filter(nowhere & F.col("offset").isNotNull())
    gone = with_passed(unseen, tables.in_order, tables.exchanges, tables.operations, tables.names).filter("passed")
    return tables.history.join(gone.select("operation_id"), "operation_id", "left_anti")


def _overtaken(history: DataFrame, *, of_one_producer: bool = False) -> DataFrame:
    """scope, operation_id, partition, offset, `earlier`: sends that lie before one whose call was over before theirs.

    With `of_one_producer` a send is compared with those that went over one of its connections: two processes that
    write one file of outcomes are one client and one thread by their names. A producer that connects anew sends again
    there what it lost, so that what overtook that shares the connection. Without it there may be rows too many.
    Of several such calls `earlier` (offset, message_id, operation_id) is the one that lies furthest behind. There is a
    row for each send until the last filter leaves hardly any: what a case tells of them is looked up afterwards.
    """
    first_copy = F.get("landed", F.lit(0))
    # Of a message that the application sent several times nobody knows which copy is which call's.
    calls = F.count("*").over(
        Window.partitionBy("scope", "topic", F.coalesce("message_id", F.col("operation_id").cast("string")))
    )
    # What was acknowledged last may be the second copy; a reader who got the first shows where the record went.
    before = (
        (first_copy["seen_by"] == "consumer")
        & first_copy["partition"].eqNullSafe(F.col("partition"))
        & (first_copy["offset"] < F.col("offset"))
    )
    there = F.when((first_copy["seen_by"] == "log") | before, F.struct(first_copy["partition"], first_copy["offset"]))
    seen = F.coalesce(first_copy["seen_by"] == "consumer", F.lit(False))
    # In the same microsecond there is no order: the frame ends one before. Who doesn't say when it returned did so at
    # once.
    moments = F.array(
        F.struct(F.col("called_at_us").alias("at_us"), F.lit(True).alias("asks")),
        F.struct(F.coalesce("returned_at_us", "called_at_us").alias("at_us"), F.lit(False).alias("asks")),
    )
    placed = (
        history.filter(is_send())
        .withColumn("there", there)
        .withColumn("there", F.when(calls == 1, F.col("there")))
        .filter((F.col("outcome") == "ok") & F.col("called_at_us").isNotNull())
        .filter(F.when(settled_by_log(), F.col("in_log") == "there").otherwise(seen | ~_has_a_first_copy()))
        .withColumns({name: F.coalesce(f"there.{name}", name) for name in ("partition", "offset")})
    )
    lines = F.lit(None).cast("bigint")
    if of_one_producer:
        each = F.transform("attempts", lambda a: F.xxhash64(a["run_id"], a["proxy_id"], a["connection_id"]))
        lines = F.explode_outer(F.array_distinct(each))
    # Each call twice in time: it asks when it is made, and counts for those that are made after it has returned.
    in_time = (
        Window.partitionBy("scope", "client", "thread", "topic", "partition", "life", "line")
        .orderBy("moment.at_us")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    over = F.when(~F.col("moment.asks"), F.struct("offset", "message_id", "operation_id"))
    found = (
        placed.withColumn("line", lines)
        .withColumn("moment", F.explode(moments))
        .withColumn("earlier", F.max(over).over(in_time))
        .filter(F.col("moment.asks") & (F.col("offset") < F.col("earlier.offset")))
    )
    of = ("scope", "operation_id", "partition", "offset")
    if of_one_producer:
        found = found.groupBy(*of).agg(F.max("earlier").alias("earlier"))
    return found.select(*of, "earlier")
