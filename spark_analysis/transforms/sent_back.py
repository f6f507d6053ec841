"""What rules told a consumer of where to read, and what keeps it in its group: why it went elsewhere there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import (
    SWALLOWED,
    changes_records,
    is_as_it_was,
    touches_at,
    was_answered,
)
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.obstacles import (
    COMMITS,
    TXN_OFFSET_COMMIT,
    connection,
    ends_of,
)

LONG_US = 1_000_000
"""What is held for less costs no consumer its place in a group."""
ENDS_A_TRANSACTION = (47, 48, 49, 53, 67, 90)
"""A producer that is told so has no transaction any more, and fails all that is in it at once."""
_OUT_OF_RANGE = 1
PLACES = ("OffsetFetch", "ListOffsets")
OF_MEMBERS = ("Heartbeat", "JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat")
"""What only members of a group ask."""
_MEMBERSHIP = (*OF_MEMBERS, "FindCoordinator", "OffsetFetch")
_TOLD = ("answered", "altered_answer", "altered_request")
_KEPT = (*SWALLOWED, "cut", "silenced", "muted", "garbled")
_HELD = ("held_request", "held_answer")
# Who is told so at a commit is out of its group or has to join it anew, and the others with it.
_OUT = (22, 25, 27, 82)
# Of KIP-848: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH.
_FENCED = (25, 110, 113)
_JOINED = ("SyncGroup", "ConsumerGroupHeartbeat")
_JOINS = ("JoinGroup", "ConsumerGroupHeartbeat")
_GOES_ON_US = 1_000_000
_WELL_AGAIN_US = 5_000_000
_MOST = 1_000
_ANYTHING = 1 << 62


def told_places(exchanges: DataFrame, names: DataFrame | None, *, in_transactions: bool = False) -> DataFrame:
    """`t_scope`, `t_client` → `told`: what rules did that may send the client elsewhere, at most a thousand of each.

    Each with `at_us`, `topic` and `partition` (null: any), `offset` (of a commit), `rule`, `kind`, `what`, a key of
    `checks.phrases.SENT`, `healed_us`, when the client's next commit was taken, `taken_us`, when of a commit that was
    refused, or never was, its group's first one there was that went as far, `is_held`, that it was only late, and
    `back_us`, when the client was a member again, where it asked to be one no later than a second after that was over.
    `names` are `names_of` the operations; without them clients are Kafka's client ids. `in_transactions` where groups'
    offsets may be committed by producers (KIP-98).
    """
    touched = (F.size("fault_names") > 0) | F.col("effects").isNotNull()
    well = was_answered(F.col("outcome")) & is_as_it_was() & (F.coalesce(F.col("error_code"), F.lit(0)) == 0)
    went_well = F.col("api_name").isin(*COMMITS) & well
    joins = F.col("api_name") == "JoinGroup"
    joined = F.col("api_name").isin(*_JOINED) & well
    finds = F.col("api_name") == "FindCoordinator"
    backwards = Window.partitionBy("scope", "client_id").orderBy(F.desc("request_at_us"))
    later = backwards.rowsBetween(Window.unboundedPreceding, -1)
    asked = exchanges.filter(
        F.col("api_name").isin(*PLACES, *_MEMBERSHIP, *COMMITS, "Fetch")
        & (touched | went_well | joins | joined | finds)
    ).withColumns(
        {
            "healed_us": F.min(F.when(went_well, F.col("response_at_us"))).over(later),
            "joins_us": F.min(F.when(joins, F.col("request_at_us"))).over(later),
            "joined_us": F.min(F.when(joined, F.col("response_at_us"))).over(later),
            "finds_us": F.min(F.when(finds, F.col("request_at_us"))).over(later),
        }
    )
    asked = asked.filter(touched | went_well)
    # A Fetch is in the way of what its member asks its group on the same connection.
    grouped = exchanges.filter(F.col("api_name").isin(*OF_MEMBERS)).select(connection().alias("g_connection"))
    asked = asked.join(broadcast(grouped.distinct()), connection() == F.col("g_connection"), "left")
    of_its_group = (F.col("api_name") != "Fetch") | F.col("g_connection").isNotNull()
    asked = asked.select("*", F.posexplode_outer("partitions").alias("place", "p"))
    as_far = Window.partitionBy("scope", "group_id", "p.topic", "p.partition_index").orderBy(F.desc("p.base_offset"))
    taken_us = F.min(F.when(went_well, F.col("response_at_us"))).over(as_far)
    placed = (
        asked.withColumn("taken_us", taken_us)
        .filter(touched)
        .withColumn("t", F.explode(touches_at(F.coalesce(F.col("place"), F.lit(-1)))))
    )
    api, did = F.col("api_name"), F.col("t.did")
    code = F.coalesce(F.col("t.error_code"), F.lit(0))
    held = did.isin(*_HELD) & (
        F.coalesce(F.col("t.held_us"), F.col("response_at_us") - F.col("request_at_us"), F.lit(LONG_US)) >= LONG_US
    )
    commits = api.isin(*COMMITS)
    lied = (api == "FindCoordinator") & did.isin(*_TOLD) & (code == 0)
    what = (
        F.when((api == "Fetch") & (code == _OUT_OF_RANGE), F.lit("out_of_range"))
        .when(api.isin(*PLACES) & says_a_place(F.col("t")), F.lit("place"))
        .when((api == "Fetch") & changes_records(F.col("t")), F.lit("records"))
        .when(commits & ((did.isin(*_TOLD) & (code == 0)) | (did == "swallowed_request")), F.lit("commit"))
        # Of an answer that was changed the broker took the commit.
        .when(commits & (did == "answered"), F.lit("refused"))
        .when(of_its_group & (lied | did.isin(*_KEPT) | held | ((code != 0) & (api != "Fetch"))), F.lit("group"))
    )
    # What is never answered is in its way until its connection ends, or it may ask anew.
    kept_us = F.when(did.isin(*_KEPT), F.col("ended_us"))
    # A coordinator that was made up is one until the client asks anew: that one had refused it.
    lied_us = F.when(lied, F.col("finds_us"))
    # What leaves once the client has closed its connection it never hears.
    heard_us = F.when(F.col("response_at_us").isNotNull(), F.least("response_at_us", "ended_us"))
    over_us = F.coalesce(heard_us, "ended_us", "request_at_us")
    at_once = F.coalesce(F.col("joins_us") <= over_us + _GOES_ON_US, F.lit(False))
    # A member of KIP-848 joins with its next heartbeat.
    fenced = (api == "ConsumerGroupHeartbeat") & did.isin(*_TOLD) & code.isin(*_FENCED)
    told = F.struct(
        F.coalesce(lied_us, heard_us, kept_us, "request_at_us").alias("at_us"),
        F.col("p.topic").alias("topic"),
        F.col("p.partition_index").alias("partition"),
        F.when(commits, F.col("p.base_offset")).alias("offset"),
        F.col("t.rule").alias("rule"),
        F.col("t.kind").alias("kind"),
        what.alias("what"),
        "healed_us",
        F.when(what.isin("commit", "refused"), F.col("taken_us")).alias("taken_us"),
        held.alias("is_held"),
        F.when(at_once | fenced, F.col("joined_us")).alias("back_us"),
    )
    sending = placed.filter(what.isNotNull()).withColumn("connection", connection())
    sending = sending.join(broadcast(ends_of(exchanges)), "connection", "left").withColumn("told", told)
    out = commits & did.isin(*_TOLD) & code.isin(*_OUT)
    anywhere = F.col("told").withField("what", F.lit("group"))
    for place in ("topic", "partition", "offset"):
        anywhere = anywhere.withField(place, F.lit(None))
    both = F.array("told", anywhere.cast(sending.schema["told"].dataType))
    sending = sending.withColumn("told", F.explode(F.when(out, both).otherwise(F.array("told"))))
    by_a_producer = F.col("api_name") == TXN_OFFSET_COMMIT
    theirs = of_clients(sending.filter(~by_a_producer), names).select("scope", "t_client", "told")
    of_group = same("m_", "scope", "group_id")
    of_members = sending.filter(by_a_producer).join(broadcast(members(exchanges, names)), of_group)
    theirs = theirs.unionByName(of_members.select("scope", F.col("m_client").alias("t_client"), "told"))
    if in_transactions:
        theirs = theirs.unionByName(_aborted(exchanges, names, sending.schema["told"].dataType))
    return theirs.groupBy(F.col("scope").alias("t_scope"), "t_client").agg(
        F.slice(F.array_sort(F.array_distinct(F.collect_list("told"))), 1, _MOST).alias("told")
    )


def _aborted(exchanges: DataFrame, names: DataFrame | None, kind: DataType) -> DataFrame:
    """scope, t_client, `told` of that type: rules ended a transaction with which a producer commits the client's group.

    What it read for that it reads again: its place was to be committed at the transaction's end.
    """
    in_one = exchanges.filter(F.col("transactional_id").isNotNull())
    commits = in_one.filter((F.col("api_name") == TXN_OFFSET_COMMIT) & F.col("group_id").isNotNull()).select(
        F.col("scope").alias("c_scope"), F.col("transactional_id").alias("c_transactional_id"), "group_id"
    )
    ended = in_one.filter(F.size("touches") > 0).drop("group_id").withColumn("t", F.explode("touches"))
    ended = ended.filter(F.col("t.did").isin(*_TOLD) & F.col("t.error_code").isin(*ENDS_A_TRANSACTION))
    told = {
        "at_us": F.coalesce("response_at_us", "request_at_us"),
        "rule": F.col("t.rule"),
        "kind": F.col("t.kind"),
        "what": F.lit("transaction"),
        "is_held": F.lit(False),
    }
    assert isinstance(kind, StructType)
    fields = [told.get(name, F.lit(None)).alias(name) for name in kind.names]
    ended = ended.join(broadcast(commits.distinct()), same("c_", "scope", "transactional_id"))
    of_members = ended.join(broadcast(members(exchanges, names)), same("m_", "scope", "group_id"))
    return of_members.select("scope", F.col("m_client").alias("t_client"), F.struct(*fields).cast(kind).alias("told"))


def members(exchanges: DataFrame, names: DataFrame | None) -> DataFrame:
    """m_scope, m_client, m_group_id: who asked to join which group."""
    joins = exchanges.filter(F.col("api_name").isin(*_JOINS) & F.col("group_id").isNotNull())
    columns = {"m_scope": "scope", "m_client": "t_client", "m_group_id": "group_id"}
    return of_clients(joins, names).select(*[F.col(of).alias(name) for name, of in columns.items()]).distinct()


def told_groups(told: DataFrame, joins: DataFrame) -> DataFrame:
    """t_scope, t_group_id → `told`: what `told_places` says that any of a group's `members` was told."""
    theirs = joins.join(told, same("t_", "scope", "client", own="m_"))
    of_groups = theirs.groupBy("t_scope", F.col("m_group_id").alias("t_group_id"))
    return of_groups.agg(F.flatten(F.collect_list("told")).alias("told"))


def says_a_place(touch: Column) -> Column:
    """Whether what a rule did to a ListOffsets or OffsetFetch may change the offset that its answer tells."""
    return touch["did"].isin(*_TOLD) & (F.coalesce(touch["error_code"], F.lit(0)) == 0)


def offset_of_broker(place: Column) -> Column:
    """The offset that the broker had named for the row's partition at `place`; null where no rule changed it."""
    before = F.transform(
        F.filter("effects", lambda e: e["offsets_before"].isNotNull()),
        lambda e: F.get(e["offsets_before"], (F.array_position(e["partitions"], place) - 1).cast("int")),
    )
    # Each rule has what stood there before it: the first of them had the broker's own.
    return F.get(F.filter(before, lambda offset: offset.isNotNull()), F.lit(0))


def is_out_of_range() -> Column:
    """A partition `p` of a Fetch was answered OFFSET_OUT_OF_RANGE."""
    return (F.col("api_name") == "Fetch") & (F.col("p.error_code") == _OUT_OF_RANGE)


def of_clients(rows: DataFrame, names: DataFrame | None, how: str = "inner") -> DataFrame:
    """`rows` of exchanges with `t_client`, whose they are by `names_of` the operations; without those the client id.

    What is nobody's is left out, unless `how` is "left".
    """
    if names is None:
        return rows.withColumn("t_client", F.col("client_id"))
    own = names.select(
        F.col("scope").alias("n_scope"), F.col("wire_id").alias("n_wire_id"), F.col("client").alias("t_client")
    )
    of_client = F.col("scope").eqNullSafe(F.col("n_scope")) & (F.col("client_id") == F.col("n_wire_id"))
    return rows.join(broadcast(own), of_client, how)


def said_places(
    rows: DataFrame, names: DataFrame, at_us: Column, *more: Column | str, offset: Column | None = None
) -> DataFrame:
    """s_scope, s_client, s_topic, s_partition, s_offset, s_at_us, as `seeks`: where to go on, as clients were told it.

    `rows` are of exchanges, each with a partition `p`; `offset` is what that names, where it isn't given.
    """
    return of_clients(rows, names).select(
        F.col("scope").alias("s_scope"),
        F.col("t_client").alias("s_client"),
        F.col("p.topic").alias("s_topic"),
        F.col("p.partition_index").alias("s_partition"),
        (F.col("p.base_offset") if offset is None else offset).alias("s_offset"),
        at_us.alias("s_at_us"),
        *more,
    )


def seeks(operations: DataFrame) -> DataFrame:
    """s_scope, s_client, s_topic, s_partition, s_offset (null: not named), s_at_us: where clients said they sought."""
    return operations.filter((F.col("operation") == "seek") & (F.col("outcome") == "ok")).select(
        F.col("scope").alias("s_scope"),
        F.col("client").alias("s_client"),
        F.col("topic").alias("s_topic"),
        F.col("partition").alias("s_partition"),
        F.col("offset").alias("s_offset"),
        F.coalesce("called_at_us", "completed_at_us").alias("s_at_us"),
    )


def met_on_the_wire(again: DataFrame, exchanges: DataFrame, names: DataFrame | None) -> DataFrame:
    """`again` with `fetched_us`, when its client was first sent that record, and `resumed`, what its group said.

    That are the `offset`s of its partition that OffsetFetch told its client, each with `at_us`. Null and empty where
    the capture doesn't tell.
    """
    answered = exchanges.filter(
        F.col("api_name").isin("Fetch", "OffsetFetch") & F.col("response_at_us").isNotNull()
    ).select("scope", "client_id", "api_name", "response_at_us", F.explode("partitions").alias("p"))
    # Every transaction puts one mark into the log that isn't counted; who doesn't count may have sent anything.
    reach = F.col("p.base_offset") + F.coalesce(2 * F.col("p.record_count").cast("long"), F.lit(_ANYTHING))
    is_read = F.col("api_name") == "Fetch"
    theirs = of_clients(answered.filter(F.col("p.base_offset").isNotNull()), names).select(
        F.col("scope").alias("w_scope"),
        F.col("t_client").alias("w_client"),
        F.col("p.topic").alias("w_topic"),
        F.col("p.partition_index").alias("w_partition"),
        F.when(is_read, reach).alias("w_reach"),
        F.struct(F.col("response_at_us").alias("at_us"), F.col("p.base_offset").alias("offset")).alias("told"),
    )
    key = ("scope", "operation_id", "first_offset")
    here = same("w_", "scope", "client", "topic", "partition")
    met = again.join(theirs, [here, F.coalesce(F.col("w_reach") > F.col("first_offset"), F.lit(True))])
    met = met.groupBy(*[F.col(name).alias(f"r_{name}") for name in key]).agg(
        F.min(F.when(F.col("w_reach").isNotNull(), F.col("told.at_us"))).alias("fetched_us"),
        F.collect_list(F.when(F.col("w_reach").isNull(), F.col("told"))).alias("resumed"),
    )
    return again.join(met, same("r_", *key), "left").drop(*[f"r_{name}" for name in key])


def went_itself(t: Column) -> Column:
    """Whether who read a record again went back by itself, by what it `met_on_the_wire`: its group did not send it.

    So did whom its group told to go on behind that record, and who was first sent it when it was a member again.
    """
    told = F.filter("resumed", lambda r: r["at_us"].between(t["at_us"], F.col("at_us")))
    beyond = F.array_min(F.transform(told, lambda r: r["offset"])) > F.col("first_offset")
    anew = (t["what"] == "group") & (F.col("fetched_us") > t["back_us"])
    itself = F.coalesce(beyond, F.lit(False)) | F.coalesce(anew, F.lit(False))
    return t["what"].isin("group", "commit", "refused", "transaction") & itself


def with_senders_back(
    rows: DataFrame,
    told: DataFrame,
    whose: Sequence[Column] = (),
    disproven: Callable[[Column], Column] = lambda _: F.lit(False),
) -> DataFrame:
    """`rows` of records read again with `sent_by`: what sent the client back there, as `told_places` tells it.

    `rows` have scope, client, topic, partition, first_offset, at_us, and `since_us`: when it first had come further.
    `whose` are the conditions by which a row's client was told something; by default that it was told it itself.
    `disproven` is whether something told didn't send it there.
    """
    rows = rows.join(broadcast(told), list(whose) or same("t_", "scope", "client"), "left")

    def here(t: Column, counts: Column) -> Column:
        place = F.coalesce(t["topic"] == F.col("topic"), F.lit(True))
        place &= F.coalesce(t["partition"] == F.col("partition"), F.lit(True))
        # A commit that never was tells only when somebody asks for it, which may be much later.
        commit = t["what"].isin("commit", "refused") & F.coalesce(t["offset"] > F.col("first_offset"), F.lit(False))
        # Whose commit was taken after that is still in its group, and what it reads again long afterwards is no sign.
        well_again = (t["what"] == "group") & F.coalesce(
            t["healed_us"] + _WELL_AGAIN_US <= F.col("at_us"), F.lit(False)
        )
        # Where the group had committed as far since then, nobody went back because it once could not.
        retried = F.coalesce(t["taken_us"] <= F.col("at_us"), F.lit(False))
        return place & (t["at_us"] <= F.col("at_us")) & (commit | counts) & ~well_again & ~retried & ~disproven(t)

    def later(t: Column) -> Column:
        # Until a producer hears that its transaction has ended what it copies goes on being read for that.
        moment_us = F.when(t["what"] == "transaction", F.lit(_GOES_ON_US)).otherwise(F.lit(0))
        return t["at_us"] >= F.col("since_us") - moment_us

    met = F.filter("told", lambda t: here(t, later(t)))
    # Whom its group has thrown out goes on with what it was handed, for a moment, or until one after it joined anew.

    def goes_on(t: Column) -> Column:
        still_out = t["healed_us"].isNull() | (t["healed_us"] > F.col("since_us"))
        then = (t["at_us"] >= F.col("since_us") - _GOES_ON_US) & still_out
        joining = F.coalesce(t["back_us"] + _GOES_ON_US >= F.col("since_us"), F.lit(False))
        return (t["what"] == "group") & here(t, then | joining)

    before = F.filter("told", goes_on)
    sure = F.filter(met, lambda t: t["what"].isin("out_of_range", "place"))

    def of(what: str) -> Column:
        return F.filter(met, lambda t: t["what"] == what)

    first = (sure, of("commit"), of("refused"), of("records"), of("transaction"), met)
    found = F.coalesce(*[F.when(F.size(those) > 0, those) for those in first], before)
    return rows.withColumn("sent_by", F.coalesce(found, F.array()))
