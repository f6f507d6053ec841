"""`python -m notleader.spark_analysis.each FILE [--early]`: many analyses in one Spark session, whose start costs most.

Each line of FILE is one job, a JSON object of `capture`, `outcomes` and `logs` (lists of paths), `out`, and whether a
`report` is wanted. As soon as a job is judged, `{"out": …, "judged": FINDINGS}` is told on stdout, and when all of it
is done its document, as of `analyze --json`, or `{"out": …, "failed": …}`.
Runs have clusters of their own, and every outcome line names its run. A Spark that an earlier analysis left does them;
where there is none, one is started, and stays or ends with the last job, as NOTLEADER_SPARK_WARM says. With
`--early` it is started at once, at a lower priority, and FILE may appear later (renamed, so that it is whole).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from notleader.spark_analysis import resident
from notleader.spark_analysis.cli import by_resident, given_for, warmth
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import InputError, check_paths, size_bytes

_TICK_S = 0.05
_EARLY_NICE = 5
_Judged = Callable[[list[dict[str, Any]]], None]
"""Told a job's findings as soon as they are there."""
_OPTIONS = Options(by_run=True, runs_are_told=True, groups_per_check=2000)


def main(jobs: Iterable[str], told: IO[str], *, early: bool = False) -> int:
    """Do every job of `jobs`; one that can't be done is told and stops no other.

    `early`: start a Spark before the first is asked for, unless one stays that may do them.
    """
    spark: Any = None

    def tell(document: dict[str, Any]) -> None:
        told.write(json.dumps(document) + "\n")
        told.flush()

    with ExitStack() as at_end:
        lines: Iterator[str] = filter(str.strip, jobs)
        if early and not resident.is_there():
            first = _first_while_one_starts(lines)
            lines = chain(first or (), lines)
            spark = _own_spark(at_end) if first is None else None
        for line in lines:
            job = json.loads(line)
            judged = partial(_tell_findings, job, tell)
            try:
                size = _checked(job)
                document = _by_resident(job, size, judged) if spark is None else None
                if document is None:
                    spark = spark or _own_spark(at_end)
                    document = _analysed(spark, job, size, judged)
            except InputError as error:
                document = {"out": job["out"], "failed": str(error)}
            tell(document)
    return 0


def _tell_findings(job: dict[str, Any], tell: Callable[[dict[str, Any]], None], findings: list[dict[str, Any]]) -> None:
    tell({"out": job["out"], "judged": findings})


def _checked(job: dict[str, Any]) -> int:
    """The size of what a job reads, in bytes; its folder is there then. Raises InputError."""
    logs = job.setdefault("logs", [])
    check_paths(job["capture"], job["outcomes"], logs)
    Path(job["out"]).mkdir(parents=True, exist_ok=True)
    return size_bytes([*job["capture"], *job["outcomes"], *logs])


def _first_while_one_starts(lines: Iterator[str]) -> list[str] | None:
    """Start a Spark that stays, and wait for the first job, or the end of them; None where no Spark may stay.

    SIGTERM before that job ends the Spark that was started here: nobody has use for it.
    """
    if warmth() != "keep":
        return None

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    began = False
    try:
        began = resident.start()
        return list(islice(lines, 1))
    except resident.UnavailableError:
        return None
    except SystemExit:
        if began:
            resident.dismiss()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _own_spark(at_end: ExitStack) -> Any:
    from notleader.spark_analysis.session import build_session

    spark = build_session()
    at_end.callback(spark.stop)
    return spark


def _by_resident(job: dict[str, Any], size: int, judged: _Judged) -> dict[str, Any] | None:
    """The document by a Spark that stays; None where there is none."""
    given = given_for(job["capture"], job["outcomes"], job["logs"], str(Path(job["out"]).absolute()))
    given.more_options = {name: getattr(_OPTIONS, name) for name in ("by_run", "runs_are_told", "groups_per_check")}
    given.findings_first = True
    answered = by_resident(given, size, lambda _: None, lambda findings: judged(json.loads(findings)))
    if answered is None:
        return None
    text, said, code = answered
    if code not in (0, 1):
        raise InputError(said.strip().removeprefix("notleader analyze: "))
    document: dict[str, Any] = json.loads(text)
    return {**document, "out": job["out"]}


def _analysed(spark: Any, job: dict[str, Any], size: int, judged: _Judged) -> dict[str, Any]:
    from notleader.spark_analysis.jobs.analyze import analyze
    from notleader.spark_analysis.plans import let_go
    from notleader.spark_analysis.report.files import write_report
    from notleader.spark_analysis.session import suit

    try:
        suit(spark, size)
        analysis = analyze(
            spark, job["capture"], job["outcomes"], job["out"], _OPTIONS, logs=job["logs"],
            judged=lambda now: judged([finding.as_dict() for finding in now.findings]),
        )  # fmt: skip
        if job.get("report"):
            write_report(spark, analysis, job["out"])
        return analysis.as_dict()
    finally:
        let_go(spark)


def _lines(file: Path) -> Iterator[str]:
    """The lines of a file that may not be there yet."""
    while not file.exists():
        time.sleep(_TICK_S)
    yield from file.read_text("utf-8").splitlines()


if __name__ == "__main__":
    early = "--early" in sys.argv[2:]
    if early:
        os.nice(_EARLY_NICE)  # others are at work until the jobs come
    sys.exit(main(_lines(Path(sys.argv[1])), sys.stdout, early=early))
