"""Did a group go back behind what it had committed?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import SET_ELSEWHERE, by_rule, count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges, of_api
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import touches_at
from notleader.spark_analysis.transforms.commits import known_commits, with_groups_of_connections
from notleader.spark_analysis.transforms.intervals import NEVER_US
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.lives import in_one_life, with_lives
from notleader.spark_analysis.transforms.obstacles import connection
from notleader.spark_analysis.transforms.sent_back import OF_MEMBERS


class CommitLost(Check):
    """Records read after a successful commit of a later offset (a commit says: this is where to go on)."""

    name = "commit_lost"
    title = "Commit lost"
    brief = "{n} read again behind a commit"
    counts = ("record", "records")
    needs = ("commits", "consumer")
    of_causes = False
    order = 18
    means = Meaning(
        invalid=(
            "a group read a record after a commit beyond it, and in between was told an older offset as the "
            "committed one, or none, and nobody had set it back"
        ),
        valid="no such record; a group that was told no other place than the one it committed went back by itself",
        unknown=(
            "a group read a record after a commit beyond it, and what it was told in between was not captured, or may "
            "have been set past the proxy: nobody is known to have committed that offset, or the group had no member "
            "for a while"
        ),
        evidence="commits and reads, by group and partition, and captured OffsetFetch and OffsetCommit answers",
        cause="the rules that answered that commit in the broker's place, or changed it, or the offset that was told",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        told, last = F.col("told"), F.col("last")
        # Whoever passed that place again and committed it was not sent back there by what it was told before.
        not_since = (last["at_us"] <= told["at_us"]) | (last["committed"] <= F.col("first_offset"))
        # What was committed before anything was read there anew is what its application remembered.
        not_since |= F.coalesce(last["read_us"] <= told["at_us"], F.lit(True))
        between = F.col("first_offset").between(told["offset"], told["committed"] - 1)
        lost = F.coalesce(told["is_lost"] & not_since & between, F.lit(False))
        behind = F.coalesce(F.col("first_offset") < last["committed"], F.lit(False))
        # Whoever was never told another place than the one committed went back by itself: a seek.
        rows = (
            _reads(tables)
            .withColumns(
                {"lost": lost, "committed": F.when(lost, told["committed"]).otherwise(last["committed"])},
            )
            .filter(F.col("lost") | (behind & ~F.col("heard")))
            .join(broadcast(_faked_commits(tables)), same("w_", *_PLACE), "left")
        )
        known = known_commits(tables.exchanges, tables.operations)
        of_what_it_was_told = [same("k_", *_PLACE), F.col("told.offset") == F.col("k_offset")]
        rows = rows.join(known, of_what_it_was_told, "left")
        known_then = F.coalesce(F.col("k_at_us") <= F.col("told.at_us"), F.lit(False))
        # Where a rule touched a commit nobody knows what its broker has.
        untouched = (F.size(told["by"]["rules"]) == 0) & F.col("faked_commits").isNull()
        by_hand = F.col("lost") & (told["offset"] >= 0) & untouched
        # Kafka lets nobody set the offsets of a group that has members.
        rows = rows.join(broadcast(_members(tables)), same("m_", "scope", "group"), "left")
        stayed = F.exists(
            "members", lambda m: (m["since_us"] <= told["committed_us"]) & (m["until_us"] >= told["at_us"])
        )
        faked = F.filter("faked_commits", lambda c: c["offset"] == F.col("committed"))
        by_told = F.when(F.col("lost"), F.array(told["by"]))
        rows = rows.withColumn(
            "seen", F.flatten(F.array_compact(F.array(by_told, F.transform(faked, lambda c: c["by"]))))
        )
        rows = rows.withColumns(
            {
                "rule": joined(F.array_distinct(F.flatten(F.transform("seen", lambda s: s["rules"])))),
                "kind": joined(F.array_distinct(F.flatten(F.transform("seen", lambda s: s["kinds"])))),
                "trouble": F.when(by_hand & ~known_then, F.lit(_ELSEWHERE)).when(
                    by_hand & ~F.coalesce(stayed, F.lit(False)), F.lit(_WHILE_EMPTY)
                ),
            }
        )
        return from_exchanges(
            rows,
            self.name,
            F.when(F.col("lost") & F.col("trouble").isNull(), "invalid").otherwise("unknown"),
            client=F.col("group"),
            note=F.format_string("offset %d although %d was committed", "first_offset", "committed"),
        )

    def sentence(self, group: Group) -> str:
        what = (
            f"{group.client or 'a group'} read {count(group.cases, 'record')} of {place(group)}"
            " again after committing beyond them"
        )
        if group.trouble == _ELSEWHERE:
            return f"{what}; {SET_ELSEWHERE}"
        if group.trouble == _WHILE_EMPTY:
            return f"{what}; nobody stayed in the group meanwhile: its offset may have been set back past the proxy"
        if group.verdict == "unknown":
            unheard = f"{what}; whether it was told to or sought to was not captured"
            return f"{unheard}; the commit was changed or made up{by_rule(group)}" if group.rule else unheard
        if not group.rule:
            return f"{what}, because it was not told of that commit; no fault had a hand in it"
        return f"{what}; the commit, or the offset that it was told, was changed or made up{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return f"nobody was sent back behind {count(tables.outcomes.commits, 'commit')}"


_ELSEWHERE = "set elsewhere"
_WHILE_EMPTY = "set while empty"
_FAKED = ("answered", "altered_request", "altered_answer", "swallowed_request")
_PLACE = ("scope", "group", "topic", "partition")
# A group that is deleted loses what it committed, and so does one whose offsets or topics are.
_DELETES = ("DeleteGroups", "OffsetDelete", "DeleteTopics")


def _reads(tables: Tables) -> DataFrame:
    """What groups read (_PLACE, at_us, first_offset, message_id), with the `last` commit that they had told of before.

    `told` is what the broker last said of the group's place before, as `committed` at `committed_us` was then: at_us,
    offset, both, is_lost (an older one than that, and nobody's commit or deletion explains it), by. `heard`: anybody of
    the group ever asked.
    """
    group = F.coalesce("group_id", "client").alias("group")
    committed = tables.operations.filter((F.col("operation") == "commit") & (F.col("outcome") == "ok")).select(
        "scope", group, "topic", "partition", F.col("completed_at_us").alias("at_us"), "offset",
        F.lit("committed").alias("what"),
    )  # fmt: skip
    read = tables.in_order.select(
        "scope", group, "topic", "partition", "at_us", F.lit("read").alias("what"), "first_offset", "message_id"
    )
    rows = committed.unionByName(_of_wire(tables), allowMissingColumns=True)
    rows = rows.unionByName(read, allowMissingColumns=True)
    # What was committed before a topic was made anew says nothing of where to go on in it.
    rows = with_lives(rows, tables.exchanges, F.col("at_us")) if tables.capture.anew else in_one_life(rows)
    deleted = tables.exchanges.filter(F.col("api_name").isin(*_DELETES) & F.col("response_at_us").isNotNull())
    deleted = deleted.groupBy(F.col("scope").alias("d_scope")).agg(F.collect_set("response_at_us").alias("deleted"))
    rows = rows.join(broadcast(deleted), F.col("scope").eqNullSafe(F.col("d_scope")), "left")

    before = Window.partitionBy(*_PLACE, "life").orderBy("at_us").rangeBetween(Window.unboundedPreceding, -1)

    def last(what: str, *fields: Column | str) -> Column:
        return F.max(F.when(F.col("what") == what, F.struct("at_us", *fields))).over(before)

    read_us = F.max(F.when(F.col("what") == "read", F.col("at_us"))).over(before)
    known = rows.withColumn("read_us", read_us).withColumns(
        {
            "last": last("committed", F.col("offset").alias("committed"), "read_us"),
            "set": last("set", "offset"),
            "heard": F.bool_or(F.col("what") == "told").over(Window.partitionBy(*_PLACE)),
        }
    )
    since = F.col("last.at_us")
    set_there = (F.col("set.at_us") > since) & (F.col("offset") >= F.col("set.offset"))
    deleted_since = (F.col("offset") < 0) & F.exists("deleted", lambda at: (at > since) & (at < F.col("at_us")))
    explained = F.coalesce(set_there, F.lit(False)) | F.coalesce(deleted_since, F.lit(False))
    is_lost = (F.col("offset") < F.col("last.committed")) & ~explained
    committed = (F.col("last.committed").alias("committed"), F.col("last.at_us").alias("committed_us"))
    fields = ("offset", *committed, is_lost.alias("is_lost"), "by")
    return known.withColumn("told", last("told", *fields)).filter(F.col("what") == "read")


def _of_wire(tables: Tables) -> DataFrame:
    """What the broker said of committed offsets (`told`), and commits of anybody's that it took (`set`).

    _PLACE, at_us, offset, what, and `by`: the rules and kinds that had a hand in it.
    """
    asked = F.col("api_name") == "OffsetFetch"
    untouched = F.size("by.rules") == 0
    good = F.col("response_at_us").isNotNull() & (F.coalesce("p.error_code", F.lit(0)) == 0)
    return _placed(tables).filter(good & (asked | untouched)).select(
        "scope", F.col("group_id").alias("group"), F.col("p.topic").alias("topic"),
        F.col("p.partition_index").alias("partition"),
        # What is acknowledged while it is asked may come too late to be told.
        F.when(asked, F.col("request_at_us")).otherwise(F.col("response_at_us")).alias("at_us"),
        F.coalesce("p.base_offset", F.lit(-1)).alias("offset"),
        F.when(asked, "told").otherwise("set").alias("what"),
        "by",
    )  # fmt: skip


def _members(tables: Tables) -> DataFrame:
    """m_scope, m_group → `members`: from when until when each connection was one of a member of that group."""
    leaves = (F.col("event") == "disconnect") | (F.col("api_name") == "LeaveGroup")
    asks = F.coalesce(F.col("api_name").isin(*OF_MEMBERS), F.lit(False))
    at_us = F.col("request_at_us")
    lines = (
        tables.exchanges.filter(leaves | asks)
        .groupBy("scope", connection().alias("connection"))
        .agg(
            F.max("group_id").alias("group"),
            F.min(F.when(asks, at_us)).alias("since_us"),
            F.coalesce(F.min(F.when(leaves, at_us)), F.lit(NEVER_US)).alias("until_us"),
        )
        .filter(F.col("since_us").isNotNull() & F.col("group").isNotNull())
    )
    spans = F.collect_list(F.struct("since_us", "until_us")).alias("members")
    return lines.groupBy(F.col("scope").alias("m_scope"), F.col("group").alias("m_group")).agg(spans)


def _faked_commits(tables: Tables) -> DataFrame:
    """w_scope, w_group, w_topic, w_partition → `faked_commits`, those that a rule faked: offset, by."""
    faked = _placed(tables).filter((F.col("api_name") == "OffsetCommit") & (F.size("by.rules") > 0))
    return faked.groupBy(
        F.col("scope").alias("w_scope"),
        F.col("group_id").alias("w_group"),
        F.col("p.topic").alias("w_topic"),
        F.col("p.partition_index").alias("w_partition"),
    ).agg(F.collect_list(F.struct(F.coalesce("p.base_offset", F.lit(-1)).alias("offset"), "by")).alias("faked_commits"))


def _placed(tables: Tables) -> DataFrame:
    """OffsetFetch and OffsetCommit by partition `p`, with the group's id, and `by`: the rules that faked it."""
    rows = with_groups_of_connections(tables.exchanges, of_api(tables.exchanges, "OffsetFetch", "OffsetCommit"))
    placed = rows.select("*", F.posexplode("partitions").alias("place", "p"))
    faked = F.filter(touches_at(F.col("place")), _fakes)
    by = F.struct(
        F.transform("faked", lambda t: t["rule"]).alias("rules"),
        F.transform("faked", lambda t: t["kind"]).alias("kinds"),
    )
    return placed.withColumn("faked", faked).withColumn("by", by)


def _fakes(touch: Column) -> Column:
    """Whether a rule told of a commit what the broker had not, and no error."""
    told = touch["did"].isin(*_FAKED)
    return told & (F.coalesce(touch["error_code"], F.lit(0)) == 0)
