"""Cases become findings: alike ones summed up by Spark, each told in one sentence with a few pieces of evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from notleader.spark_analysis.checks import Check, Group, HistoryCheck, Tables, all_checks
from notleader.spark_analysis.checks.base import REGISTRY, blamed
from notleader.spark_analysis.checks.phrases import count
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import is_short, threads
from notleader.spark_analysis.schemas import CASE, EVIDENCE, conform
from notleader.spark_analysis.transforms.unseen import UNRECORDED

EVIDENCE_PER_FINDING = 5

_KEYS = ("check", "verdict", "client", "topic", "partition", "operation", "rule", "kind", "trouble")
_MISSING = {
    "operations": "no operation was told of in the outcomes",
    "sends": "no send was told of in the outcomes",
    "consumer": "no consumer said what it read",
    "reader": "no consumer said what it read, and no log was given",
    "commits": "no commit was told of in the outcomes",
    "capture": "there are no captured exchanges",
    "faults": "no captured exchange was touched by a fault",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of one check. `count` is 0 for an all-clear or when there was nothing to judge."""

    check: str
    title: str
    verdict: str
    sentence: str
    group: Group | None
    evidence: tuple[dict[str, Any], ...]

    @property
    def jepsen(self) -> str:
        """What Jepsen calls it, or nothing."""
        check = REGISTRY.get(self.check)
        return check.jepsen if check else ""

    @property
    def count(self) -> int:
        return self.group.cases if self.group else 0

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready values, keyed as FINDING's columns."""
        group = self.group
        return {
            "check": self.check,
            "jepsen": self.jepsen or None,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "count": self.count,
            **{name: getattr(group, name, None) for name in _KEYS[2:]},
            "first_at_us": group.first_at_us if group else None,
            "last_at_us": group.last_at_us if group else None,
            "slowest_us": group.slowest_us if group else None,
            "evidence": list(self.evidence),
        }


class Seen(NamedTuple):
    """What can be said of tables whose causes are not known yet."""

    signs: Mapping[str, bool] | None
    """None where they were not looked for."""
    judged: frozenset[str]
    """The checks that were asked, of those that ask for no causes."""
    rows: list[Row]
    """What these noticed, summed up."""


def look(tables: Tables, options: Options) -> Seen:
    """Look for all signs, and ask the checks that ask for no causes; one query at a time, others having the machine."""
    able = _able(tables, options, all_checks())
    signs = signs_of(tables, options, able)
    early = [check for check in able if not check.of_causes]
    rows = _noticed(tables, options, suspected(tables, options, early, signs), at_once=1)
    return Seen(signs, frozenset(check.name for check in early), rows)


def find(
    tables: Tables, options: Options, checks: list[Check] | None = None, seen: Seen | None = None
) -> list[Finding]:
    """Ask every check; its findings in the order in which a report tells them, at least one per check.

    `seen` is what `look` saw in the same tables before their causes were known, where that was done already.
    """
    seen = seen or Seen(None, frozenset(), [])
    asked = checks if checks is not None else all_checks()
    missing = {check.name: _missing(check, tables) for check in asked}
    able = [check for check in _able(tables, options, asked) if check.name not in seen.judged]
    rows = [*seen.rows, *_noticed(tables, options, suspected(tables, options, able, seen.signs))]
    by_check: dict[str, list[Row]] = {}
    for row in rows:
        by_check.setdefault(row.check, []).append(row)
    gaps = f"the capture has {count(tables.capture.gaps, 'gap')}, where rows are missing"

    def blind(check: Check) -> bool:
        return tables.capture.gaps > 0 and check.sees_wire

    findings: list[Finding] = []
    for check in asked:
        why = missing[check.name]
        if why is not None:
            findings.append(Finding(check.name, check.title, "unknown", told(f"not judged: {why}"), None, ()))
        elif check.name in by_check:
            found = [
                _finding(check, row, tables.capture.gap_spans)
                for row in _fewer(by_check[check.name], options.groups_per_check)
            ]
            findings += found
            if blind(check) and all(finding.verdict == "valid" for finding in found):
                findings.append(
                    Finding(check.name, check.title, "unknown", told(f"{gaps}; more may be missing"), None, ())
                )
            elif check.partly and (more := check.unsettled(tables)) is not None:
                why = told(f"not judged beyond that: {more}")
                findings.append(Finding(check.name, check.title, "unknown", why, None, ()))
        elif blind(check):
            clear = check.all_clear(tables)
            findings.append(Finding(check.name, check.title, "unknown", told(f"{gaps}; in the rest {clear}"), None, ()))
        elif (unsettled := check.unsettled(tables)) is not None:
            why = f"not judged: {unsettled}; by what is known {check.all_clear(tables)}"
            findings.append(Finding(check.name, check.title, "unknown", told(why), None, ()))
        else:
            findings.append(Finding(check.name, check.title, "valid", told(check.all_clear(tables)), None, ()))
    return findings


def _noticed(tables: Tables, options: Options, checks: list[Check], at_once: int = 2) -> list[Row]:
    """What `checks` noticed, summed up."""
    if not checks:
        return []
    of_rows = [check for check in checks if isinstance(check, HistoryCheck)]
    units = [*([of_rows] if of_rows else []), *[[check] for check in checks if not isinstance(check, HistoryCheck)]]
    # Planning is most of a short run: a query for each, some at a time, leaves no core idle.
    parts = [[unit] for unit in units] if is_short(tables.history) else [units]

    def noticed(part: list[list[Check]]) -> list[Row]:
        rows: list[Row] = grouped(cases(tables, options, [check for unit in part for check in unit])).collect()
        return rows

    with threads(tables.history.sparkSession, at_once) as pool:
        return [row for rows in pool.map(noticed, parts) for row in rows]


def _able(tables: Tables, options: Options, checks: list[Check]) -> list[Check]:
    """Those of `checks` that can be asked, and may have cases by the first counts."""
    return [check for check in checks if _missing(check, tables) is None and check.possible(tables, options)]


def suspected(
    tables: Tables, options: Options, checks: list[Check], signs: Mapping[str, bool] | None = None
) -> list[Check]:
    """Those of `checks` that may have cases: of which there is a sign (`signs`, or else looked for), or a suspect."""
    told = {check.name: check.suspects(tables, options) for check in checks}
    wanted = {name: suspects for name, suspects in told.items() if suspects is not None}
    found = dict(signs if signs is not None else signs_of(tables, options, checks))
    if wanted:
        row = tables.history.agg(*[F.bool_or(suspects).alias(name) for name, suspects in wanted.items()]).collect()[0]
        found |= {name: bool(row[name]) for name in wanted}
    return [check for check in checks if found.get(check.name, True)]


def signs_of(tables: Tables, options: Options, checks: list[Check] | None = None) -> dict[str, bool]:
    """Of each check that has signs whether there is one; asks for no causes."""
    able = checks if checks is not None else _able(tables, options, all_checks())
    told = {check.name: check.signs(tables, options) for check in able}
    frames = {name: sign.select(F.lit(name).alias("check")).limit(1) for name, sign in told.items() if sign is not None}
    noticed = {row.check for row in reduce(DataFrame.unionByName, frames.values()).collect()} if frames else set()
    return {name: name in noticed for name in frames}


def cases(tables: Tables, options: Options, checks: list[Check]) -> DataFrame:
    """Every CASE of `checks`; those that ask one history row at a time share one pass over it."""
    frames = [check.cases(tables, options) for check in checks if not isinstance(check, HistoryCheck)]
    by_row: list[Column] = [
        check.case_of_row(options, tables.end_of_run()) for check in checks if isinstance(check, HistoryCheck)
    ]
    if by_row:
        noticed = F.filter(F.array(*by_row), lambda c: c.isNotNull())
        frames.append(tables.history.select(F.explode(noticed).alias("c")).select("c.*"))
    return blamed(conform(reduce(DataFrame.unionByName, frames), CASE, "checks"))


def grouped(found: DataFrame) -> DataFrame:
    """One row per kind of case, with its slowest few as evidence; memory is bounded by that few."""
    evidence = F.struct(*[F.col(field.name) for field in EVIDENCE.fields])
    return found.groupBy(*_KEYS).agg(
        F.count("*").alias("cases"),
        F.approx_count_distinct("message_id").alias("messages"),
        F.min("at_us").alias("first_at_us"),
        F.max("at_us").alias("last_at_us"),
        F.max("duration_us").alias("slowest_us"),
        F.percentile_approx("duration_us", 0.5).alias("median_us"),
        F.count_if("open").alias("open"),
        F.max_by(evidence, F.coalesce("duration_us", F.lit(0)), EVIDENCE_PER_FINDING).alias("evidence"),
    )


def verdict(findings: list[Finding], gaps: int = 0) -> str:
    """`invalid` when any finding is; else `valid` when a check was judged and the capture is whole; else `unknown`."""
    verdicts = {finding.verdict for finding in findings}
    return "invalid" if "invalid" in verdicts else "valid" if "valid" in verdicts and not gaps else "unknown"


def _missing(check: Check, tables: Tables) -> str | None:
    there = {
        "operations": tables.outcomes.lines > tables.outcomes.bad_lines,
        "sends": tables.outcomes.sends > 0,
        "consumer": tables.outcomes.polled > 0,
        "reader": tables.outcomes.polled > 0 or tables.log is not None,
        "commits": tables.outcomes.commits > 0,
        "capture": tables.capture.exchanges > 0,
        "faults": tables.capture.faulted > 0,
    }
    return next((_MISSING[need] for need in check.needs if not there[need]), None)


def _finding(check: Check, row: Row, gaps: Sequence[tuple[int | None, int | None]]) -> Finding:
    group = Group(*(row[name] for name in Group._fields))
    if check.of_causes and not group.rule and group.trouble in (None, "unsent") and _is_near(group, gaps):
        group = group._replace(trouble=UNRECORDED)
    evidence = tuple(entry.asDict(recursive=True) for entry in row.evidence or ())
    return Finding(check.name, check.title, group.verdict, told(check.sentence(group), group), group, evidence)


def _is_near(group: Group, gaps: Sequence[tuple[int | None, int | None]]) -> bool:
    """Whether some of its cases may have happened, as long as they lasted, in one of these spans (µs; None: open)."""
    if group.first_at_us is None or group.last_at_us is None:
        return False
    lasted_us = group.slowest_us or 0
    return any(
        (since is None or group.last_at_us + lasted_us >= since)
        and (until is None or group.first_at_us - lasted_us <= until)
        for since, until in gaps
    )


def told(sentence: str, group: Group | None = None) -> str:
    """A sentence as it is printed; a client's or a topic's name at its beginning stays as it is."""
    names = (group.client, group.topic) if group else ()
    if any(name and sentence.startswith(name) for name in names):
        return sentence + "."
    return sentence[:1].upper() + sentence[1:] + "."


def _fewer(rows: list[Row], most: int) -> list[Row]:
    """The rows with the most cases first; beyond `most` the rest is summed up by verdict and rule."""
    worst = {"invalid": 0, "unknown": 1, "valid": 2}

    def place(row: Row) -> tuple[Any, ...]:
        # To the last difference: the order in which Spark has them is another one each time.
        names = (row.client or "", row.operation or "", row.rule or "", row.kind or "", row.trouble or "")
        return (worst[row.verdict], -row.cases, row.topic or "", row.partition or 0, *names)

    ordered = sorted(rows, key=place)
    kept, rest = ordered[:most], ordered[most:]
    merged: dict[tuple[Any, ...], Row] = {}
    for row in rest:
        key = (row.verdict, row.operation, row.rule, row.kind, row.trouble)
        merged[key] = _merge(merged[key], row) if key in merged else row
    return kept + list(merged.values())


def _merge(left: Row, right: Row) -> Row:
    values = left.asDict()
    for name in ("client", "topic", "partition"):
        values[name] = left[name] if left[name] == right[name] else None
    for name in ("cases", "messages", "open"):
        values[name] = left[name] + right[name]
    for name, pick in (("first_at_us", min), ("last_at_us", max), ("slowest_us", max), ("median_us", max)):
        known = [value for value in (left[name], right[name]) if value is not None]
        values[name] = pick(known) if known else None
    return Row(**values)
