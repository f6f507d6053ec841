"""Is a record in the log more than once?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases
from notleader.spark_analysis.checks.phrases import because, by_client, count, place
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import any_did, kept_from_broker
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.landed import jumps, one_by_one, spans
from notleader.spark_analysis.transforms.log import located_without_id, settled_by_log

_APPENDED_AT = (
    "array_distinct(transform(filter(attempts, a -> a.error_code = 0 and a.base_offset >= 0"
    " and a.match_kind in ('message_id', 'sequence')), a -> a.base_offset))"
)

# What a rule does to an exchange, or to its connection, after which no answer comes.
_KEPT_AWAY = ("swallowed_answer", "cut", "repeated", "garbled", "silenced", "kept_behind")


class Duplicate(Check):
    """Messages at more than one offset of a topic: by the log, else by what consumers got or the broker answered."""

    name = "duplicate"
    title = "Duplicated"
    brief = "{n} appended more than once"
    brief_unknown = "{n} appended more than once, perhaps as aborted copies"
    counts = ("message", "messages")
    jepsen = "duplicate"
    needs = ("sends",)
    wire = True
    reading = True
    order = 12
    means = Meaning(
        invalid=(
            "one message is at more offsets of a topic than it was sent there (each acknowledged call, or else one of "
            "a client, that didn't fail), aborted transactions aside: by the log, but for what it has from before the "
            "run; without it, or where its records have no ids, by what consumers got or by the broker's own answers"
        ),
        valid=(
            "the log has each message once for each such send; so do consumers, without it, who went past any other "
            "place that the broker's answers tell of"
        ),
        unknown=(
            "sends have no message ids, or nobody read, and no log was given, or one whose records have no ids, and "
            "the broker's answers show no case; without the log: a message that was sent in transactions is at two "
            "offsets, of which some may be aborted"
        ),
        evidence=(
            "the log, what consumers got at which offset, or the offsets in the broker's answers, those that a "
            "rule swallowed included"
        ),
        cause=(
            "what kept the first acknowledgement from the client, or sent the request twice, whichever call "
            "carried the copy"
        ),
    )

    def suspects(self, tables: Tables, options: Options) -> Column:
        return F.col("message_id").isNotNull() & ((_copies() > 1) | (F.size(F.expr(_APPENDED_AT)) > 1))

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        suspects = tables.history.filter(self.suspects(tables, options)).withColumns(
            {
                "seen_at": F.transform("landed", lambda place: place["offset"]),
                "appended_at": F.when(_all_there(), F.array().cast("array<bigint>")).otherwise(F.expr(_APPENDED_AT)),
            }
        )
        # Who names no message at those places can't say that it was another.
        jumped = jumps(tables.in_order, tables.exchanges, tables.operations, tables.names)
        read = suspects.join(
            broadcast(spans(one_by_one(tables.in_order), jumped)),
            same("r_", "scope", "topic", "partition", "life"),
            "left",
        )
        by_answers = (F.size("appended_at") > _copies()) & ~F.coalesce(_passed(), F.lit(False))
        found = (
            read.withColumns(
                {
                    "by_answers": by_answers,
                    "copies": F.when(by_answers, F.size("appended_at")).otherwise(_copies_here()),
                    "offsets": F.when(by_answers, F.col("appended_at")).otherwise(F.col("seen_at")),
                }
            )
            .filter(F.col("copies") > 1)
            .withColumn(
                "appended", F.transform("offsets", lambda offset: F.struct("partition", offset.alias("offset")))
            )
            .drop("seen_at", "appended_at", "spans", *[f"r_{name}" for name in ("scope", "topic", "partition", "life")])
        )
        # What the application itself sent twice, and was told of twice, is two messages; what it sent again as it had
        # heard nothing, one. Of several producers nobody knows what the others were told.
        ok, producer = F.col("outcome") == "ok", F.struct("source", "client")
        heard = F.collect_list(F.when(ok, producer))
        unheard = F.collect_list(F.when(F.col("outcome").isin("info", "pending"), producer))
        answered = F.flatten(F.collect_list(F.when(F.col("by_answers"), F.col("appended"))))
        of_all = {
            # The copy belongs to the call that a fault touched, whichever call carried it: each tells its part.
            "copied_by": F.array_distinct(F.flatten(F.collect_list(_copied()))),
            "attempts": F.array_sort(F.array_distinct(F.flatten(F.collect_list("attempts")))),
            # An answer tells of its own call's places only.
            "copies": F.greatest(F.max("copies"), F.size(F.array_distinct(answered))),
            "sent": F.greatest(F.count_if(ok) + F.size(F.array_except(unheard, heard)), F.lit(1)),
            "maybe_aborted": F.bool_or(F.col("transactional") & ~_all_there()),
        }
        wanted = [F.col(name) for name in found.columns if name not in ("scope", "message_id", *of_all)]
        told = F.struct("trouble", "attempt_count", "operation_id")
        rows = (
            found.groupBy("scope", "message_id", _here().alias("of_topic"))
            .agg(
                F.max_by(F.struct(*wanted), told).alias("r"),
                F.count("*").alias("calls"),
                *[column.alias(name) for name, column in of_all.items()],
            )
            .filter(F.col("copies") > F.col("sent"))
            .select("scope", "message_id", "calls", *of_all, "r.*")
        )
        # What went out once only was copied by whoever repeated it, whatever else kept its answer away.
        repeated = F.filter("copied_by", lambda c: c["did"].eqNullSafe("repeated"))
        once = (F.size("attempts") == 1) & (F.size(repeated) > 0)
        rows = rows.withColumn("copied_by", F.when(once, repeated).otherwise(F.col("copied_by")))
        note = F.concat(
            F.col("copies"),
            F.lit(" copies, offsets "),
            F.array_join(F.slice(F.transform("offsets", lambda o: o.cast("string")), 1, 5), ", "),
            F.when(
                F.col("calls") > 1, F.concat(F.lit("; sent by the application "), F.col("calls"), F.lit(" times"))
            ).otherwise(F.lit("")),
        )
        verdict = F.when(F.col("maybe_aborted"), "unknown").otherwise("invalid")
        return as_cases(rows, self.name, verdict, "copied_by", note=note)

    def unsettled(self, tables: Tables) -> str | None:
        if tables.outcomes.unnamed_sends:
            return f"{tables.outcomes.unnamed_sends:,} sends have no message id"
        if (why := super().unsettled(tables)) is not None:
            return why
        if tables.unjudged is None or not tables.unjudged.copies:
            return None
        read = "consumer read the partition, or not so far" if tables.outcomes.polled else "consumer said what it read"
        return f"{tables.unjudged.copies:,} sends lie in the log without ids, and no {read}"

    def sentence(self, group: Group) -> str:
        what = f"{count(group.cases, 'message')} sent to {place(group)}{by_client(group)}"
        if group.verdict == "unknown":
            verb = "was" if group.cases == 1 else "were"
            return f"{what} {verb} read, or appended, more than once, in transactions of which some may be aborted"
        return f"{what} got into the log more than once{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no message is in the log twice"


def _all_there() -> Column:
    """The log says where all copies of the message are; of what it doesn't have any more only the broker did."""
    gone = F.coalesce(F.col("in_log").isin("superseded", "deleted"), F.lit(False))
    return settled_by_log() & ~gone & ~located_without_id()


def _copies() -> Column:
    """At how many places of a topic the message is at most, by whoever saw it there."""
    return F.col("landed_count") - F.size(F.array_distinct(F.col("landed.topic"))) + 1


def _here() -> Column:
    """The topic that it was sent to."""
    return F.coalesce("topic", F.get("landed", F.lit(0))["topic"])


def _copies_here() -> Column:
    """At how many places of that topic the message is."""
    return F.size(F.filter("landed", lambda place: place["topic"] == _here()))


def _passed() -> Column:
    """Of a message that readers got once: they read on over every place where the broker said that it is.

    An answer tells of its batch's first offset. What was sent again is as far behind that as what was read.
    """
    seen = F.array_min("seen_at")
    begun = F.array_max(F.filter("appended_at", lambda first: first <= seen))
    behind = F.coalesce(seen - begun, F.lit(0))

    def over(first: Column) -> Column:
        at = first + behind
        return F.exists("spans", lambda span: at.between(span["low"], span["high"]))

    return (F.size("seen_at") > 0) & F.forall("appended_at", over)


def _copied() -> Column:
    """The causes of a second copy: what kept the first one's acknowledgement from the client, or sent it twice.

    What else a rule did counts where it is why the client sent it again: an answer that was only held, an error. What
    kept a request from the broker made no copy.
    """
    again = F.concat("retried_by.rule", "ended_by.rule")
    kept, arrived = (
        F.flatten(F.transform(F.filter("attempts", which), lambda a: a["touches"]["rule"]))
        for which in (_surely_kept, lambda a: ~_surely_kept(a))
    )
    made_none = F.array_except(kept, arrived)
    copied = F.filter("touched_by", lambda c: c["did"].isin(*_KEPT_AWAY) | F.array_contains(again, c["rule"]))
    return F.filter(copied, lambda c: (c["how"] != "own") | ~F.array_contains(made_none, c["rule"]))


def _surely_kept(attempt: Column) -> Column:
    """Whether a rule kept this attempt from the broker; of a cut by one of several rules nobody knows when it came."""
    in_its_place = any_did(attempt["touches"], "answered", "swallowed_request")
    return kept_from_broker(attempt) & (in_its_place | (F.size(attempt["fault_names"]) == 1))
