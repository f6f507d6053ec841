"""A first look over the input, in one pass each: how much there is, from when until when, and what it can answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from notleader.spark_analysis.outcomes import is_failed_read, verifiable_polls
from notleader.spark_analysis.transforms.attempts import any_did, was_answered
from notleader.spark_analysis.transforms.obstacles import TXN_OFFSET_COMMIT

_MOST_CLIENTS = 8
_MOST_NAMES = 1000
_MOST_GAPS = 100


@dataclass(frozen=True, slots=True)
class CaptureProfile:
    """What the captures hold; times in µs since the epoch, UTC."""

    rows: int
    exchanges: int
    faulted: int
    produce_batches: int
    batches_with_ids: int
    batches_all_ids: int
    grouped: int
    """Exchanges that name a consumer group."""
    bare_produces: int
    """Produce requests of which no partition was recorded: captures at level `header`."""
    refused_produces: int
    """Produce requests with an error in the answer, or without the answer that they ask for."""
    batches_with_keys: int
    fetches_with_ids: int
    unnamed_topics: int
    gaps: int
    connects: int
    metadata: int
    failed: int
    not_leader: int
    out_of_range: int
    throttled: int
    greeted: int
    transactions: int
    """Ends of transactions that were asked for."""
    commits_of_producers: int
    """Offsets of groups committed in transactions (TxnOffsetCommit, KIP-98)."""
    shared: int
    """Fetches of members of share groups (KIP-932)."""
    anew: int
    """How many more appends at offset 0 there are than partitions that have one: a topic was made anew, perhaps."""

    first_at_us: int | None
    last_at_us: int | None
    runs: tuple[tuple[str, int, int], ...]
    did: tuple[str, ...] = ()
    """All that rules did, in the words of `schemas.EFFECT`."""
    nameless_runs: tuple[str, ...] = ()
    """The runs in which a Produce was captured whose messages are not all named."""
    clients: tuple[str, ...] = ()
    """The client ids with the most exchanges, about: as many as a report can tell apart."""
    gap_spans: tuple[tuple[int | None, int | None], ...] = ()
    """Since when and until when rows are missing, of at most a hundred gaps."""
    client_ids: frozenset[str] = frozenset()
    """All client ids, of more than a thousand about those with the most exchanges."""

    @property
    def names_messages(self) -> bool:
        """Every record of every captured batch has its message's id."""
        return not self.nameless_runs


@dataclass(frozen=True, slots=True)
class OutcomeProfile:
    """What the clients said, counted."""

    lines: int
    bad_lines: int
    sends: int
    ok: int
    failed: int
    info: int
    pending: int
    unnamed_sends: int
    polled: int
    polls_without_ids: int
    polls_without_groups: int
    told_as_ranges: int
    told_by_record: int
    consumers: int
    commits: int
    failed_reads: int
    endless_reads: int
    """Polls that never returned."""
    unreturned: int
    """Calls that ended, of which nobody said when they were made and when they returned; no polls."""
    first_at_us: int | None
    last_at_us: int | None
    names: tuple[tuple[str, str | None], ...] = ()
    """The clients, at most a thousand of them, each with the client id that it says it has."""


_DAY_US = 24 * 3600 * 1_000_000
_UNITS = {"ms": 1000.0, "s": 1_000_000.0, "ns": 0.001}


def another_unit(said: OutcomeProfile, capture: CaptureProfile) -> str | None:
    """The unit in which the clients' times lie in the days of the capture, where they don't in µs; None else."""
    first, last, begin, end = said.first_at_us, said.last_at_us, capture.first_at_us, capture.last_at_us
    if first is None or last is None or begin is None or end is None:
        return None

    def fits(us: float) -> bool:
        return begin - _DAY_US <= first * us and last * us <= end + _DAY_US

    return None if fits(1) else next((unit for unit, us in _UNITS.items() if fits(us)), None)


def begin_us(capture: CaptureProfile, said: OutcomeProfile) -> int:
    """When the first thing that anybody recorded happened."""
    return min((at for at in (capture.first_at_us, said.first_at_us) if at is not None), default=0)


def end_us(capture: CaptureProfile, said: OutcomeProfile) -> int:
    """When the last thing that anybody recorded happened."""
    return max(capture.last_at_us or 0, said.last_at_us or 0)


def profile_capture(exchanges: DataFrame) -> CaptureProfile:
    """Count the captures' rows by what later transforms need to know of them."""
    exchange = F.col("event") == "exchange"
    produce = exchange & (F.col("api_name") == "Produce")
    batches = F.coalesce(F.col("partitions"), F.array().cast(exchanges.schema["partitions"].dataType))
    unnamed = F.size(F.filter(batches, lambda p: p["topic"].isNull() & p["topic_id"].isNotNull()))
    # A record without the header stands as a null: clients of old know no headers.
    with_ids = F.size(F.filter(batches, lambda p: F.exists(p["message_ids"], lambda i: i.isNotNull())))
    all_ids = F.size(
        F.filter(
            batches, lambda p: (F.size(p["message_ids"]) > 0) & F.forall(p["message_ids"], lambda i: i.isNotNull())
        )
    )
    told = was_answered(F.col("outcome"))
    refused = F.coalesce(F.col("error_code") != 0, F.lit(False))
    refused |= F.exists(batches, lambda p: F.coalesce(p["error_code"] != 0, F.lit(False)))
    in_vain = refused | (~told & (F.coalesce("acks", F.lit(-1)) != 0))
    with_keys = F.size(F.filter(batches, lambda p: F.size(p["key_hashes"]) > 0))
    fetch = exchange & (F.col("api_name") == "Fetch")
    begun = F.transform(
        F.filter(batches, begins), lambda p: F.xxhash64(F.coalesce(p["topic"], p["topic_id"]), p["partition_index"])
    )
    begun = F.when(produce & (F.size(begun) > 0), begun)
    begun_places = F.size(F.array_distinct(F.flatten(F.collect_set(begun))))
    touched = F.size("fault_names") > 0
    did = F.transform("touches", lambda t: t["did"])
    gap_span = F.when(F.col("event") == "gap", F.struct("request_at_us", "response_at_us"))
    by_run = exchanges.groupBy("run_id").agg(
        F.count("*").alias("rows"),
        F.count_if(exchange).alias("exchanges"),
        F.count_if(touched).alias("faulted"),
        _total(F.when(produce, F.size(batches))).alias("produce_batches"),
        _total(F.when(produce, with_ids)).alias("batches_with_ids"),
        _total(F.when(produce, all_ids)).alias("batches_all_ids"),
        F.count_if(exchange & F.col("group_id").isNotNull()).alias("grouped"),
        F.count_if(produce & (F.size(batches) == 0)).alias("bare_produces"),
        F.count_if(produce & in_vain).alias("refused_produces"),
        _total(F.when(produce, with_keys)).alias("batches_with_keys"),
        _total(F.when(fetch, with_ids)).alias("fetches_with_ids"),
        _total(unnamed).alias("unnamed_topics"),
        F.count_if(F.col("event") == "gap").alias("gaps"),
        F.slice(F.collect_list(gap_span), 1, _MOST_GAPS).alias("gap_spans"),
        F.count_if(F.col("event") == "connect").alias("connects"),
        F.count_if(F.col("api_name").isin("Metadata", "FindCoordinator")).alias("metadata"),
        F.count_if(F.col("error_code") != 0).alias("failed"),
        F.count_if(_answered(batches, 6)).alias("not_leader"),
        F.count_if(_answered(batches, 1)).alias("out_of_range"),
        F.count_if(F.col("throttle_time_ms") > 0).alias("throttled"),
        F.count_if((F.col("api_name") == "ApiVersions") & any_did("touches", "altered_answer")).alias("greeted"),
        F.count_if(F.col("api_name") == "EndTxn").alias("transactions"),
        F.count_if(F.col("api_name") == TXN_OFFSET_COMMIT).alias("commits_of_producers"),
        F.count_if(F.col("api_name") == "ShareFetch").alias("shared"),
        (_total(F.size(begun)) - begun_places).alias("anew"),
        F.min("request_at_us").alias("first_at_us"),
        # The end of a gap may be when somebody finished what was left behind, days later.
        F.max(F.greatest("request_at_us", F.when(F.col("event") != "gap", F.col("response_at_us")))).alias(
            "last_at_us"
        ),
        F.array_distinct(F.flatten(F.collect_set(F.when(touched, did)))).alias("did"),
        F.expr(f"approx_top_k(client_id, {_MOST_NAMES}) filter (where client_id is not null)").alias("clients"),
    )
    runs = by_run.collect()
    asked: Counter[str] = Counter()
    for run in runs:
        asked.update({client.item: client["count"] for client in run.clients or ()})
    return CaptureProfile(
        **{name: sum(run[name] for run in runs) for name in _COUNTS},
        first_at_us=min((run.first_at_us for run in runs if run.first_at_us is not None), default=None),
        last_at_us=max((run.last_at_us for run in runs if run.last_at_us is not None), default=None),
        nameless_runs=tuple(
            run.run_id or "" for run in runs if run.bare_produces or run.batches_all_ids != run.produce_batches
        ),
        runs=tuple((run.run_id or "", run.first_at_us or 0, run.last_at_us or 0) for run in runs),
        did=tuple({word for run in runs for word in run.did if word}),
        clients=tuple(client for client, _ in asked.most_common(_MOST_CLIENTS)),
        gap_spans=tuple(tuple(span) for run in runs for span in run.gap_spans),
        client_ids=frozenset(asked),
    )


_COUNTS = (
    "rows",
    "exchanges",
    "faulted",
    "produce_batches",
    "batches_with_ids",
    "batches_all_ids",
    "grouped",
    "bare_produces",
    "refused_produces",
    "batches_with_keys",
    "fetches_with_ids",
    "unnamed_topics",
    "gaps",
    "connects",
    "metadata",
    "failed",
    "not_leader",
    "out_of_range",
    "throttled",
    "greeted",
    "transactions",
    "commits_of_producers",
    "shared",
    "anew",
)


def begins(batch: Column) -> Column:
    """The broker appended this PARTITION struct of a Produce at offset 0: its log was empty."""
    return (F.coalesce(batch["error_code"], F.lit(0)) == 0) & (batch["base_offset"] == 0)


def _answered(batches: Column, code: int) -> Column:
    """The exchange as a whole or one of its partitions has this error code."""
    of_partition = F.exists(batches, lambda p: F.coalesce(p["error_code"], F.lit(0)) == code)
    return F.coalesce(F.col("error_code") == code, F.lit(False)) | of_partition


def _total(column: Column) -> Column:
    return F.coalesce(F.sum(column), F.lit(0))


def profile_outcomes(operations: DataFrame) -> OutcomeProfile:
    """Count what was said, bad lines included; `operations` is what `read_outcomes` gives."""
    is_good = F.col("bad_reason").isNull()
    send = is_good & (F.col("operation") == "send")
    record = is_good & (F.col("operation") == "poll") & F.col("offset").isNotNull()
    call, ended = ~F.col("operation").isin("poll", "seek"), F.col("outcome") != "pending"
    times = [F.col(name) for name in ("called_at_us", "returned_at_us", "completed_at_us")]
    row: Row = operations.agg(
        F.count("*").alias("lines"),
        F.count_if(~is_good).alias("bad_lines"),
        F.count_if(send).alias("sends"),
        *[F.count_if(send & (F.col("outcome") == w)).alias(w) for w in ("ok", "fail", "info", "pending")],
        F.count_if(send & F.col("message_id").isNull()).alias("unnamed_sends"),
        _total(F.when(record, F.coalesce("record_count", F.lit(1)))).alias("polled"),
        F.count_if(record & F.col("message_id").isNull()).alias("polls_without_ids"),
        F.count_if(record & F.col("group_id").isNull()).alias("polls_without_groups"),
        F.count_if(is_good & verifiable_polls() & F.col("message_id").isNull()).alias("told_as_ranges"),
        F.count_if(is_good & verifiable_polls() & F.col("message_id").isNotNull()).alias("told_by_record"),
        F.count_distinct(F.when(record, F.col("client"))).alias("consumers"),
        F.count_if(is_good & (F.col("operation") == "commit")).alias("commits"),
        F.count_if(is_good & is_failed_read()).alias("failed_reads"),
        F.count_if(is_good & (F.col("operation") == "poll") & ~ended).alias("endless_reads"),
        F.count_if(is_good & call & ended & (F.col("returned_at_us") - F.col("called_at_us")).isNull()).alias(
            "unreturned"
        ),
        F.min(F.least(*times)).alias("first_at_us"),
        F.max(F.greatest(*times)).alias("last_at_us"),
        F.slice(F.array_sort(F.collect_set(F.when(is_good, F.struct("client", "client_id")))), 1, _MOST_NAMES).alias(
            "names"
        ),
    ).first()
    *counts, names = row
    return replace(OutcomeProfile(*counts), names=tuple((name.client, name.client_id) for name in names))
