"""`python -m notleader.spark_analysis.each FILE`: many analyses in one Spark session, as its start costs most.

Each line of FILE is one job, a JSON object of `capture`, `outcomes` and `logs` (lists of paths), `out`, and whether a
`report` is wanted; each line on stdout is that job's document, as of `analyze --json`, or `{"out": …, "failed": …}`.
Runs have clusters of their own, and every outcome line names its run. A Spark that an earlier `notleader analyze` left
does them; where there is none, one is started here, and ends with the last job.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from notleader.spark_analysis.cli import by_resident, given_for
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import InputError, check_paths, size_bytes

_OPTIONS = Options(by_run=True, runs_are_told=True, groups_per_check=2000)


def main(jobs: list[str], told: IO[str]) -> int:
    """Do every job of `jobs`; one that can't be done is told and stops no other."""
    with ExitStack() as at_end:
        spark: Any = None
        for line in filter(str.strip, jobs):
            job = json.loads(line)
            document = _by_resident(job) if spark is None else None
            if document is None:
                if spark is None:
                    from notleader.spark_analysis.session import build_session

                    spark = build_session()
                    at_end.callback(spark.stop)
                document = _analysed(spark, job)
            told.write(json.dumps(document) + "\n")
            told.flush()
    return 0


def _by_resident(job: dict[str, Any]) -> dict[str, Any] | None:
    """The document by a Spark that stays; None where there is none, or no such input: then it is told here."""
    logs = job.get("logs", [])
    given = given_for(job["capture"], job["outcomes"], logs, str(Path(job["out"]).absolute()))
    given.more_options = {name: getattr(_OPTIONS, name) for name in ("by_run", "runs_are_told", "groups_per_check")}
    try:
        check_paths(given.capture, given.outcomes, given.log)
    except InputError as error:
        return {"out": job["out"], "failed": str(error)}
    Path(given.out).mkdir(parents=True, exist_ok=True)
    size = size_bytes([*given.capture, *given.outcomes, *given.log])
    answered = by_resident(given, size, lambda _: None, leave=False)
    if answered is None:
        return None
    text, said, code = answered
    if code not in (0, 1):
        return {"out": job["out"], "failed": said.strip().removeprefix("notleader analyze: ")}
    document: dict[str, Any] = json.loads(text)
    return {**document, "out": job["out"]}


def _analysed(spark: Any, job: dict[str, Any]) -> dict[str, Any]:
    from notleader.spark_analysis.jobs.analyze import analyze
    from notleader.spark_analysis.plans import let_go
    from notleader.spark_analysis.report.files import write_report
    from notleader.spark_analysis.session import suit

    Path(job["out"]).mkdir(parents=True, exist_ok=True)
    try:
        logs = job.get("logs", [])
        check_paths(job["capture"], job["outcomes"], logs)
        suit(spark, size_bytes([*job["capture"], *job["outcomes"], *logs]))
        analysis = analyze(spark, job["capture"], job["outcomes"], job["out"], _OPTIONS, logs=logs)
        if job.get("report"):
            write_report(spark, analysis, job["out"])
        return analysis.as_dict()
    except InputError as error:
        return {"out": job["out"], "failed": str(error)}
    finally:
        let_go(spark)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).read_text().splitlines(), sys.stdout))
