"""`python -m notleader.spark_analysis.each FILE`: many analyses in one Spark session, as its start costs most.

Each line of FILE is one job, a JSON object of `capture`, `outcomes` and `logs` (lists of paths), `out`, and whether a
`report` is wanted; each line on stdout is that job's document, as of `analyze --json`, or `{"out": …, "failed": …}`.
Runs have clusters of their own, and every outcome line names its run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO, Any

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import InputError, check_paths

_OPTIONS = Options(by_run=True, runs_are_told=True, groups_per_check=2000)


def main(jobs: list[str], told: IO[str]) -> int:
    """Do every job of `jobs`; one that can't be done is told and stops no other."""
    from notleader.spark_analysis.session import build_session

    spark = build_session()
    try:
        for line in filter(str.strip, jobs):
            told.write(json.dumps(_analysed(spark, json.loads(line))) + "\n")
            told.flush()
    finally:
        spark.stop()
    return 0


def _analysed(spark: Any, job: dict[str, Any]) -> dict[str, Any]:
    from notleader.spark_analysis.jobs.analyze import analyze
    from notleader.spark_analysis.report.files import write_report

    Path(job["out"]).mkdir(parents=True, exist_ok=True)
    try:
        logs = job.get("logs", [])
        check_paths(job["capture"], job["outcomes"], logs)
        analysis = analyze(spark, job["capture"], job["outcomes"], job["out"], _OPTIONS, logs=logs)
        if job.get("report"):
            write_report(spark, analysis, job["out"])
        return analysis.as_dict()
    except InputError as error:
        return {"out": job["out"], "failed": str(error)}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).read_text().splitlines(), sys.stdout))
