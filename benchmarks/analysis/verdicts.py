"""`python -m benchmarks.analysis.verdicts`: what the first, the second and the tenth verdict of one Spark cost.

On small captures, where Spark's start and planning are most of it. Each size is a process of its own. CPU is Java's and
Python's together; it says more than the clock where the machine has other work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from py4j.java_gateway import GatewayClient
from rich.console import Console

from benchmarks.analysis.generate import generate
from benchmarks.analysis.job import cpu_s
from notleader.spark_analysis.jobs.analyze import analyze
from notleader.spark_analysis.lookups import let_go_later
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import size_bytes
from notleader.spark_analysis.plans import let_go
from notleader.spark_analysis.report.files import write_report
from notleader.spark_analysis.session import build_session, suit

COLUMNS = {
    "exchanges": "exchanges",
    "verdict": "verdict",
    "verdict_s": "s to the verdict",
    "whole_s": "s to the report",
    "verdict_cpu_s": "CPU s to the verdict",
    "whole_cpu_s": "CPU s to the report",
    "queries": "queries",
    "nodes": "plan nodes",
    "jobs": "jobs",
    "stages": "stages",
    "messages": "messages to Java",
}
_TOLD = (1, 2, 10)


def main(
    sizes: Annotated[str, typer.Option(help="Exchanges, with commas between.")] = "300,3000,30000",
    capture: Annotated[Path | None, typer.Option(help="A folder with capture/, outcomes/ and log/ instead.")] = None,
) -> None:
    """Print a table of what a verdict costs, of one Spark after the other."""
    console = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in [0] if capture else [int(text) for text in sizes.split(",")]:
            given = capture or Path(folder) / str(size)
            if capture is None:
                generate(size, str(given / "capture"), str(given / "outcomes"))
            console.print(f"{given.name}: ten verdicts")
            told = subprocess.run(
                [sys.executable, "-m", "benchmarks.analysis.verdicts", "measure", str(given), f"{folder}/out-{size}"],
                stdout=subprocess.PIPE, text=True, check=True,
            ).stdout  # fmt: skip
            rows += json.loads(told)
    print("| " + " | ".join(COLUMNS.values()) + " |")  # noqa: T201
    print("|" + "---|" * len(COLUMNS))  # noqa: T201
    for row in rows:
        print("| " + " | ".join(str(row[name]) for name in COLUMNS) + " |")  # noqa: T201


def measure(given: Path, out: Path) -> list[dict[str, Any]]:
    """Ten analyses of `given` in one Spark: those of `_TOLD`, keyed as COLUMNS. The first has Spark's start in it."""
    captures, said, logs = ([str(given / name)] for name in ("capture", "outcomes", "log"))
    logs = logs if (given / "log").is_dir() else []
    size = size_bytes([*captures, *said, *logs])
    messages = _counted()
    out.mkdir(parents=True)
    rows = []
    begun, cpu_before = time.monotonic(), 0.0
    spark = build_session(input_bytes=size, log_file=out / "spark.log")
    context = spark.sparkContext
    java = str(context._jvm.java.lang.ProcessHandle.current().pid())
    scheduler = context._jsc.sc().dagScheduler()
    known = spark._jsparkSession.sharedState().statusStore()
    for number in range(1, _TOLD[-1] + 1):
        jobs, stages = scheduler.numTotalJobs(), _stages(context)
        last = max(_plans(known), default=-1)
        at: list[tuple[float, float]] = []

        def noted(_: object = None, at: list[tuple[float, float]] = at) -> None:
            at.append((time.monotonic(), cpu_s(java) + time.process_time()))

        apart = spark.newSession()
        suit(apart, size)
        messages_before = messages[0]
        with let_go_later(context._jvm._gateway_client):
            analysis = analyze(apart, captures, said, str(out), Options(), logs=logs, judged=noted)
        write_report(apart, analysis, str(out))
        noted()
        sent = messages[0] - messages_before
        if number in _TOLD:
            plans = {query: nodes for query, nodes in _plans(known).items() if query > last}
            rows.append(
                {
                    "exchanges": analysis.capture.exchanges,
                    "verdict": number,
                    "verdict_s": round(at[0][0] - begun, 1),
                    "whole_s": round(at[1][0] - begun, 1),
                    "verdict_cpu_s": round(at[0][1] - cpu_before, 1),
                    "whole_cpu_s": round(at[1][1] - cpu_before, 1),
                    "queries": len(plans),
                    "nodes": sum(plans.values()),
                    "jobs": scheduler.numTotalJobs() - jobs,
                    "stages": _stages(context) - stages,
                    "messages": sent,
                }
            )
        let_go(apart)
        begun, cpu_before = time.monotonic(), cpu_s(java) + time.process_time()
    spark.stop()
    return rows


def _plans(known: Any) -> dict[int, int]:
    """The queries that Spark still knows of, by number: how many nodes the plan of each had."""
    found = known.executionsList()
    numbers = [found.apply(place).executionId() for place in range(found.size())]
    return {number: known.planGraph(number).allNodes().size() for number in numbers}


def _stages(context: Any) -> int:
    no_quantiles = context._gateway.new_array(context._jvm.double, 0)
    known = (
        context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, context._jvm.java.util.ArrayList())
    )
    # Of those that are over only so many are kept; each has the next number.
    return max((known.apply(n).stageId() for n in range(min(known.size(), 1))), default=0)


def _counted() -> list[int]:
    """How many messages go to Java from now on, in a list of one."""
    count = [0]
    send = GatewayClient.send_command

    def counted(client: GatewayClient, command: str, *more: Any, **named: Any) -> Any:
        count[0] += 1
        return send(client, command, *more, **named)

    GatewayClient.send_command = counted
    return count


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), Path(sys.argv[3]))))  # noqa: T201
    else:
        typer.run(main)
