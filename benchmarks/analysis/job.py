"""One measured piece of work in a process of its own: `python -m benchmarks.analysis.job '{…}'` prints JSON."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.analysis.generate import generate
from benchmarks.analysis.question import ask_duckdb, ask_spark
from notleader.spark_analysis.jobs.analyze import analyze
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.report.files import write_report
from notleader.spark_analysis.session import build_session


def main(wanted: dict[str, Any]) -> dict[str, Any]:
    """Do what `wanted["what"]` says over the capture and outcomes given; seconds without Spark's start, and more."""
    capture, outcomes, out = wanted["capture"], wanted["outcomes"], wanted["out"]
    Path(out).mkdir(parents=True, exist_ok=True)
    if wanted["what"] == "duckdb":
        started = time.monotonic()
        answer = ask_duckdb(capture, outcomes, threads=2, memory=wanted["memory"])
        seconds = time.monotonic() - started
        return {"seconds": seconds, "answer": answer, "rss_bytes": _highest_rss("self"), "cpu_s": time.process_time()}
    if wanted["what"] == "generate":
        return {"planted": asdict(generate(wanted["exchanges"], capture, outcomes, skewed=wanted["skewed"]))}
    begun = time.monotonic()
    spark = build_session(
        wanted.get("master"),
        input_bytes=wanted["input_bytes"],
        memory=wanted["memory"],
        log_file=Path(out) / "spark.log",
    )
    start_s = time.monotonic() - begun
    started = time.monotonic()
    told: dict[str, Any] = {}
    if wanted["what"] == "spark":
        told["answer"] = ask_spark(spark, capture, outcomes)
    else:
        analysis = analyze(spark, [capture], [outcomes], out, Options())
        write_report(spark, analysis, out)
        told["found"] = {
            name: sum(f.count for f in analysis.findings if f.check == name)
            for name in ("retried", "lost", "duplicate")
        }
        told["exchanges"] = analysis.capture.exchanges
        told["report_bytes"] = (Path(out) / "report.html").stat().st_size
    told |= {"seconds": time.monotonic() - started, "start_s": start_s, **_stages(spark)}
    java = str(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    told |= {"rss_bytes": _highest_rss(java), "cpu_s": cpu_s(java) + told.pop("executors_cpu_s")}
    spark.stop()
    return told


def _stages(spark: SparkSession) -> dict[str, float]:
    """What all stages together shuffled and spilled, in bytes, and the CPU of tasks in other processes."""
    jvm = spark.sparkContext._jvm
    no_quantiles = spark.sparkContext._gateway.new_array(jvm.double, 0)
    store = spark.sparkContext._jsc.sc().statusStore()
    stages = store.stageList(None, False, False, no_quantiles, jvm.java.util.ArrayList())
    total = {"shuffled_bytes": 0, "spilled_bytes": 0, "executors_cpu_s": 0.0}
    elsewhere = not spark.sparkContext.master.startswith("local")
    for number in range(stages.size()):
        stage = stages.apply(number)
        total["shuffled_bytes"] += stage.shuffleWriteBytes()
        total["spilled_bytes"] += stage.diskBytesSpilled()
        total["executors_cpu_s"] += stage.executorCpuTime() / 1e9 if elsewhere else 0.0
    return total


def cpu_s(process: str) -> float:
    """Seconds of CPU that a process has had."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _highest_rss(process: str) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))  # noqa: T201
