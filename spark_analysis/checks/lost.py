"""Is every acknowledged record in the log?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import because, sends
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.attempts import (
    any_did,
    kept_from_broker,
    was_answered,
)
from notleader.spark_analysis.transforms.choices import CAUSES, as_cause
from notleader.spark_analysis.transforms.intervals import interval, join_offsets
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.landed import with_passed
from notleader.spark_analysis.transforms.unseen import UNSEEN

_LOSES = ("answered", "altered_request", "altered_answer", "swallowed_request", "garbled")
_KEEPS = ("cut", "swallowed_answer", "silenced", "garbled", "kept_behind")
_KEPT_AWAY = ("own:answered", "own:swallowed_request", "own:cut", "likely:unread")


class Lost(Check):
    """Acknowledged sends that are not in the log; without it, those that a consumer read past without getting them.

    Not lost: what is in a transaction that was aborted, and what compaction or retention deleted. Without a log a send
    beyond what any consumer read, without an offset, or in a transaction is not judged: unknown.
    """

    name = "lost"
    title = "Lost though acknowledged"
    brief = "{n} acknowledged and lost"
    brief_unknown = "{n} acknowledged, and not known to be in the log"
    jepsen = "lost write"
    needs = ("sends",)
    # Valid is what was read, by a consumer or in the log: rows missing from the capture hide nothing from that.
    reading = True
    order = 11
    means = Meaning(
        invalid=(
            "acknowledged, and the log was read and does not have it, or only from before the run; without the log: "
            "acknowledged with an offset, outside of a transaction, and a consumer went past that offset without "
            "getting the record, or acknowledged though no request that carried it reached the broker"
        ),
        valid=(
            "every acknowledged record is in the log, in a transaction that was aborted, or behind a later "
            "record of its key in a compacted topic; without the log: a consumer got every one; or nothing was "
            "acknowledged"
        ),
        unknown=(
            "the log could not be read there, was read before the send, begins behind its offset by now, is that of a "
            "topic made anew since (its id is another, or the broker appended at offset 0 again), or holds the send in "
            "a transaction that had not ended; without the log: no consumer read that far, or it was told to go on "
            "behind it, it has no offset, it was sent in a transaction, or nobody read at all"
        ),
        evidence="acknowledgements with their offsets, the log, and what consumers got",
        cause=(
            "a rule that answered, changed or swallowed the request of that record, with an error in the answer only "
            "where no request with it reached the broker; or (likely) that cut or silenced the connection in whose "
            "socket it lay unread; or that kept another batch from its answer, whose sequence this one was sent with"
        ),
    )

    def suspects(self, tables: Tables, options: Options) -> Column:
        # Whoever read it before a replica without it was elected has it; the log has not.
        missing = (F.col("landed_count") == 0) | F.coalesce(F.col("in_log") == "absent", F.lit(False))
        missing &= ~_accounted_for()
        return is_send() & (F.col("outcome") == "ok") & missing

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        unseen = tables.history.filter(self.suspects(tables, options))
        if tables.log is None and not tables.outcomes.polled:
            # Nobody read: only of what never reached the broker it is known that it isn't there.
            unseen = unseen.filter(_never_arrived())
        judged = with_passed(unseen, tables.in_order, tables.exchanges, tables.operations, tables.names)
        read = interval(F.col("first_offset"), F.col("last_offset"))
        at_offset = tables.delivered.select(*read, F.col("message_id").alias("i_message_id"))
        others = (
            join_offsets(
                judged.filter("passed").select("operation_id", "scope", "topic", "partition", "offset"), at_offset
            )
            .groupBy("operation_id")
            .agg(F.min("i_message_id").alias("other"))
        )
        rows = judged.join(others, "operation_id", "left")
        said = F.col("in_log")
        # What no request took to the broker nobody has deleted there.
        deleted = (said == "deleted") & ~_never_arrived()
        undecided_by_log = (said == "open") | deleted
        by_log = F.coalesce((said == "absent") | undecided_by_log, F.lit(False))
        note = (
            F.when(said == "open", F.lit("in a transaction that had not ended when the log was read"))
            .when(deleted, F.lit("it may have been deleted by retention or compaction"))
            .when(
                (said == "absent") & (F.col("landed_count") > 0), F.lit("a consumer got it, and the log has it no more")
            )
            .when((said == "absent") & F.col("log_here").isNotNull(), _holds("log_here"))
            .when(said == "absent", F.lit("the log does not have it"))
            .when(_never_arrived(), F.lit("no request that carried it reached the broker"))
            .when(F.col("offset").isNull(), F.lit("acknowledged without an offset"))
            .when(F.col("transactional"), F.lit("sent in a transaction, which may have been aborted"))
            .when(~F.col("passed"), F.lit("no consumer read past its offset"))
            .when(F.col("other").isNotNull(), _holds("other"))
            .otherwise(F.concat(F.lit("no consumer got offset "), F.col("offset")))
        )
        read_past = ~by_log & (_never_arrived() | (F.col("passed") & ~F.col("transactional")))
        verdict = F.when((said == "absent") | read_past, "invalid").otherwise("unknown")
        # What only held it, or told of an error, lost nothing where another request took it to the broker after that.
        rows = rows.withColumn(
            "lost_by",
            F.filter(
                "touched_by",
                lambda c: (
                    ((F.coalesce(c["error_code"], F.lit(0)) == 0) | _never_arrived())
                    & (
                        c["did"].isin(*_LOSES)
                        | ((c["did"] == "cut") & (_never_arrived() | _went_unanswered()))
                        | (c["how"] == "unread")
                    )
                ),
            ),
        )
        if tables.capture.faulted:
            rows = rows.join(_taken_for_another(unseen, tables.attempts), "operation_id", "left")
            of_another = F.coalesce("taken_by", F.array().cast(CAUSES))
            rows = rows.withColumn("lost_by", F.when(F.size("lost_by") > 0, F.col("lost_by")).otherwise(of_another))
        why = (
            F.when(undecided_by_log, said)
            .when(F.col("offset").isNull(), F.lit("placeless"))
            .when(F.col("transactional"), F.lit("in_transaction"))
            .otherwise(F.lit("ahead"))
        )
        undecided = (verdict == "unknown") & ~F.col("trouble").eqNullSafe(UNSEEN)
        # Without the names of messages nobody can tell two batches of one sequence apart.
        guessed = F.col("match_kind") != "message_id"
        untold = guessed & (F.size("lost_by") == 0) & (F.size("touched_by") > 0)
        trouble = F.when(undecided, why).when(untold, UNSEEN).otherwise(F.col("trouble"))
        own = undecided | untold
        return as_cases(rows, self.name, verdict, "lost_by", note=note, trouble=trouble, own_trouble=own)

    def sentence(self, group: Group) -> str:
        verb = "was" if group.cases == 1 else "were"
        them, they, their = ("it", "it", "its") if group.cases == 1 else ("them", "they", "their")
        if group.verdict == "unknown":
            unjudged = {
                "open": f"{they} {verb} in a transaction that had not ended when the log was read",
                "deleted": f"{they} may have been deleted by retention or compaction",
                "placeless": f"{they} had no offset of {their} own",
                "in_transaction": f"{they} {verb} sent in a transaction, which may have been aborted",
                "ahead": f"nobody read the log past {them}, or whoever did was told to go on there",
            }
            unseen = f"nobody read the log past {them}, or {they} had no offset of {their} own or may be deleted by now"
            why = unjudged.get(group.trouble or "", unseen)
            return f"{sends(group)} {verb} acknowledged but cannot be judged: {why}"
        if (group.trouble or "").startswith(_KEPT_AWAY):
            what = f"no request with {them} reached the broker"
        else:
            what = f"the log was read past {them} and does not have {them}"
        return f"{sends(group)} {verb} acknowledged and lost: {what}{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        if tables.log is not None:
            return f"all {tables.outcomes.ok:,} acknowledged sends are in the log, but for what Kafka itself took out"
        if not tables.outcomes.polled:
            return "no acknowledged send is missing"
        return f"all {tables.outcomes.ok:,} acknowledged sends were read by a consumer"


def _taken_for_another(sends: DataFrame, attempts: DataFrame) -> DataFrame:
    """`operation_id` → `taken_by`: what kept a batch of other messages from its answer that has the sequence of one.

    The broker acknowledges the second as a copy of the first. A client that loses an answer may count anew.
    """
    batch = ("scope", "topic", "partition_index", "producer_id", "producer_epoch", "base_sequence")
    numbered = attempts.filter(F.col("base_sequence") >= 0)
    own = sends.select("operation_id", F.explode("attempts.attempt_id").alias("attempt_id")).join(
        numbered, "attempt_id"
    )
    kept = F.filter("touches", lambda t: t["did"].isin(*_KEEPS))
    by = F.transform(kept, lambda t: as_cause(t, "follows", F.lit(False), F.lit(0)))
    first = numbered.filter(any_did("touches", *_KEEPS)).select(
        *[F.col(name).alias(f"f_{name}") for name in batch],
        F.col("request_at_us").alias("f_at_us"),
        F.col("message_ids").alias("f_message_ids"),
        by.alias("by"),
    )
    of_other_messages = ~F.coalesce(F.arrays_overlap("message_ids", "f_message_ids"), F.lit(True))
    before = F.col("f_at_us") < F.col("request_at_us")
    found = own.join(first, [same("f_", *batch), before, of_other_messages])
    taken_by = F.array_distinct(F.flatten(F.collect_list("by"))).cast(CAUSES)
    return found.groupBy("operation_id").agg(taken_by.alias("taken_by"))


def _accounted_for() -> Column:
    """In the log, or not for a reason: the log says so."""
    return F.coalesce(F.col("in_log").isin("there", "aborted", "superseded"), F.lit(False))


def _holds(message: str) -> Column:
    return F.concat(F.lit("offset "), F.col("offset"), F.lit(" holds message "), F.col(message))


def _never_arrived() -> Column:
    """Of each request that is known to have carried the record a rule took the broker's place, or swallowed it."""
    return (F.col("match_kind") == "message_id") & F.forall("attempts", kept_from_broker)


def _went_unanswered() -> Column:
    """No request that carried the record had an answer, as ever with acks=0: whether it arrived nobody has said."""
    return (F.size("attempts") > 0) & F.forall("attempts", lambda a: ~was_answered(a["outcome"]))
