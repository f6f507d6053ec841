"""What a check is: one question, asked of the tables, answered by cases; a new file in this folder is a new check."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.profile import CaptureProfile, OutcomeProfile, end_us
from notleader.spark_analysis.schemas import CASE, as_field
from notleader.spark_analysis.transforms.causes import Struck
from notleader.spark_analysis.transforms.log import Log, Unjudged
from notleader.spark_analysis.transforms.unseen import LITTLE

REGISTRY: dict[str, Check] = {}
AND_MORE = "+"
"""Behind the `trouble` of a case: the rules named with it did other things, too."""


class Meaning(NamedTuple):
    """When a check's answer is what, what it takes to say so, and what it calls the cause; each a clause, no sentence.

    docs/verdicts.md is written from these, and reports quote them.
    """

    invalid: str
    valid: str
    unknown: str
    evidence: str
    cause: str


class Group(NamedTuple):
    """Cases that differ only in time and message, summed up; times in µs."""

    check: str
    verdict: str
    client: str | None
    topic: str | None
    partition: int | None
    operation: str | None
    """What they are, where that is no send."""
    rule: str | None
    kind: str | None
    trouble: str | None
    cases: int
    messages: int
    first_at_us: int | None
    last_at_us: int | None
    slowest_us: int | None
    median_us: int | None
    open: int = 0
    """How many of the cases leave open whether an operation was carried out."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything a check may look at; the frames are lazy."""

    exchanges: DataFrame
    operations: DataFrame
    names: DataFrame
    """`names_of` the operations."""
    delivered: DataFrame
    attempts: DataFrame
    history: DataFrame
    capture: CaptureProfile
    outcomes: OutcomeProfile
    log: Log | None = None
    unjudged: Unjudged | None = None
    """Of how many sends neither the log says anything nor a consumer; None without either."""
    struck: tuple[Struck, ...] = ()
    starved: DataFrame | None = None
    """Reads that waited, with their causes (`transforms.starved`); None where there is nothing to look for."""
    ordered: DataFrame | None = None
    """`delivered` without what members of share groups got, where there are any."""

    @property
    def in_order(self) -> DataFrame:
        """What consumers got that get the records of a partition in its order."""
        return self.delivered if self.ordered is None else self.ordered

    def of_share_groups(self) -> str | None:
        """Why what share groups got is not judged; None where there is none."""
        if not self.capture.shared:
            return None
        return "a share group (KIP-932) is given records in no order, and what it was given is not judged"

    @property
    def end_us(self) -> int:
        """When the last thing that anybody recorded happened."""
        return end_us(self.capture, self.outcomes)

    def end_of_run(self) -> Column:
        """When the run ended that a history row belongs to: by its own word, by its scope, or by when it was called."""
        runs = self.capture.runs
        if len(runs) < 2:
            return F.lit(self.end_us)
        ends = F.create_map(*[F.lit(value) for run, _, last in runs for value in (run, last)])
        told = ends[F.coalesce("run_id", "scope", F.lit(""))]
        in_time = F.filter(F.array(*[F.lit(last) for _, _, last in runs]), lambda last: last >= F.col("called_at_us"))
        return F.coalesce(told, F.array_min(in_time), F.lit(self.end_us))


class Check:
    """One question about what happened to the clients.

    `needs` names what must be there for an answer: `sends`, `consumer`, `commits`, `capture`, `faults`, `reader` (a
    consumer or the log); without it the answer is `unknown`. With it and without cases the answer is `valid`;
    `unknown` where the capture has gaps and the check looks at the wire, or for what `unsettled` says.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    means: ClassVar[Meaning]
    brief: ClassVar[str]
    """What a rule did, in a few words: `{n} retried`; also {slowest}, {clients} and {rate} (a second)."""

    brief_unknown: ClassVar[str] = ""
    """The same of what could not be judged, if `perhaps` before it is not enough."""

    counts: ClassVar[tuple[str, str]] = ("send", "sends")
    """What {n} counts, one and several."""

    needs: ClassVar[tuple[str, ...]] = ()
    order: ClassVar[int] = 50
    jepsen: ClassVar[str] = ""
    """What Jepsen's Kafka workload calls it, where it has a name for it."""
    wire: ClassVar[bool] = False
    """The answer also rests on captured exchanges although it can be given without (`needs` doesn't name them)."""

    reading: ClassVar[bool] = False
    """A case may show without anybody's reading the log, but that there is none only a reader can say."""

    partly: ClassVar[bool] = False
    """`unsettled` says why there may be more cases than were noticed, too."""

    of_causes: ClassVar[bool] = True
    """A case names its causes, by a history that has them; what asks for none can be judged before they are known."""

    @property
    def sees_wire(self) -> bool:
        """True when rows missing from the capture could hide a case from this check."""
        return self.wire or "capture" in self.needs or "faults" in self.needs

    def __init_subclass__(cls) -> None:
        name = cls.__dict__.get("name")
        if name is None:
            return
        if not inspect.getdoc(cls) or cls.__doc__ is None:
            raise TypeError(f"check {name} has no docstring: say the question it answers")
        if "means" not in cls.__dict__:
            raise TypeError(f"check {name} does not say what its answers mean")
        if name in REGISTRY:
            raise TypeError(f"two checks are named {name}")
        REGISTRY[name] = cls()

    def possible(self, tables: Tables, options: Options) -> bool:
        """False when the first counts already show that there are no cases; saves a pass over the data."""
        return True

    def suspects(self, tables: Tables, options: Options) -> Column | None:
        """What at least one history row is, if there is any case; None when no single row tells.

        All checks' suspects are looked for in one pass over the history; a check without any is not asked further.
        """
        return None

    def signs(self, tables: Tables, options: Options) -> DataFrame | None:
        """Rows of which there is at least one, if there is any case, for less than the cases cost; None when not so.

        They have the cases' `scope`, and are looked for with the suspects; a check without any is not asked further.
        """
        return None

    def unsettled(self, tables: Tables) -> str | None:
        """Why there may be cases although none was noticed, in words that follow `not judged:`; None when not."""
        if not self.reading:
            return None
        if tables.unjudged is None:
            return "no consumer said what it read, and no log was given"
        if not (sends := tables.unjudged.sends):
            return None
        if not tables.outcomes.polled:
            return f"of {sends:,} sends the log says nothing"
        return f"of {sends:,} sends no consumer read the partition, or not so far"

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        """CASE rows: everything this check noticed."""
        raise NotImplementedError

    def sentence(self, group: Group) -> str:
        """What happened, in one sentence an engineer acts on."""
        raise NotImplementedError

    def all_clear(self, tables: Tables) -> str:
        """The sentence when there was enough to look at and nothing was noticed."""
        raise NotImplementedError


class HistoryCheck(Check):
    """A check that needs one history row at a time: all of these are asked in one pass."""

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        """A CASE struct, or null when this row is none; built with `case`."""
        raise NotImplementedError


def case(check: str, verdict: Column | str, by: str = "touched_by", **given: Column) -> Column:
    """A CASE struct from a history row; what is not given comes from the row, rule and trouble from its causes `by`."""
    return F.struct(*_of_case(check, verdict, by, **given))


def unless_little() -> dict[str, Column]:
    """Of `case`: what is said where no rule accounts for it, and yet a rule had answered it with an error."""
    told = F.exists("touched_by", lambda c: (c["how"] == "own") & F.coalesce(c["error_code"] != 0, F.lit(False)))
    return {"trouble": F.when(told, LITTLE).otherwise(F.col("trouble")), "own_trouble": F.lit(False)}


def _of_case(check: str, verdict: Column | str, by: str, **given: Column) -> list[Column]:
    columns: dict[str, Column] = {
        "check": F.lit(check),
        "verdict": F.lit(verdict) if isinstance(verdict, str) else verdict,
        "at_us": F.coalesce("called_at_us", "completed_at_us"),
        "duration_us": F.col("latency_us"),
        "note": F.lit(None),
        "operation": F.lit(None),
        "open": F.lit(False),
        "exchanges": F.slice("attempts", 1, 10),
        **({"by": F.lit(None)} if "rule" in given else {"by": F.col(by), "rule": F.lit(None), "kind": F.lit(None)}),
        "own_trouble": F.lit("trouble" in given),
        **given,
    }
    return [as_field(f, columns.get(f.name)) for f in CASE.fields]


def as_cases(rows: DataFrame, check: str, verdict: Column | str, by: str = "touched_by", **given: Column) -> DataFrame:
    """CASE rows from `rows`, which has the columns that `case` takes from a history row, or gives them."""
    return rows.select(*_of_case(check, verdict, by, **given))


def joined(names: str | Column) -> Column:
    """A list column as one word, null when empty."""
    return F.when(F.size(names) > 0, F.array_join(names, ", "))


def blamed(cases: DataFrame) -> DataFrame:
    """`cases` of all checks with rule, kind and trouble from the causes `by`, where the check gave no rule itself.

    Said once for all of them: it is the largest expression of a case, and most rows are none.
    """
    pairs = F.array_distinct(F.transform("by", lambda c: F.struct(c["rule"], c["kind"])))
    what = F.concat_ws(":", "_most.how", "_most.did", F.col("_most.error_code").cast("string"))
    doings = F.array_distinct(F.transform("by", lambda c: F.struct(c["how"], c["did"], c["error_code"])))
    several = (F.size(_distinct("rule")) > 1) & (F.size(doings) > 1)
    what = F.concat(what, F.when(several, F.lit(AND_MORE)).otherwise(F.lit("")))
    own = F.when(F.col("_most.sure"), what).otherwise(F.concat(F.lit("likely:"), what))
    by_cause = {
        "rule": F.coalesce("rule", joined(_distinct("rule"))),
        # Kinds stand in the order of their rules.
        "kind": F.coalesce("kind", joined(_distinct("kind"))),
        # What the cause that weighed most did, as `how:did:error_code`, with `likely:` before it when not sure, and
        # AND_MORE behind it where several rules did several things.
        "trouble": F.coalesce(F.when(~F.col("own_trouble") & (F.size("by") > 0), own), F.col("trouble")),
    }
    told = [name for name in CASE.fieldNames() if name not in ("by", "own_trouble")]
    return cases.withColumns({"_pairs": F.array_sort(pairs), "_most": _heaviest()}).select(
        *[by_cause.get(name, F.col(name)).alias(name) for name in told]
    )


def _distinct(field: str) -> Column:
    return F.array_distinct(F.transform("_pairs", lambda pair: pair[field]))


def _heaviest() -> Column:
    """Of the causes `by` the one that weighed most; null where there is none."""
    return F.get(
        F.array_sort(
            "by",
            lambda one, other: (
                F.when(one["weight_us"] > other["weight_us"], -1)
                .when(one["weight_us"] < other["weight_us"], 1)
                .otherwise(F.when(one["how"] == "own", -1).otherwise(0))
            ),
        ),
        F.lit(0),
    )


def is_send() -> Column:
    return F.col("operation") == "send"


def no_send() -> Column:
    """The name of a history row's operation, null of a send."""
    return F.when(~is_send(), F.col("operation"))
