"""One analysis from folders to findings: the same on a laptop and on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from notleader.spark_analysis import io
from notleader.spark_analysis.checks import Tables
from notleader.spark_analysis.findings import Finding, find, look, verdict
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.outcomes import BadLine, bad_lines, good, read_outcomes, told_once
from notleader.spark_analysis.paths import InputError
from notleader.spark_analysis.plans import from_nowhere, is_short, settled, table_of, threads
from notleader.spark_analysis.profile import (
    CaptureProfile,
    OutcomeProfile,
    another_unit,
    begin_us,
    end_us,
    profile_capture,
    profile_outcomes,
)
from notleader.spark_analysis.schemas import FINDING, OPERATION_CAUSES, SCHEMA_VERSION
from notleader.spark_analysis.transforms import timeline
from notleader.spark_analysis.transforms.attempts import produce_attempts, with_topics
from notleader.spark_analysis.transforms.causes import with_causes, without_causes
from notleader.spark_analysis.transforms.clocks import Clock, clocks, in_proxy_time
from notleader.spark_analysis.transforms.commits import commit_entries
from notleader.spark_analysis.transforms.groups import with_groups, without_share_groups
from notleader.spark_analysis.transforms.history import build_history, run_of
from notleader.spark_analysis.transforms.landed import deliveries, fetched
from notleader.spark_analysis.transforms.lives import history_of_lives, in_one_life, with_lives
from notleader.spark_analysis.transforms.log import Log, LogProfile, as_log, unjudged
from notleader.spark_analysis.transforms.named import is_unnamed_send, with_ids
from notleader.spark_analysis.transforms.obstacles import GREETED, Stood, names_of, what_stood
from notleader.spark_analysis.transforms.presence import gone_of, with_gone
from notleader.spark_analysis.transforms.starved import starved_reads
from notleader.spark_analysis.transforms.unseen import with_unseen, with_unwritten
from notleader.spark_analysis.transforms.whose import unknown_on_the_wire, with_owners

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the report draws, as plain rows (dicts); times in µs, UTC."""

    first_us: int
    last_us: int
    bin_us: int
    operations_bin_us: int
    traffic: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    clients: list[dict[str, Any]]
    spread: list[dict[str, Any]]
    matched: dict[str, int]


class Judged(NamedTuple):
    """What is known when every question has its answer, before anything is drawn or written."""

    verdict: str
    findings: list[Finding]
    capture: CaptureProfile
    outcomes: OutcomeProfile


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of one run; `seconds` is the wall-clock time of the Spark part."""

    verdict: str
    findings: list[Finding]
    capture: CaptureProfile
    outcomes: OutcomeProfile
    log: LogProfile | None
    bad_lines: list[BadLine]
    drawn: Drawn
    out: Path | str
    seconds: float
    told_ms: int = Options().told_ms
    """From here on something is said of how long an operation took."""
    clocks: tuple[Clock, ...] = ()
    """The clients' clocks that were wrong, and by how much; the times in all else are the proxy's."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON document of `--json` and of findings.json."""
        capture, said = self.capture, self.outcomes
        return {
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict,
            "findings": [finding.as_dict() for finding in self.findings],
            "capture": {
                "exchanges": capture.exchanges,
                "faulted": capture.faulted,
                "gaps": capture.gaps,
                "runs": [run for run, _, _ in capture.runs],
                "produce_batches": capture.produce_batches,
                "unmatched_batches": max(capture.produce_batches - self.drawn.matched.get("attempts", 0), 0),
            },
            "outcomes": {
                "lines": said.lines,
                "bad_lines": said.bad_lines,
                "sends": said.sends,
                "ok": said.ok,
                "fail": said.failed,
                "info": said.info,
                "pending": said.pending,
                "polled": said.polled,
                "matched": {kind: rows for kind, rows in self.drawn.matched.items() if kind != "attempts"},
            },
            "log": self.log.as_dict() if self.log is not None else None,
            "clocks": [clock._asdict() for clock in self.clocks],
            "set_aside": [line._asdict() for line in self.bad_lines],
            "out": str(self.out),
            "seconds": round(self.seconds, 1),
        }


def analyze(
    spark: SparkSession,
    captures: Sequence[str],
    outcome_files: Sequence[str],
    out: str,
    options: Options,
    *,
    runs: Sequence[str] = (),
    dates: Sequence[str] = (),
    logs: Sequence[str] = (),
    progress: Progress = lambda _: None,
    judged: Callable[[Judged], None] = lambda _: None,
) -> Analysis:
    """Read, join, check and write `history`, `operations` and `findings` as Parquet below `out`.

    `judged` is told the verdict as soon as there is one; drawing, and in a short run writing, come after that.
    InputError when there is nothing to analyse, SchemaError when the capture isn't one.
    """
    started = time.monotonic()
    from_nowhere(spark)
    progress("reading the capture" + (", the outcomes and the log" if logs else " and the outcomes"))
    later: list[Callable[[], None]] = []
    with threads(spark, 2) as pool:
        # Small jobs; each alone leaves a core idle.
        reading = pool.submit(
            lambda: settled(read_outcomes(spark, outcome_files, runs=runs), f"{out}/operations", later)
        )
        reading_log = pool.submit(io.read_logs, spark, logs) if logs else None
        raw = io.read_captures(spark, captures, runs=runs, dates=dates)
        capture = profile_capture(raw)
        told = reading.result()
        log_rows = reading_log.result() if reading_log is not None else None
    if not capture.rows:
        raise InputError("the capture holds no rows" + (" for that run or date" if runs or dates else ""))
    log = None
    if log_rows is not None:
        log = as_log(log_rows, tuple(run for run, _, _ in capture.runs), by_run=options.by_run)

    def bad(said: OutcomeProfile) -> list[BadLine]:
        found = bad_lines(spark, outcome_files)
        if said.bad_lines == said.lines:
            raise InputError(
                f"none of the {said.lines:,} outcome lines can be read; the first, {found[0].file}:{found[0].line}: "
                f"{found[0].reason}"
            )
        return found

    return judge(
        spark, raw, told, capture, bad, out, options, log,
        started=started, progress=progress, judged=judged, later=later,
    )  # fmt: skip


def judge(
    spark: SparkSession,
    raw: DataFrame,
    told: DataFrame,
    capture: CaptureProfile,
    bad: Callable[[OutcomeProfile], list[BadLine]],
    out: str,
    options: Options,
    log: Log | None = None,
    *,
    started: float,
    progress: Progress = lambda _: None,
    judged: Callable[[Judged], None] = lambda _: None,
    later: list[Callable[[], None]] | None = None,
) -> Analysis:
    """Everything behind the reading: match, check, and write `history` and `findings` below `out`.

    `started` is when the reading began, on the monotonic clock; `bad` tells the lines that were set aside; `judged` is
    told the verdict as soon as there is one, and `later` is done after that.
    """
    later = later if later is not None else []
    with threads(spark, 1) as pool:
        counting = pool.submit(profile_outcomes, told)
        measured = clocks(told, raw, capture, options.skew_ms)
        said = counting.result()
    if (unit := another_unit(said, capture)) is not None:
        raise InputError(f"the outcome lines have their times in {unit}: `…_at_us` is in µs since 1970")
    if any(clock.ahead_us for clock in measured):
        told = in_proxy_time(told, measured)
        said = profile_outcomes(told)
    if said.told_as_ranges and said.told_by_record:
        told = told_once(told)
        said = profile_outcomes(told)
    set_aside = bad(said) if said.bad_lines else []
    progress(f"matching {said.sends:,} sends with {capture.exchanges:,} exchanges")
    exchanges = exchanges_of(raw, capture, options)
    if (unknown := unknown_on_the_wire(said, capture)) is not None:
        exchanges = settled(with_owners(exchanges, scoped_operations(good(told), capture, options), unknown))
        capture = replace(capture, clients=(*sorted(unknown.clients), *capture.clients))
    with threads(spark, 1) as pool:
        # What needs no history is worked out beside it, and what needs no causes beside these.
        standing = pool.submit(_standing, exchanges, capture, said) if capture.faulted else None
        tables = build_tables(exchanges, good(told), capture, said, options, log)
        said = tables.outcomes
        history = settled(tables.history, f"{out}/history", later)
        tables = replace(tables, history=history)
        # Where queries run long, two at once would only share the memory.
        looking = pool.submit(look, tables, options) if is_short(history) else None
        reading = pool.submit(unjudged, history, tables.in_order) if log or said.polled else None
        tables = explained(tables, options, f"{out}/causes", later, standing.result if standing is not None else None)
        progress("checking")
        seen = looking.result() if looking is not None else None
        # Where queries run long the drawing of one fills what the checks of the other leave idle.
        drawing = None if is_short(history) else pool.submit(draw, tables)
        tables = replace(tables, unjudged=reading.result() if reading is not None else None)
        findings = find(tables, options, seen=seen)
        answer = verdict(findings, capture.gaps)
        judged(Judged(answer, findings, capture, said))
        progress("drawing")
        drawing = drawing or pool.submit(draw, tables)
        for write in later:
            write()
        write_findings(spark, findings, out)
        drawn = drawing.result()
    return Analysis(
        answer,
        findings,
        capture,
        said,
        log.profile if log is not None else None,
        set_aside,
        drawn,
        out,
        time.monotonic() - started,
        options.told_ms,
        tuple(clock for clock in measured if clock.ahead_us or clock.set_by_us),
    )


def exchanges_of(raw: DataFrame, capture: CaptureProfile, options: Options) -> DataFrame:
    """The capture's rows with the names of their topics, and `scope`: the run that they are judged in."""
    named = with_topics(raw) if capture.unnamed_topics else raw
    return _by_scope(named, options)


def _by_scope(rows: DataFrame, options: Options) -> DataFrame:
    return rows.withColumn("scope", F.col("run_id") if options.by_run else F.lit(""))


def scoped_operations(operations: DataFrame, capture: CaptureProfile, options: Options) -> DataFrame:
    """`operations` with `scope`: the run that they are judged in."""
    # Many runs make a large expression of the guess, which every plan below repeats.
    guessed = F.col("run_id") if options.runs_are_told else run_of(capture.runs)
    return operations.withColumn("scope", guessed if options.by_run else F.lit(""))


def build_tables(
    exchanges: DataFrame,
    operations: DataFrame,
    capture: CaptureProfile,
    said: OutcomeProfile,
    options: Options,
    log: Log | None = None,
) -> Tables:
    """All tables of one analysis, lazily; `history` is to be written and read back before checks use it.

    `exchanges` are those of `exchanges_of`.
    """
    scoped = scoped_operations(operations, capture, options)
    if capture.grouped and said.polls_without_groups:
        scoped = settled(with_groups(scoped, exchanges))
    attempts = _by_scope(produce_attempts(exchanges), options)
    if said.unnamed_sends and (capture.batches_with_ids or log is not None):
        scoped = settled(with_ids(scoped, attempts, log.rows if log else None, options.skew_ms * 1000))
        said = replace(said, unnamed_sends=scoped.filter(is_unnamed_send()).count())
    delivered = deliveries(scoped, F.col("scope"))
    fetch = fetched(exchanges, F.col("scope")) if capture.fetches_with_ids else None
    names = settled(names_of(scoped))
    commits = commit_entries(scoped, exchanges, names, options.skew_ms * 1000) if said.commits else None
    history = build_history(scoped, attempts, delivered, fetch, capture, said, options, log, commits)
    anew = capture.anew > 0
    if anew or log is not None:
        history = history_of_lives(history, exchanges, log.rows if log is not None else None, anew=anew)
    delivered = with_lives(delivered, exchanges, F.col("at_us")) if anew else in_one_life(delivered)
    ordered = without_share_groups(delivered, exchanges, names) if capture.shared else None
    return Tables(exchanges, scoped, names, delivered, attempts, history, capture, said, log, ordered=ordered)


def explained(
    tables: Tables,
    options: Options,
    out: str | None = None,
    later: list[Callable[[], None]] | None = None,
    stood: Callable[[], Stood] | None = None,
) -> Tables:
    """`tables` whose history says which rules had a hand in it; what that rests on is `settled` at `out`.

    `stood` gives `what_stood` of the same exchanges, where that was begun already.
    """

    @cache
    def gone() -> DataFrame:
        return settled(gone_of(tables.exchanges, tables.names, tables.history))

    if tables.outcomes.pending and tables.capture.exchanges:
        history = settled(with_gone(tables.history, gone()))
    else:
        history = tables.history.withColumn("gone_us", F.lit(None).cast("long"))
    if not tables.capture.faulted:
        if out is not None:
            # Whoever reads it finds it empty, and not that of an earlier analysis.
            none = table_of(history.sparkSession, [], OPERATION_CAUSES.simpleString())
            writing = partial(none.write.mode("overwrite").parquet, out)
            writing() if later is None else later.append(writing)
        return replace(tables, history=without_causes(history))
    stood = stood or partial(_standing, tables.exchanges, tables.capture, tables.outcomes)
    starving = partial(starved_reads, history, tables.in_order, tables.exchanges, tables.names, options)
    told, starved, struck = with_causes(
        history, tables.exchanges, tables.names, options, stood, gone, tables.end_of_run(), out, later,
        failed_reads=tables.outcomes.failed_reads > 0, starved=starving if tables.outcomes.polled else lambda: None,
    )  # fmt: skip
    nameless = not tables.capture.names_messages or tables.outcomes.unnamed_sends > 0
    if nameless:
        told = with_unseen(told, tables.exchanges, tables.names)
    if tables.outcomes.endless_reads:
        told = with_unwritten(told, tables.exchanges)
    if nameless or tables.outcomes.endless_reads:
        # Every check reads it: what it joins is worked out once.
        told = settled(told)
    return replace(tables, history=told, struck=struck, starved=starved)


def _standing(exchanges: DataFrame, capture: CaptureProfile, said: OutcomeProfile) -> Stood:
    did = (*capture.did, GREETED) if capture.greeted else capture.did
    return what_stood(exchanges, did, end_us(capture, said), reads=said.polled > 0)


def draw(tables: Tables) -> Drawn:
    """Everything the report draws; each list has at most some thousand rows."""
    first = begin_us(tables.capture, tables.outcomes)
    last = max(tables.end_us, first + 1)
    width = timeline.bin_width_us(first, last)
    coarse = timeline.bin_width_us(first, last, timeline.MOST_BINS // 4)
    kinds = _rows(timeline.matched(tables.history))
    return Drawn(
        first_us=first,
        last_us=last,
        bin_us=width,
        operations_bin_us=coarse,
        traffic=_rows(timeline.traffic(tables.exchanges, first, width, tables.capture.clients)),
        faults=_rows(timeline.fault_hits(tables.exchanges, first, last, width)) if tables.capture.faulted else [],
        outcomes=_rows(timeline.outcomes_over_time(tables.history, first, coarse)),
        clients=_rows(timeline.clients(tables.history, tables.delivered)),
        spread=_rows(timeline.latency_spread(tables.history)),
        matched={row["match_kind"]: row["rows"] for row in kinds},
    )


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.limit(20_000).collect()]


def write_findings(spark: SparkSession, findings: list[Finding], out: str) -> None:
    """FINDING rows as Parquet below `out`/findings."""
    rows = table_of(spark, [finding.as_dict() for finding in findings], FINDING.simpleString())
    rows.write.mode("overwrite").parquet(f"{out}/findings")
