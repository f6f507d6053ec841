"""What stood in the clients' way, for how long and by which rule, and whose way it was; docs/verdicts.md has the links.

Compared with no operation yet: `transforms.causes` does that.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast, settled, those_after
from notleader.spark_analysis.transforms.attempts import (
    SWALLOWED,
    THROTTLED,
    any_did,
    begun_us,
    is_as_it_was,
    was_answered,
)
from notleader.spark_analysis.transforms.intervals import join_moments
from notleader.spark_analysis.transforms.keys import same

HOLDS = ("held_request", "held_answer")
MUTED = "muted"
"""What an answer did to all that comes behind it, and nothing to its own exchange."""
GREETED = "greeted"
"""What an ApiVersions answer did that a rule had changed."""
_OF_THE_ANSWER = ("held_answer", "altered_answer", "swallowed_answer")
SWALLOWS = (*SWALLOWED, "silenced")
_SAY_OTHERWISE = ("answered", "altered_request", "altered_answer", "garbled")
CUTS = ("cut", "refused", "garbled", "silenced")
STANDS = ("refused", "silenced")
# How the proxy says what has become of a listener, and that a silenced connection goes on.
_LISTENER_IS = r"^listener (\S+) is (\w+)"
_OF_BROKER = r"^broker-(\d+)$"
_GOES_ON = "goes on"
# A client pauses after an error; what it does much later has other reasons.
PAUSE_US = 10_000_000
# So long a socket keeps what was written to it and nobody reads.
_UNREAD_US = 60_000_000
# What lay in the proxy's socket when a silence began is read this soon after it.
_LAY_US = 50_000
# A client that obeys a throttle may come back by so much of its time late.
_OF_A_MUTE = 0.25
# Obstacles of one rule that follow each other this closely are one.
_APART_US = 100_000


def connection(within: str = "") -> Column:
    """One connection of one proxy, as a number; from the row itself, or from a struct in it (`within`, with a dot)."""
    return F.xxhash64("scope", F.col(f"{within}proxy_id"), F.col(f"{within}connection_id"))


def ends_of(exchanges: DataFrame) -> DataFrame:
    """`connection` → `ended_us`: when the connections of the capture ended, those that did."""
    ended = exchanges.filter(F.col("event") == "disconnect").groupBy(connection().alias("connection"))
    return ended.agg(F.max("request_at_us").alias("ended_us"))


def _of_listener() -> Column:
    """The row is about a listener, and no connection of it."""
    return F.col("connection_id").isNull()


def listener_named() -> Column:
    """The listener that a row of event `fault` is about, as its detail says; empty where it is about none."""
    return F.regexp_extract(F.coalesce("detail", F.lit("")), _LISTENER_IS, 1)


def _fate() -> Column:
    """What has become of the listener that the row is about (open, silent, refusing); empty where it is of none."""
    return F.regexp_extract(F.coalesce("detail", F.lit("")), _LISTENER_IS, 2)


def is_lifted() -> Column:
    """The row says that its listener is open again, or that its connection goes on."""
    return (F.col("event") == "fault") & ((_fate() == "open") | (F.coalesce("detail", F.lit("")) == _GOES_ON))


def clients_of(history: DataFrame, names: DataFrame) -> DataFrame:
    """scope, client, `connection` or `wire_id`: whose connections and client ids these are, where that is one's."""
    used = (
        history.select("scope", "client", F.explode("attempts").alias("a"))
        .filter(F.col("a.match_kind") != "time")
        .select("scope", "client", connection("a.").alias("connection"))
        .distinct()
    )
    by_name = names.withColumn("connection", F.lit(None).cast("long"))
    return used.withColumn("wire_id", F.lit(None).cast("string")).unionByName(by_name)


def names_of(operations: DataFrame) -> DataFrame:
    """scope, client, `wire_id`: the client ids that are one client's alone."""
    wire_ids = F.explode(F.array_compact(F.array("client_id", "client")))
    by_name = operations.select("scope", "client", wire_ids.alias("wire_id")).distinct()
    alone = Window.partitionBy("scope", "wire_id")
    return by_name.withColumn("owners", F.count("*").over(alone)).filter("owners = 1").drop("owners")


class Stood(NamedTuple):
    """What rules did to exchanges, connections and listeners, whosever way that was in; of no operation yet.

    `found`: obstacles of no client yet. `unheard`: see `_unheard_ends`; None where no connection was silenced.
    `shut`: see `_shut`; None where nobody was refused. `altered`: whether an answer was changed.
    """

    found: DataFrame
    unheard: DataFrame | None
    shut: DataFrame | None
    altered: bool


def what_stood(exchanges: DataFrame, did: Collection[str], last_us: int, *, reads: bool) -> Stood:
    """What the exchanges alone tell of obstacles, `settled`; `did` is all that rules did, the run ended at `last_us`.

    What no rule did is not looked for, nor without `reads` what only those meet.
    """
    told = settled(
        exchanges.select(
            *_ASKED,
            connection().alias("connection"),
            "touches",
            _told_of().alias("told_of"),
            F.transform("effects", lambda e: e["partitions"].isNull()).alias("of_all"),
            F.lit(last_us).alias("run_end_us"),
        )
    )
    touched = settled(told.filter(F.size("touches") > 0))

    def some_did(*words: str) -> bool:
        return not set(words).isdisjoint(did)

    lines = told.join(broadcast(touched.select("connection").distinct()), "connection", "left_semi")
    # Read up to four times below.
    lines = settled(lines) if some_did(*STANDS) else lines
    connects = told.filter((F.col("event") == "connect") & (F.size("touches") == 0))
    found = [_answers(told, touched, greeted=some_did(GREETED))]
    found += [_fetches(told, touched)] if reads and some_did(*_SAY_OTHERWISE) else []
    found += [_lines(lines)] if some_did(*HOLDS, *SWALLOWS, MUTED, THROTTLED) else []
    found += [_cuts(told, touched)] if some_did(*CUTS) else []
    found += [_standing(lines, connects), _told_late(lines)] if some_did(*STANDS) else []
    unheard = _unheard_ends(lines) if some_did("silenced") else None
    # Read twice by `_of_clients`.
    every = settled(reduce(DataFrame.unionByName, found))
    return Stood(every, unheard, _shut(every) if some_did("refused") else None, some_did("altered_answer"))


def obstacles_of(stood: Stood, names: DataFrame, history: DataFrame) -> DataFrame:
    """scope, client, how, connection, topic, partition, rule, kind, did, error_code, from_us, until_us, covered_us."""
    every = _of_clients(stood.found, names).unionByName(_partitions(history, stood.unheard, stood.shut))
    bursts = _bursts(every.filter(F.col("until_us") > F.col("from_us")))
    return _well_with(bursts, history) if stood.altered else bursts.withColumn("well", F.lit(None).cast(_WELL))


def _well_with(obstacles: DataFrame, history: DataFrame) -> DataFrame:
    """`obstacles` with `well`: from when on the client's batches of each partition went well with what it was told.

    That is for answers that were changed without an error, and named no other leader.
    """
    names = ("scope", "client", "rule", "from_us", "until_us")
    told = obstacles.filter("same_leaders").select(*[F.col(name).alias(f"k_{name}") for name in names])
    batches = history.select("scope", "client", "topic", "partition", F.explode("attempts").alias("a")).filter(
        F.col("partition").isNotNull() & was_answered(F.col("a.outcome")) & (F.coalesce("a.error_code", F.lit(0)) == 0)
    )
    sent = batches.withColumn("asked_us", F.col("a.request_at_us"))
    went = join_moments(told, sent, ("k_from_us", "k_until_us"), "asked_us", same("k_", "scope", "client"))
    of_it = ("k_scope", "k_client", "k_rule", "k_from_us")
    well = (
        went.groupBy(*of_it, "topic", "partition")
        .agg(F.min("a.response_at_us").alias("well_us"))
        .groupBy(*of_it)
        .agg(F.collect_list(F.struct("topic", "partition", "well_us")).alias("well"))
    )
    this = F.col("same_leaders") & same("k_", "scope", "client", "rule", "from_us")
    return obstacles.join(broadcast(well), this, "left").drop(*of_it)


def _told_of() -> Column:
    """For each of the row's effects the partitions that it reached, as `places`; null where it reached them all."""

    def place(number: Column) -> Column:
        named = F.get("partitions", number)
        return F.struct(named["topic"].alias("topic"), named["partition_index"].alias("partition"))

    def of(effect: Column) -> Column:
        few = F.size(effect["partitions"]).between(1, _MOST_PLACES)
        return F.when(few, F.transform(effect["partitions"], place)).cast(_PLACES)

    return F.transform("effects", of)


_ASKED = (
    "scope",
    "proxy_id",
    "connection_id",
    "exchange_seq",
    "event",
    "listener",
    "node_id",
    "client_id",
    "api_name",
    "request_at_us",
    "forwarded_at_us",
    "broker_responded_at_us",
    "response_at_us",
    "throttle_time_ms",
    "acks",
    "detail",
    "error_code",
)
"""What an obstacle is read from, of an exchange."""

_SHAPE = (
    "scope",
    "how",
    "connection",
    "node_id",
    "wire_id",
    "topic",
    "partition",
    "rule",
    "kind",
    "did",
    "error_code",
    "from_us",
    "until_us",
    "stands_us",
    "hit_us",
    "read_us",
    "order_us",
    "places",
    "asked_else",
    "else_us",
    "same_leaders",
)
"""`stands_us`: when it was over by itself; until then it surely stood, from there on until the client was back.

`order_us`: who came before that is not behind it. `places`: the partitions that it told of, if known. `asked_else`:
whether its client asked that broker for more than batches, so that what goes elsewhere may need it, too. `else_us`:
when its client was told what it had asked for there. `same_leaders`: a changed answer, without an error or another
leader.
"""


def _shape(rows: DataFrame, how: str, *more: str, **given: Column) -> DataFrame:
    """Obstacle rows from exchange rows with `t`; what is neither `given` nor an exchange's they don't have."""
    no_time = F.lit(None).cast("long")
    columns = {
        "how": F.lit(how),
        "wire_id": F.col("client_id"),
        "topic": F.lit(None).cast("string"),
        "partition": F.lit(None).cast("int"),
        "hit_us": F.coalesce("response_at_us", "request_at_us"),
        **{name: F.col(f"t.{name}") for name in ("rule", "kind", "did", "error_code")},
        **dict.fromkeys(("stands_us", "read_us", "order_us"), no_time),
        "places": F.lit(None).cast(_PLACES),
        "asked_else": F.lit(False),
        "else_us": no_time,
        "same_leaders": F.lit(False),
        **given,
    }
    return rows.select(*more, *[columns.get(name, F.col(name)).alias(name) for name in _SHAPE])


_PLACES = "array<struct<topic:string,partition:int>>"
_WELL = "array<struct<topic:string,partition:int,well_us:bigint>>"
_MOST_PLACES = 100
_ONE = ("connection",)
_IN_TIME = ("request_at_us", "exchange_seq")
_OF_BATCHES = ("Produce", "Fetch", "ApiVersions", "SaslHandshake", "SaslAuthenticate")
_IN_TURN = ("exchange_seq", "request_at_us")
TXN_OFFSET_COMMIT = "TxnOffsetCommit"
"""What a consumer committed by a producer, whose client id and connections are others (KIP-98)."""
_GREETING = "ApiVersions"
_LOGINS = ("SaslHandshake", "SaslAuthenticate")
COMMITS = ("OffsetCommit", TXN_OFFSET_COMMIT)
_OF_TRANSACTIONS = ("AddPartitionsToTxn", "AddOffsetsToTxn", TXN_OFFSET_COMMIT, "EndTxn")
_BEGINS_ANEW = "InitProducerId"
_FENCED = (22, 25, 47, 49, 82, 90)
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, FENCED_INSTANCE_ID and
PRODUCER_FENCED: after these a transactional producer, or the member that it commits for, has to begin anew."""


def _lines(exchanges: DataFrame) -> DataFrame:
    """What the head of a connection's queue waited for, all behind it waited for too: Kafka answers in order."""
    order = Window.partitionBy(*_ONE).orderBy(*_IN_TURN)
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    later = those_after(_ONE, _IN_TURN)
    is_exchange = F.col("event") == "exchange"
    all_of_it = Window.partitionBy(*_ONE)
    last_answered = F.max(F.when(F.col("response_at_us").isNotNull(), F.col("exchange_seq"))).over(all_of_it)
    rows = (
        exchanges.withColumn("last_answered", F.coalesce(last_answered, F.lit(-1)))
        .withColumns(
            {
                # Of those that were never answered, and shut off from the rest, the first keeps all others.
                "first_awaited": F.min(
                    F.when(
                        is_exchange & (F.col("exchange_seq") > F.col("last_answered")) & ~_without_answer(),
                        F.col("exchange_seq"),
                    )
                ).over(all_of_it),
                "forwarded_before": F.max("forwarded_at_us").over(earlier),
                "answered_before": F.max("response_at_us").over(earlier),
                "answered_after": F.min("response_at_us").over(later),
                "asked_after": F.min(F.when(is_exchange, F.col("request_at_us"))).over(later),
                "closed_us": F.max(F.when(F.col("event") == "disconnect", F.col("request_at_us"))).over(all_of_it),
            }
        )
        .filter(is_exchange & (F.size("touches") > 0))
        .filter(~F.coalesce(F.col("exchange_seq") > F.col("first_awaited"), F.lit(False)) | _without_answer())
    )
    gone = F.coalesce("closed_us", "run_end_us")
    # Nobody heard of what an answer said that never came.
    wait_us = F.col("throttle_time_ms") * F.lit(1000).cast("long")
    told_us = F.col("response_at_us") + wait_us
    heard = F.col("response_at_us").isNotNull()
    # What a client sends meanwhile is read when it is muted no more; who sends later did not wait for that.
    lay_us = F.greatest(F.lit(_LAY_US), wait_us * _OF_A_MUTE)
    kept_any = ~F.coalesce(F.col("asked_after") > told_us + lay_us, F.lit(False))
    # Who asks for more in the midst of that time doesn't obey, and did not wait for it.
    obeyed = ~F.coalesce(
        (F.col("asked_after") > F.col("response_at_us")) & (F.col("asked_after") < told_us - lay_us), F.lit(False)
    )
    did = F.col("t.did")
    # Whom a rule also muted that tells.
    throttled = (did == THROTTLED) & ~any_did("touches", MUTED)
    rows = rows.withColumn("t", F.explode("touches")).filter(
        did.isin(*HOLDS, *SWALLOWS) | (throttled & heard & obeyed) | ((did == MUTED) & heard & kept_any)
    )
    answered_by_broker = F.coalesce("broker_responded_at_us", "request_at_us")
    begun = (
        F.when(did == "held_request", F.greatest("request_at_us", "forwarded_before"))
        .when(did == "held_answer", F.greatest(answered_by_broker, "answered_before"))
        .otherwise(F.greatest("request_at_us", "answered_before"))
    )
    ended = F.when(did == "held_request", F.coalesce("forwarded_at_us", gone)).otherwise(
        F.coalesce("response_at_us", "answered_after", gone)
    )
    # A hold of which only the ends are recorded: the whole exchange.
    whole = did.isin(*HOLDS) & F.when(
        did == "held_request", F.coalesce(F.col("forwarded_at_us") == F.col("request_at_us"), F.lit(False))
    ).otherwise(F.col("broker_responded_at_us").isNull())
    rows = rows.withColumns(
        {
            "from_us": F.when(whole, F.col("request_at_us")).otherwise(begun),
            "until_us": F.when(whole, F.coalesce("response_at_us", gone)).otherwise(ended),
        }
    )
    # What is muted is so from its answer on, for as long as that says; who isn't and was told to wait may send again.
    muted = did.isin(MUTED, THROTTLED) & F.col("throttle_time_ms").isNotNull()
    heard_again = F.least(told_us, F.when(did == THROTTLED, F.col("asked_after")), gone)
    from_us = F.when(muted, F.col("response_at_us")).otherwise(F.col("from_us"))
    until_us = F.when(muted, heard_again).otherwise(F.col("until_us"))
    # Of several rules that held it each answers for as long as it did.
    alone_us = F.coalesce(from_us + F.col("t.held_us"), until_us)
    return _shape(
        rows, "behind", from_us=from_us, until_us=F.least(until_us, alone_us), order_us=F.col("request_at_us")
    )


def _without_answer() -> Column:
    """Nobody waits for an answer: a Produce with `acks=0`."""
    return F.coalesce(F.col("acks") == 0, F.lit(False))


def _with_greeted(asked: DataFrame, exchanges: DataFrame) -> DataFrame:
    """The touched of `asked`, with `greeted`: its client sent or asked for batches before it was greeted as it is."""
    names, since_us = ("scope", "client_id"), F.coalesce("response_at_us", "request_at_us")
    # Who asks in a version that the broker doesn't know is told that, and asks again.
    untouched = is_as_it_was() & (F.coalesce("error_code", F.lit(0)) == 0)
    as_it_is = F.when((F.col("api_name") == _GREETING) & untouched, F.col("response_at_us"))
    rows = asked.withColumn("as_it_is_us", F.min(as_it_is).over(those_after(names, _IN_TIME)))
    rows = rows.filter(F.size("touches") > 0)
    spans = rows.filter(F.col("api_name") == _GREETING).select(
        *[F.col(name).alias(f"k_{name}") for name in (*names, "connection", "exchange_seq")],
        since_us.alias("k_since_us"),
        F.coalesce("as_it_is_us", F.greatest(since_us, "run_end_us")).alias("k_until_us"),
    )
    batches = exchanges.filter((F.col("event") == "exchange") & F.col("api_name").isin("Produce", "Fetch"))
    # Two of each second do: that there is one is all that is asked.
    second = (F.col("request_at_us") / 1_000_000).cast("long").alias("second")
    batches = batches.groupBy(*names, second).agg(
        F.array(F.min("request_at_us"), F.max("request_at_us")).alias("asked_us")
    )
    batches = batches.withColumn("asked_us", F.explode("asked_us"))
    of_it = ("k_connection", "k_exchange_seq")
    went = join_moments(spans, batches, ("k_since_us", "k_until_us"), "asked_us", same("k_", *names))
    went = went.select(*of_it, F.lit(True).alias("greeted")).distinct()
    return rows.join(broadcast(went), same("k_", "connection", "exchange_seq"), "left").drop(*of_it)


def _answers(exchanges: DataFrame, touched: DataFrame, *, greeted: bool) -> DataFrame:
    """What a client was told, or not told, about everything but its batches: until it was told something else.

    Of its transactions that is also a producer id that it was given. A login that a rule let pass, with another
    lifetime, keeps nobody waiting, nor does a commit that it acknowledged, nor, where rules changed lists of versions
    (`greeted`), one that its client went on with.
    """
    others = touched.filter((F.col("event") == "exchange") & ~F.col("api_name").isin("Produce", "Fetch"))
    also = F.when(F.col("api_name").isin(*_OF_TRANSACTIONS), F.array("api_name", F.lit(_BEGINS_ANEW)))
    apis = others.select(
        "scope", "client_id", F.explode(F.coalesce(also, F.array("api_name"))).alias("api_name")
    ).distinct()
    order = Window.partitionBy("scope", "client_id", "api_name").orderBy(*_IN_TIME)
    since = those_after(("scope", "client_id"), _IN_TIME)
    asked = exchanges.filter(F.col("event") == "exchange").join(
        broadcast(apis.withColumnsRenamed({n: f"k_{n}" for n in apis.columns})),
        same("k_", "scope", "client_id") & (F.col("api_name") == F.col("k_api_name")),
        "left_semi",
    )
    answered = F.coalesce("response_at_us", "request_at_us")
    begun_anew = (F.col("api_name") == _BEGINS_ANEW) & is_as_it_was()
    anew_us = F.min(F.when(begun_anew, F.col("response_at_us"))).over(since)
    next_us = F.least(F.lead(answered).over(order), F.when(F.col("api_name").isin(*_OF_TRANSACTIONS), anew_us))
    rows = asked.withColumn("next_us", next_us)
    rows = _with_greeted(rows, exchanges) if greeted else rows.filter(F.size("touches") > 0)
    api, told_well = F.col("api_name"), F.coalesce(F.col("t.error_code"), F.lit(0)) == 0
    goes_on = api.isin(*_LOGINS) & (F.col("t.did") == "altered_answer") & told_well
    if greeted:
        goes_on |= F.coalesce("greeted", F.lit(False)) & (F.col("t.did") == "altered_answer") & told_well
    # Whose commit is acknowledged goes on, whether or not it ever was.
    goes_on |= api.isin(*COMMITS) & F.col("t.did").isin("answered", "altered_answer", "altered_request") & told_well
    rows = rows.select("*", F.posexplode("touches").alias("effect", "t")).filter(
        # Whom a throttle tells to wait it tells nothing else.
        ~F.col("t.did").isin("repeated", "shaped", "refused") & (F.col("t.kind") != "throttle") & ~goes_on
    )
    did = F.col("t.did")
    # What the broker took, before a rule had its answer or after one let the request go, is its own time.
    from_us = F.coalesce(F.when(did.isin(*_OF_THE_ANSWER), F.col("broker_responded_at_us")), "request_at_us")
    passed = (did == "held_request") & (F.col("forwarded_at_us") > F.col("request_at_us"))
    let_go_us = F.coalesce(F.when(passed, F.col("forwarded_at_us")), "response_at_us", "run_end_us")
    # Each of several rules held it for its own time, and what another swallowed then no longer.
    until_us = F.when(did.isin(*HOLDS), F.least(let_go_us, from_us + F.col("t.held_us"))).otherwise(
        F.least(F.greatest(F.coalesce("next_us", answered + PAUSE_US), answered), answered + PAUSE_US)
    )
    # Who is fenced goes on when it begins anew, however late that is.
    fenced = api.isin(*_OF_TRANSACTIONS) & F.coalesce(F.col("t.error_code").isin(*_FENCED), F.lit(False))
    until_us = F.when(fenced, F.greatest(F.coalesce("next_us", "run_end_us"), answered)).otherwise(until_us)
    of_all = F.coalesce(F.get("of_all", F.col("effect")), F.lit(False)) & (F.col("api_name") != "FindCoordinator")
    return _shape(
        rows,
        "told",
        from_us=from_us,
        until_us=until_us,
        places=F.get("told_of", F.col("effect")),
        same_leaders=(did == "altered_answer") & F.col("t.error_code").isNull() & of_all,
    )


def _fetches(exchanges: DataFrame, touched: DataFrame) -> DataFrame:
    """What a client was told in the place of records: until that broker answers its next Fetch, or any does."""
    others = touched.filter((F.col("event") == "exchange") & (F.col("api_name") == "Fetch"))
    clients = others.select(F.col("scope").alias("k_scope"), F.col("client_id").alias("k_client_id")).distinct()
    asked = exchanges.filter((F.col("event") == "exchange") & (F.col("api_name") == "Fetch")).join(
        broadcast(clients), same("k_", "scope", "client_id"), "left_semi"
    )
    of_client = Window.partitionBy("scope", "client_id").orderBy(*_IN_TIME)
    of_broker = Window.partitionBy("scope", "client_id", "node_id").orderBy(*_IN_TIME)
    next_us = F.coalesce(F.lead("response_at_us").over(of_broker), F.lead("response_at_us").over(of_client))
    rows = asked.withColumn("next_us", next_us).filter(F.size("touches") > 0)
    rows = rows.select("*", F.posexplode("touches").alias("effect", "t"))
    rows = rows.filter(F.col("t.did").isin(*_SAY_OTHERWISE))
    answered = F.coalesce("response_at_us", "request_at_us")
    return _shape(
        rows,
        "read",
        from_us=F.col("request_at_us"),
        until_us=F.least(F.greatest(F.coalesce("next_us", answered + PAUSE_US), answered), answered + PAUSE_US),
        places=F.get("told_of", F.col("effect")),
    )


def _cuts(exchanges: DataFrame, touched: DataFrame) -> DataFrame:
    """Connections that were cut, refused or silenced: until the client has a request passed on to that node again.

    What goes to other brokers needs one that was cut no longer than until its client was told what it asked for there.
    Of one that was silenced, until it is answered there, or has asked for something there when the silence was over.
    What lay in the proxy's socket is read and answered at once: what was lost behind it comes when the client's TCP
    sends it again, and until then it is not over. Where it went on, and nobody had waited there for an answer and
    nothing had been kept, it was in nobody's way.

    `read_us` is when the proxy had last read a request there, of a connection that ended: what was written since then
    was lost with it. What was silent and went on lost nothing.
    """
    again = those_after(("scope", "client_id", "node_id"), _IN_TIME)
    nodes = touched.withColumn("t", F.explode("touches")).filter(F.col("t.did").isin(*CUTS) & ~_of_listener())
    nodes = nodes.select(
        F.col("scope").alias("k_scope"), F.col("client_id").alias("k_client_id"), F.col("node_id").alias("k_node_id")
    ).distinct()
    is_exchange = F.col("event") == "exchange"
    of_batches = F.col("api_name").isin(*_OF_BATCHES)
    asked_again = those_after(("scope", "client_id", "api_name"), _IN_TIME)
    clients = broadcast(nodes.drop("k_node_id").distinct())
    theirs = exchanges.join(clients, same("k_", "scope", "client_id"), "left_semi")
    theirs = theirs.withColumn("else_us", F.min("response_at_us").over(asked_again))
    rows = theirs.join(
        broadcast(nodes),
        same("k_", "scope", "client_id", "node_id"),
        "left_semi",
    ).withColumns(
        {
            "heard_us": F.min("response_at_us").over(again),
            "asked_us": F.min(F.when(is_exchange, F.col("request_at_us"))).over(again),
            # What was passed on came over a connection that was there.
            "passed_us": F.min(F.when(is_exchange, F.col("forwarded_at_us"))).over(again),
            "asked_else": F.max(is_exchange & ~of_batches).over(Window.partitionBy("scope", "client_id", "node_id")),
        }
    )
    at_us = F.col("request_at_us")
    ends = F.when(F.col("event") == "disconnect", at_us)
    read = F.when(F.col("event").isin("exchange", "connect"), at_us)
    awaited = F.when(is_exchange & ~_without_answer(), F.coalesce("response_at_us", "run_end_us"))
    order = Window.partitionBy(*_ONE).orderBy(*_IN_TIME)
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    later = those_after(_ONE, _IN_TIME)
    rows = rows.withColumns(
        {
            "used_us": F.min(F.when(is_exchange, at_us).otherwise(ends)).over(later),
            "lay": F.coalesce(at_us - F.max(F.when(is_lifted(), at_us)).over(earlier) < _LAY_US, F.lit(False)),
        }
    ).withColumns(
        {
            "lay_answered_us": F.min(F.when(F.col("lay"), F.col("response_at_us"))).over(later),
            "asked_anew_us": F.min(F.when(is_exchange & ~F.col("lay"), at_us)).over(later),
            "read_us": F.max(read).over(earlier),
            "awaited_us": F.max(awaited).over(earlier),
            "lifted_us": F.min(F.when(is_lifted(), at_us)).over(later),
            "closed_us": F.min(ends).over(later),
            "answered_us": F.min("response_at_us").over(later),
            "asked_after_us": F.min(F.when(is_lifted() | ends.isNotNull(), F.col("asked_us"))).over(later),
            "used_us": F.min(F.when(is_lifted(), F.col("used_us"))).over(later),
        }
    )
    rows = rows.filter((F.size("touches") > 0) & ~_of_listener()).withColumn("t", F.explode("touches"))
    silenced = F.col("t.did") == "silenced"
    # What was silent for a known time is in the way that long; `_told_late` has it.
    rows = rows.filter(F.col("t.did").isin(*CUTS) & ~(silenced & F.col("t.held_us").isNotNull()))
    rule = Window.partitionBy("scope", F.col("t.rule"))
    went_on = _outlived(F.col("lifted_us"), F.col("closed_us"))
    # A client's TCP sends again what was lost at the latest when as much time has passed anew.
    in_vain_us = F.col("lifted_us") * 2 - at_us + _APART_US
    unused = F.coalesce(F.col("awaited_us") < at_us, F.lit(True)) & F.coalesce(
        F.col("used_us") > in_vain_us, F.col("run_end_us") > in_vain_us
    )
    rows = rows.filter(~F.coalesce(silenced & went_on & unused, F.lit(False)))
    read_us = F.greatest("read_us", at_us - _UNREAD_US)
    sent_again = (
        (F.col("lay_answered_us") - F.col("lifted_us") < _APART_US)
        & (F.col("asked_anew_us") > F.col("lay_answered_us"))
        & (F.col("asked_anew_us") <= in_vain_us)
    )
    again_us = (
        F.when(silenced & sent_again, F.col("asked_anew_us"))
        .when(silenced, F.least("heard_us", "asked_after_us"))
        .otherwise(F.least("heard_us", "passed_us"))
    )
    stands_us = F.when(silenced, F.least("lifted_us", "closed_us", "answered_us", "run_end_us"))
    over_us = F.greatest("rule_last_us", F.when(silenced, F.col("lifted_us")))
    paused_us = F.least(F.coalesce(again_us, "run_end_us"), over_us + PAUSE_US)
    return _shape(
        rows.withColumn("rule_last_us", F.max("request_at_us").over(rule)),
        "cut",
        read_us=F.when(~(silenced & went_on), read_us),
        from_us=at_us,
        stands_us=stands_us,
        until_us=F.greatest(paused_us, stands_us),
        asked_else=F.col("asked_else"),
        else_us=F.when(is_exchange & ~of_batches, F.col("else_us")),
    )


def _outlived(lifted_us: Column, closed_us: Column) -> Column:
    """Its connection was there for some time yet when the silence was over: it was not over because of its end."""
    return F.coalesce(lifted_us + _APART_US < F.coalesce(closed_us, "run_end_us"), F.lit(False))


def _told_late(lines: DataFrame) -> DataFrame:
    """Connections whose end a rule kept from their client: silent for as long as the capture says."""
    rows = lines.filter((F.col("event") == "fault") & ~_of_listener()).withColumn("t", F.explode("touches"))
    rows = rows.filter((F.col("t.did") == "silenced") & F.col("t.held_us").isNotNull())
    until_us = F.col("request_at_us") + F.col("t.held_us")
    return _shape(rows, "cut", from_us=F.col("request_at_us"), until_us=until_us, stands_us=until_us)


def _standing(lines: DataFrame, connects: DataFrame) -> DataFrame:
    """Listeners that a rule refuses or silences: until one takes a connection that is open again, or is taken anew.

    The capture says when it is open; before it did, a connection that was taken tells. Where one rule silences a
    listener that another refuses, it is silent: the refusal begins when that is over.
    """
    at_us = F.col("request_at_us")
    no_time = F.lit(None).cast("long")
    rows = lines.filter(_of_listener()).withColumns(
        {
            "place": listener_named(),
            "fate": _fate(),
            "over_us": F.when(is_lifted(), at_us),
            "taken_us": no_time,
        }
    )
    taken = connects.withColumns(
        {"place": F.col("listener"), "fate": F.lit(""), "over_us": at_us, "taken_us": at_us}
    ).withColumn("touches", F.slice("touches", 1, 0))
    later = those_after(("scope", "proxy_id", "place"), _IN_TIME)
    shut = F.when(F.col("fate").isin("silent", "refusing"), at_us)
    back_us = F.coalesce("taken_us", F.min(F.coalesce("taken_us", shut)).over(later))
    rows = rows.unionByName(taken).withColumn("back_us", back_us)
    rows = rows.withColumns(
        {
            "lifted_us": F.min("over_us").over(later),
            "loud_us": F.min(F.when(F.col("fate") == "refusing", at_us)).over(later),
            "back_us": F.min(F.when(F.col("over_us").isNotNull(), F.col("back_us"))).over(later),
        }
    )
    rows = rows.filter(F.size("touches") > 0).withColumn("t", F.explode("touches"))
    rows = rows.filter(F.col("t.did").isin(*STANDS))
    refused = F.col("t.did") == "refused"
    waits = refused & (F.col("fate") == "silent")
    begun = F.when(waits, F.col("loud_us")).otherwise(at_us)
    other_us = F.when(~refused, F.col("loud_us"))
    stands = F.least("lifted_us", other_us, "run_end_us")
    broker = F.regexp_extract("place", _OF_BROKER, 1)
    return _shape(
        rows,
        "cut",
        from_us=begun,
        until_us=F.least(F.coalesce("back_us", "run_end_us"), stands + PAUSE_US, other_us),
        stands_us=stands,
        node_id=F.when(broker != "", broker.cast("int")),
    )


def _of_clients(obstacles: DataFrame, names: DataFrame) -> DataFrame:
    """Each obstacle under the clients whose it is; a rule that touched nobody we know is nobody's obstacle."""
    by_connection = names.filter(F.col("connection").isNotNull()).select(
        F.col("connection").alias("n_connection"), F.col("client").alias("c_client")
    )
    by_name = names.filter(F.col("wire_id").isNotNull()).select(
        F.col("scope").alias("n_scope"), F.col("wire_id").alias("n_wire_id"), F.col("client").alias("w_client")
    )
    rows = obstacles.join(broadcast(by_connection), F.col("connection") == F.col("n_connection"), "left")
    rows = rows.join(
        broadcast(by_name),
        F.col("scope").eqNullSafe(F.col("n_scope")) & (F.col("wire_id") == F.col("n_wire_id")),
        "left",
    )
    # A client id that one client alone has on the wire is its own on every connection.
    theirs = (
        rows.filter(F.col("c_client").isNotNull() & F.col("wire_id").isNotNull())
        .groupBy(F.col("scope").alias("t_scope"), F.col("wire_id").alias("t_wire_id"))
        .agg(F.min("c_client").alias("t_client"), F.count_distinct("c_client").alias("owners"))
        .filter("owners = 1")
    )
    rows = rows.join(
        broadcast(theirs),
        F.col("scope").eqNullSafe(F.col("t_scope")) & (F.col("wire_id") == F.col("t_wire_id")),
        "left",
    )
    # A connection that never got as far as a client id may be anybody's.
    client = F.coalesce("c_client", "w_client", "t_client")
    nobody = client.isNull() & (F.col("how") == "cut") & F.col("wire_id").isNull() & F.col("did").isin(*STANDS)
    rows = rows.withColumns({"client": client, "nobody": nobody})
    everybody = names.groupBy(F.col("scope").alias("e_scope")).agg(F.collect_set("client").alias("everybody"))
    rows = rows.join(broadcast(everybody), F.col("nobody") & F.col("scope").eqNullSafe(F.col("e_scope")), "left")
    whose = F.when(F.col("nobody"), F.col("everybody")).otherwise(F.array_compact(F.array("client")))
    how = F.when(F.col("nobody"), "anybody").otherwise(F.col("how"))
    rows = rows.withColumns({"client": F.explode(whose), "how": how})
    return rows.select("client", *_SHAPE)


def _unheard_ends(lines: DataFrame) -> DataFrame:
    """`connection` → `silent_us`: connections whose silence lasted to their end, and since when.

    Such a one its client may have given up at any time since then: nobody heard of it before the silence was over.
    """
    silenced = F.exists("touches", lambda t: (t["did"] == "silenced") & t["held_us"].isNull())
    order = Window.partitionBy(*_ONE).orderBy(*_IN_TIME)
    at_us = F.col("request_at_us")
    closed_us = F.max(F.when(F.col("event") == "disconnect", at_us)).over(Window.partitionBy(*_ONE))
    went_on = is_lifted() & _outlived(at_us, closed_us)
    rows = lines.filter(~_of_listener()).withColumn(
        "times_on", F.sum(went_on.cast("int")).over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    rows = rows.withColumn("most_on", F.max("times_on").over(Window.partitionBy(*_ONE)))
    ends = (F.col("event") == "fault") & silenced & (F.col("times_on") == F.col("most_on"))
    return rows.filter(ends).groupBy(*_ONE).agg(F.min(at_us).alias("silent_us"))


def _shut(found: DataFrame) -> DataFrame:
    """scope and node of the brokers whose listener was refused; `shut`: by which rules, and when."""
    refused = found.filter((F.col("did") == "refused") & F.col("node_id").isNotNull() & F.col("stands_us").isNotNull())
    spans = F.collect_list(F.struct("rule", "from_us", F.col("stands_us").alias("until_us"))).alias("shut")
    return refused.groupBy(F.col("scope").alias("k_scope"), F.col("node_id").alias("k_node_id")).agg(spans)


def _partitions(history: DataFrame, unheard: DataFrame | None, shut: DataFrame | None) -> DataFrame:
    """A batch that a rule kept from being acknowledged keeps what comes after it on its partition, until its retry.

    Where its connection fell silent and ended so (`unheard`), it surely does until then only: what kept the retry from
    there on may have been the silence. So it is where its connection was taken and another rule let nobody have a new
    one (`shut`).
    """
    sends = history.filter(F.col("operation") == "send")
    attempts = sends.select(
        "scope", "client", "called_at_us", F.posexplode("attempts").alias("place", "a"), "attempts", "end_us"
    )
    rows = attempts.filter(F.size("a.touches") > 0).withColumns(
        {"t": F.explode("a.touches"), "next_us": F.get("attempts", F.col("place") + 1)["request_at_us"]}
    )
    unanswered = F.col("t.did").isin(*SWALLOWS, *CUTS)
    # What was said behind something that never was answered nobody heard.
    code = F.col("t.error_code").isNotNull() & F.col("a.response_at_us").isNotNull()
    answered = F.coalesce("a.response_at_us", "a.request_at_us")
    until = F.when(unanswered, F.coalesce("next_us", "end_us")).otherwise(
        F.least(F.coalesce("next_us", "end_us"), answered + PAUSE_US)
    )
    rows = rows.filter(unanswered | code).select(
        "scope",
        "client",
        connection("a.").alias("connection"),
        F.col("a.node_id").alias("node_id"),
        F.col("a.topic").alias("topic"),
        F.col("a.partition_index").alias("partition"),
        "t",
        F.col("a.request_at_us").alias("from_us"),
        until.alias("until_us"),
        answered.alias("hit_us"),
        begun_us().alias("order_us"),
    )
    places = [name for name in rows.columns if name != "order_us"]
    hidden = []
    if unheard is not None:
        rows = rows.join(broadcast(unheard), "connection", "left")
        hidden.append(F.when(unanswered & (F.col("silent_us") < F.col("until_us")), F.col("silent_us")))
    if shut is not None:
        rows = rows.join(broadcast(shut), same("k_", "scope", "node_id"), "left")
        meanwhile = F.filter(
            "shut",
            lambda s: (
                (s["from_us"] < F.col("until_us"))
                & (s["until_us"] > F.col("from_us"))
                & ~s["rule"].eqNullSafe(F.col("t.rule"))
            ),
        )
        shut_us = F.array_min(F.transform(meanwhile, lambda s: s["from_us"]))
        hidden.append(F.when(F.col("t.did").isin(*CUTS), shut_us))
    since_us = F.array_min(F.array(*hidden)) if hidden else F.lit(None).cast("long")
    stands_us = F.when(since_us.isNotNull(), F.greatest(since_us, "from_us"))
    # Whoever was called before a batch's first message is not behind it.
    batches = rows.groupBy(*places, stands_us.alias("stands_us")).agg(F.min("order_us").alias("order_us"))
    own = ("topic", "partition", "hit_us", "stands_us", "order_us")
    no_client = F.lit(None).cast("string")
    return _shape(batches, "partition", "client", wire_id=no_client, **{name: F.col(name) for name in own})


def _bursts(obstacles: DataFrame) -> DataFrame:
    """Obstacles of one rule at one place that follow each other closely, as one; `covered_us` is what they cover."""
    apart = ("wire_id", "from_us", "until_us", "stands_us", "hit_us", "read_us", "order_us")
    place = ("client", *[name for name in _SHAPE if name not in (*apart, "asked_else", "else_us")])
    order = Window.partitionBy(*place).orderBy("from_us", "until_us")
    reached = F.max("until_us").over(order.rowsBetween(Window.unboundedPreceding, -1))
    rows = obstacles.withColumn("reached", reached).withColumns(
        {
            "new_us": F.greatest(F.col("until_us") - F.greatest("from_us", F.coalesce("reached", "from_us")), F.lit(0)),
            "apart": F.coalesce(F.col("from_us") - F.col("reached") > _APART_US, F.lit(True)),
        }
    )
    rows = rows.withColumn("burst", F.sum(F.col("apart").cast("int")).over(order))
    return rows.groupBy(*place, "burst").agg(
        F.min("from_us").alias("from_us"),
        F.max("until_us").alias("until_us"),
        F.sum("new_us").alias("covered_us"),
        F.max("hit_us").alias("last_hit_us"),
        F.max("stands_us").alias("stands_us"),
        F.min("read_us").alias("read_us"),
        F.min("order_us").alias("order_us"),
        F.max("asked_else").alias("asked_else"),
        F.max(F.coalesce("else_us", "until_us")).alias("else_us"),
        F.count("*").alias("hits"),
    )
