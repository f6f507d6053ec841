"""Did a consumer group pass over records that others saw in the log?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, joined
from notleader.spark_analysis.checks.phrases import SENT, SET_ELSEWHERE, by_rule, count, place
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast, settled
from notleader.spark_analysis.transforms.attempts import is_as_it_was, touches_at
from notleader.spark_analysis.transforms.commits import set_elsewhere
from notleader.spark_analysis.transforms.intervals import interval, join_offsets
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.landed import PREFETCHED_US, handed_out
from notleader.spark_analysis.transforms.log import settled_by_log
from notleader.spark_analysis.transforms.sent_back import (
    OF_MEMBERS,
    PLACES,
    is_out_of_range,
    offset_of_broker,
    said_places,
    says_a_place,
    seeks,
    told_places,
    with_senders_back,
)
from notleader.spark_analysis.transforms.unseen import PERHAPS


class Skipped(Check):
    """Records that someone saw in the log and a group that read on both sides of them did not get (a gap in a poll)."""

    name = "skipped"
    title = "Skipped by a consumer"
    brief = "{n} passed over by a reader"
    counts = ("record", "records")
    jepsen = "poll skip"
    needs = ("sends", "consumer")
    order = 17
    means = Meaning(
        invalid=(
            "a group read on both sides of a record that somebody else got, and not it; or began behind it, where a "
            "rule named a later offset to begin at than the broker had"
        ),
        valid=(
            "no such record, or one that the log no longer has; without the log, of those sent in transactions none "
            "is asked for, as some are aborted; of a group that asked for an offset of its own accord, between two "
            "reads, and went on there, or whose member said that it sought (`seek`), or that was told an offset which "
            "somebody outside of it had committed for it"
        ),
        unknown=(
            "nobody read, or no send was told of; a group went on at an offset that it was told, and that nobody is "
            "known to have committed: somebody may have set it past the proxy; without the log, nobody got it since, "
            "and its key was sent again: a compacted topic may have lost it; of share groups (KIP-932), which are "
            "given records in no order"
        ),
        evidence="what consumers got, by group, their seeks, and captured ListOffsets answers",
        cause="a rule that told the reader another place before it jumped: OFFSET_OUT_OF_RANGE, an offset, a commit",
    )

    def unsettled(self, tables: Tables) -> str | None:
        return super().unsettled(tables) or tables.of_share_groups()

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        return _passed_over(tables, _gaps(tables))

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        gaps = _handed_out(_gaps(tables), tables)
        gaps = gaps.drop("j_unheard", "j_elsewhere").join(broadcast(_sought(tables, gaps)), list(_GAP), "left")
        missed = _passed_over(tables, gaps.filter(~F.coalesce("by_itself", F.lit(False))))
        by_log = tables.log is not None
        missed = missed.withColumn("compacted", F.lit(False)) if by_log else _with_compacted(missed, tables)
        blames = dict.fromkeys(("_rule", "_kind", "_trouble"), F.lit(None).cast("string"))
        told = _blamed(missed, tables) if tables.capture.faulted else missed.withColumns(blames)
        ruled, compacted = F.col("_rule").isNotNull(), F.col("compacted")
        acked, by = F.col("at.seen_by") == _ACKNOWLEDGED, F.concat(F.lit(" was seen by "), F.col("at.seen_by"))
        return as_cases(
            tables.history.drop("scope").join(told, "operation_id"),
            self.name,
            F.when((F.col("j_elsewhere") | compacted) & ~ruled, "unknown").otherwise("invalid"),
            client=F.col("j_group"),
            topic=F.col("at.topic"),
            partition=F.col("at.partition"),
            duration_us=F.lit(None),
            note=F.concat(F.lit("offset "), F.col("at.offset"), F.when(acked, " was acknowledged").otherwise(by)),
            rule=F.col("_rule"),
            kind=F.col("_kind"),
            trouble=F.when(compacted & ~ruled, F.lit(_COMPACTED)).otherwise(F.col("_trouble")),
        )

    def sentence(self, group: Group) -> str:
        if group.trouble == _BEGUN:
            them = "it" if group.cases == 1 else "them"
            records = count(group.cases, "record")
            where = f"it was told to begin behind {them}{by_rule(group)}"
            return f"{group.client} never got {records} of {place(group)}: {where}"
        verb, them = ("was", "it") if group.cases == 1 else ("were", "them")
        what = (
            f"{count(group.cases, 'record')} of {place(group)} {verb} seen in the log,"
            f" but {group.client} read past {them}"
        )
        if group.rule:
            return f"{what}; {SENT[group.trouble or 'place']}{by_rule(group)}"
        if group.trouble == _COMPACTED:
            again = "its key was" if group.cases == 1 else "their keys were"
            return f"{what}; {again} sent again, and of a compacted topic the log may have lost {them} by then"
        if group.verdict == "unknown":
            return f"{what}; {SET_ELSEWHERE}"
        if group.trouble == PERHAPS:
            return f"{what}; whether a fault had a hand in it is not known: rules touched what its group goes by"
        return f"{what}; no fault had a hand in it, and if it sought, no line says so"

    def all_clear(self, tables: Tables) -> str:
        return "no consumer group passed over a record that another saw"


def _read(tables: Tables) -> DataFrame:
    """What was delivered, and to whose `group`: one that has none is a group by itself."""
    return tables.in_order.withColumn("group", F.coalesce("group_id", "client"))


_ACKNOWLEDGED = "answer"
_BEGUN = "begun"
_COMPACTED = "compacted"
_GAP = ("j_group", "j_scope", "j_topic", "j_partition", "j_low")


def _gaps(tables: Tables) -> DataFrame:
    """_GAP, j_high, j_client, j_from_us, j_since_us, j_until_us and three flags: what a group passed over.

    Between the offset `j_low`, which it had come to at first at `j_from_us`, and `j_high`, where `j_client` went on.
    Or, `j_begun`, between the offset that the broker had named it to begin at, and the later one that a rule named
    instead. `j_since_us` is `j_from_us` here, `j_unheard` and `j_elsewhere` are false; see `_handed_out` and `_sought`.
    """
    place = ("group", "scope", "topic", "partition")
    before = Window.partitionBy(*place).orderBy("first_offset", "at_us").rowsBetween(Window.unboundedPreceding, -1)
    reached = F.max(F.struct("last_offset", (-F.col("at_us")).alias("since"))).over(before)
    read = _read(tables).withColumns({"reached": reached, "goes_on_at": F.col("first_offset"), "begun": F.lit(False)})
    if _may_have_begun_late(tables):
        read = _begun(settled(read), tables)
    return read.filter(F.col("goes_on_at") > F.col("reached.last_offset") + 1).select(
        *[F.col(name).alias(f"j_{name}") for name in place],
        F.col("reached.last_offset").alias("j_low"),
        F.col("goes_on_at").alias("j_high"),
        F.col("client").alias("j_client"),
        (-F.col("reached.since")).alias("j_from_us"),
        (-F.col("reached.since")).alias("j_since_us"),
        F.col("at_us").alias("j_until_us"),
        F.lit(False).alias("j_unheard"),
        F.lit(False).alias("j_elsewhere"),
        F.col("begun").alias("j_begun"),
    )


def _may_have_begun_late(tables: Tables) -> bool:
    return "altered_answer" in tables.capture.did


def _begun(read: DataFrame, tables: Tables) -> DataFrame:
    """`read`, where a group's first place in a partition goes by the last offset that its client was told before.

    Had the broker named an earlier one, it had `reached` that, and `goes_on_at` what it was told instead.
    """
    answers = tables.exchanges.filter(F.col("api_name").isin(*PLACES) & F.col("response_at_us").isNotNull())
    answers = answers.select("*", F.posexplode("partitions").alias("place", "p")).filter(F.col("p.base_offset") >= 0)
    of_broker = offset_of_broker(F.col("place")).alias("s_of_broker")
    answers = said_places(answers, tables.names, F.col("response_at_us"), of_broker)
    first = read.filter(F.col("reached").isNull())
    own = [column for column in read.columns if column not in ("reached", "goes_on_at", "begun")]
    met = first.join(
        broadcast(answers),
        [
            same("s_", "scope", "client", "topic", "partition"),
            F.col("s_at_us") <= F.col("at_us"),
            F.col("s_offset") <= F.col("first_offset"),
        ],
    )
    told = F.max(F.struct("s_at_us", "s_offset", "s_of_broker")).alias("told")
    later = met.groupBy(*own).agg(told).filter(F.col("told.s_of_broker") < F.col("told.s_offset"))
    begun = later.select(
        *own,
        F.struct((F.col("told.s_of_broker") - 1).alias("last_offset"), (-F.col("told.s_at_us")).alias("since")).alias(
            "reached"
        ),
        F.col("told.s_offset").alias("goes_on_at"),
        F.lit(True).alias("begun"),
    )
    return read.filter(F.col("reached").isNotNull()).unionByName(begun)


def _handed_out(gaps: DataFrame, tables: Tables) -> DataFrame:
    """`gaps` with the time at which the broker had handed out `j_low` to `j_client` as `j_since_us`.

    A consumer fetches ahead: what sends it elsewhere comes before its application has read what lies there already.
    """
    place = {"j_scope": "scope", "j_client": "client", "j_topic": "topic", "j_partition": "partition"}
    rows = handed_out(tables.exchanges, tables.names).select(
        *[F.col(name).alias(own) for own, name in place.items()], F.col("from_offset").alias("j_low"), "fetched_us"
    )
    # The batch that a record was in is the last one that begins at it or before it.
    before = Window.partitionBy("j_scope", "j_client", "j_topic", "j_partition").orderBy(
        "j_low", F.col("fetched_us").isNull(), F.desc("fetched_us")
    )
    fetched = F.last("fetched_us", ignorenulls=True).over(before)
    since = F.least(F.coalesce(fetched, F.col("j_from_us") - PREFETCHED_US), "j_from_us")
    return (
        gaps.unionByName(rows, allowMissingColumns=True)
        .withColumn("j_since_us", since)
        .filter(F.col("j_until_us").isNotNull())
        .drop("fetched_us")
    )


def _passed_over(tables: Tables, gaps: DataFrame) -> DataFrame:
    """scope, operation_id, `at` (a place in the log) with each of `gaps` that it lies in: at most one of each group.

    A group's gaps in a partition lie one behind the other, so only the last that begins before a place may hold it.
    Where transactions leave a hole each there are as many gaps as records, and to compare all with all takes hours.
    """
    place = ("scope", "topic", "partition")
    committed = F.coalesce(F.col("in_log") == "there", F.lit(False))
    # Of a transaction's records those that were aborted are in the log, and a reader of committed ones passes over
    # them: without the log nothing here says how it ended. What the log no longer has may have been gone for the group.
    silent = ~settled_by_log()
    seen = tables.history.filter(committed | (silent & ~F.col("transactional")))
    at = F.col("landed")
    if _may_have_begun_late(tables):
        # What was acknowledged lay there while the broker's log began before it; later it may have been deleted.
        told = F.struct("topic", "partition", "offset", F.lit(_ACKNOWLEDGED).alias("seen_by"))
        nobody = (F.col("landed_count") == 0) & silent & (F.col("outcome") == "ok")
        at = F.when(nobody, F.array(told).cast(seen.schema["landed"].dataType)).otherwise(at)
    points = seen.select("scope", "operation_id", F.explode(at).alias("at"))
    points = points.select("*", "at.topic", "at.partition", "at.offset")
    groups = gaps.groupBy(*[F.col(f"j_{name}").alias(f"g_{name}") for name in place]).agg(
        F.collect_set("j_group").alias("groups")
    )
    asked = points.join(broadcast(groups), same("g_", *place)).select(
        *points.columns, F.explode("groups").alias("j_group")
    )
    begun = gaps.select(
        *[F.col(f"j_{name}").alias(name) for name in place],
        F.col("j_low").alias("offset"),
        "j_group",
        F.struct(
            "j_low",
            "j_high",
            "j_client",
            "j_from_us",
            "j_since_us",
            "j_until_us",
            "j_unheard",
            "j_elsewhere",
            "j_begun",
        ).alias("gap"),
    )
    # A gap begins behind the offset that it is named by, and behind a record there.
    before = Window.partitionBy("j_group", *place).orderBy("offset", F.col("gap").isNotNull())
    return (
        asked.unionByName(begun, allowMissingColumns=True)
        .withColumn("in", F.last("gap", ignorenulls=True).over(before))
        .filter(F.col("at").isNotNull() & (F.col("offset") < F.col("in.j_high")))
        .filter((F.col("at.seen_by") != _ACKNOWLEDGED) | F.col("in.j_begun"))
        .select(
            "scope",
            "operation_id",
            "at",
            *[F.col(name).alias(f"j_{name}") for name in place],
            "j_group",
            "in.*",
        )
    )


def _with_compacted(missed: DataFrame, tables: Tables) -> DataFrame:
    """`missed` with `compacted`: the log may have lost the record when it was passed over, for all that is known here.

    Nobody got it since, and its key was sent to the partition again: what a compacted topic keeps is the last of a key.
    """
    keyed = tables.operations.filter((F.col("operation") == "send") & F.col("key_hash").isNotNull())
    place = ("scope", "topic", "partition", "key_hash")
    last = keyed.groupBy(*[F.col(name).alias(f"k_{name}") for name in place]).agg(F.max("offset").alias("k_offset"))
    keys = keyed.select(F.col("operation_id").alias("k_operation_id"), "key_hash")
    points = missed.select("scope", "operation_id", "at.topic", "at.partition", "at.offset", "j_group", "j_until_us")
    points = points.join(keys, F.col("operation_id") == F.col("k_operation_id"))
    points = points.join(broadcast(last), [same("k_", *place), F.col("k_offset") > F.col("offset")])
    read = tables.delivered.select(
        *interval(F.col("first_offset"), F.col("last_offset")), F.coalesce("group_id", "client").alias("by"), "at_us"
    )
    got = join_offsets(points.distinct(), read).filter(F.col("by") != F.col("j_group"))
    gone = got.groupBy("operation_id", "j_group", "j_until_us").agg(F.max("at_us").alias("seen_us"))
    gone = gone.filter(F.col("seen_us") < F.col("j_until_us")).select(
        F.col("operation_id").alias("c_operation_id"), F.col("j_group").alias("c_group"), F.lit(True).alias("c_gone")
    )
    here = [F.col("operation_id") == F.col("c_operation_id"), F.col("j_group") == F.col("c_group")]
    found = missed.join(broadcast(gone.distinct()), here, "left")
    return found.withColumn("compacted", F.coalesce("c_gone", F.lit(False))).drop("c_operation_id", "c_group", "c_gone")


def _blamed(missed: DataFrame, tables: Tables) -> DataFrame:
    """`missed` with `_rule`, `_kind`, `_trouble`: the rules that told the reader where to go on."""
    places = {"client": "j_client", "topic": "j_topic", "partition": "j_partition", "first_offset": "j_high"}
    asked = {**places, "at_us": "j_until_us", "since_us": "j_since_us"}
    rows = missed.select(
        F.struct(*[F.col(name) for name in missed.columns]).alias("_m"),
        "scope",
        *[F.col(of).alias(name) for name, of in asked.items()],
    )
    told = with_senders_back(rows, told_places(tables.exchanges, tables.names))
    sure = F.filter("sent_by", lambda t: ~t["what"].isin("group", "refused"))
    return told.select(
        "_m.*",
        joined(F.array_sort(F.array_distinct(F.transform(sure, lambda t: t["rule"])))).alias("_rule"),
        joined(F.array_sort(F.array_distinct(F.transform(sure, lambda t: t["kind"])))).alias("_kind"),
        F.coalesce(
            F.when(F.col("_m.j_begun"), F.lit(_BEGUN)),
            F.array_max(F.transform(sure, lambda t: t["what"])),
            F.when((F.size("sent_by") > 0) | F.coalesce("_m.j_unheard", F.lit(False)), F.lit(PERHAPS)),
        ).alias("_trouble"),
    )


def _sought(tables: Tables, gaps: DataFrame) -> DataFrame:
    """_GAP, by_itself, j_unheard, j_elsewhere: whether a member jumped by itself.

    To an offset that it had asked for, was set to, or said it sought. `j_unheard` where it was told its group's place
    after a rule had touched a commit of that; `j_elsewhere` where it was told one that nobody here committed. Not by
    itself where it
    had to ask: OFFSET_OUT_OF_RANGE sends a consumer to ListOffsets as well, and so does no committed offset where its
    group had committed one. Who keeps no place there has said where to begin.
    """
    api, changed = F.col("api_name"), F.exists(touches_at(F.col("place")), says_a_place)
    out_of_range = is_out_of_range()
    of_group = Window.partitionBy("scope", "group_id", "p.topic", "p.partition_index").orderBy("request_at_us")
    committed = F.max(api == "OffsetCommit").over(of_group)
    lost_one = F.max((api == "OffsetCommit") & ~is_as_it_was()).over(of_group)
    keeps_none = (api == "OffsetFetch") & (F.col("p.base_offset") < 0) & ~committed
    why = (
        F.when((api == "ListOffsets") & ~changed, "asked")
        .when(keeps_none & ~changed, None)
        .when((api == "OffsetFetch") & lost_one, "unheard")
        .when(api.isin("ListOffsets", "OffsetFetch"), "sent")
        .when(out_of_range, "sent")
    )
    told = (
        tables.exchanges.select("*", F.posexplode("partitions").alias("place", "p"))
        .filter(api.isin("ListOffsets", "OffsetFetch", "OffsetCommit") | out_of_range)
        .withColumn("why", why)
    )
    untouched = ((F.col("api_name") == "OffsetFetch") & is_as_it_was()).alias("untouched")
    why_asked = told.filter(F.col("why").isNotNull())
    asked = said_places(why_asked, tables.names, F.col("request_at_us"), "why", untouched)
    # Who goes on where an operator has set its group to does as it is told.
    obeying = asked.filter(F.col("untouched")).join(
        broadcast(_set_by_others(tables)),
        [same("x_", "scope", "topic", "partition", "offset", own="s_"), F.col("x_at_us") <= F.col("s_at_us")],
    )
    asked = asked.withColumn("s_group", F.lit(None).cast("string")).unionByName(
        obeying.withColumns({"why": F.lit("obeyed"), "s_group": F.col("x_group")}).select(*asked.columns, "s_group")
    )
    # Over what it had fetched before a consumer seeks without asking: only its own word tells.
    said = seeks(tables.operations).withColumn("why", F.lit("said"))
    there = F.coalesce("s_offset", "j_high").between(F.col("j_low") + 1, F.col("j_high"))
    elsewhere = set_elsewhere(tables.exchanges, tables.operations, tables.names).withColumn("why", F.lit("elsewhere"))
    said = said.unionByName(elsewhere, allowMissingColumns=True)
    # It asks, and says that it seeks, once it has read what it reads.
    sent = F.col("why").isin("sent", "unheard")
    since = F.when(sent, F.col("j_since_us")).otherwise(F.col("j_from_us"))
    met = gaps.join(
        asked.unionByName(said, allowMissingColumns=True),
        [
            same("s_", "scope", "client", "topic", "partition", own="j_"),
            F.col("s_at_us").between(since, F.col("j_until_us")),
            F.coalesce("s_group", "j_group") == F.col("j_group"),
        ],
    )
    whys = F.collect_set(F.when(there | sent, F.col("why")))
    unheard, set_past = (F.array_contains("whys", F.lit(word)) for word in ("unheard", "elsewhere"))
    was_told = F.array_contains("whys", F.lit("sent")) | set_past | unheard
    asked_alone = F.array_contains("whys", F.lit("asked")) & ~was_told
    of_its_own = F.arrays_overlap("whys", F.array(F.lit("said"), F.lit("obeyed")))
    return (
        met.groupBy(*_GAP)
        .agg(whys.alias("whys"))
        .select(
            *_GAP,
            (of_its_own | asked_alone).alias("by_itself"),
            unheard.alias("j_unheard"),
            set_past.alias("j_elsewhere"),
        )
    )


# What a member of a group, or a consumer that looks where to go on, does besides committing.
_MEMBERS = (*OF_MEMBERS, "OffsetFetch", "Fetch")


def _set_by_others(tables: Tables) -> DataFrame:
    """x_scope, x_group, x_topic, x_partition, x_offset, x_at_us: commits for a group by who isn't its member."""
    by_connection = Window.partitionBy("scope", "proxy_id", "connection_id")
    rows = (
        tables.exchanges.filter(F.col("api_name").isin("OffsetCommit", *_MEMBERS))
        .withColumn("is_member", F.bool_or(F.col("api_name").isin(*_MEMBERS)).over(by_connection))
        .filter((F.col("api_name") == "OffsetCommit") & ~F.col("is_member") & is_as_it_was())
        .filter((F.col("outcome") == "answered") & F.col("group_id").isNotNull())
        .withColumn("p", F.explode("partitions"))
        .filter(F.coalesce("p.error_code", F.lit(0)) == 0)
    )
    return rows.select(
        F.col("scope").alias("x_scope"),
        F.col("group_id").alias("x_group"),
        F.col("p.topic").alias("x_topic"),
        F.col("p.partition_index").alias("x_partition"),
        F.col("p.base_offset").alias("x_offset"),
        F.col("response_at_us").alias("x_at_us"),
    ).distinct()
