"""python -m tests.truth [--fast | NAME …]: run these scenarios (or all) and print each mark that isn't good.

With the folder of an earlier run what was played then is judged again. With --no-judge the scenarios themselves are
looked at, and no more: whether their effects show, and go with their rules.
"""

from __future__ import annotations

import asyncio
import fnmatch
import pickle
import sys
import tempfile
import time
from collections.abc import Set
from dataclasses import replace
from pathlib import Path

import uvloop

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.spark_analysis.session import build_session
from tests.truth import page
from tests.truth.catalogue import EVERY
from tests.truth.oracle import SETTLED, truth
from tests.truth.scenario import Scenario
from tests.truth.suite import BROKER, Told, analysed, play

_KEPT = "told.pickle"


def show(told: Told) -> None:
    """What is true of a run that has just ended."""
    print("   ", told.run.scenario.name, dict(told.true), dict(told.run.hits))
    for effect in told.run.scenario.effects:
        if effect.check in SETTLED and told.true[effect.check, effect.client] < effect.at_least:
            print("    void: did not show:", effect)
    for problem in told.problems:
        print("    void:", problem, flush=True)


def wanted(scenario: Scenario, names: Set[str], fast: bool = False) -> bool:
    """Named by one of the globs, where there are any; of the fast cut, where that is asked for."""
    named = not names or any(fnmatch.fnmatch(scenario.name, name) for name in names)
    return named and (scenario.fast or not fast)


def main(arguments: list[str]) -> int:
    names = [name for name in arguments if not name.startswith("--")]
    started = time.monotonic()
    again = next((name for name in names if (Path(name) / _KEPT).exists()), None)
    if again is not None:
        folder, failed = Path(again), []
        told = [
            one for one in pickle.loads((folder / _KEPT).read_bytes()) if wanted(one.run.scenario, set(names) - {again})
        ]
    else:
        folder = Path(tempfile.mkdtemp(prefix="truth-"))
        with KafkaCluster("4", auto_create_topics=False, properties=BROKER) as kafka:
            print(f"broker after {time.monotonic() - started:.0f} s")
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                chosen = [scenario for scenario in EVERY if wanted(scenario, set(names), fast="--fast" in arguments)]
                told, failed = runner.run(play(kafka.bootstrap, chosen, folder, say=show))
        (folder / _KEPT).write_bytes(pickle.dumps(told))
        print(f"played after {time.monotonic() - started:.0f} s, in {folder}")
        print(*failed, sep="\n")
    if again is not None:
        # By what is called true now, which may not be what it was when they were played.
        told = [replace(one, true=truth(one.run)) for one in told]
    if "--no-judge" in arguments:
        return 1 if failed else 0
    spark = build_session(log_file=folder / "spark.log")
    try:
        judged = analysed(spark, told)
    finally:
        spark.stop()
    (folder / "matrix.md").write_text(page.matrix(told, judged))
    print(f"judged after {time.monotonic() - started:.0f} s")
    for problem in judged.void:
        print("void:", problem)
    for mark in judged.wrong:
        print(mark)
    print(f"{len(judged.marks)} marks, {len(judged.wrong)} not good")
    return 1 if judged.wrong or judged.void or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
