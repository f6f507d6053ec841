"""python -m tests.truth [--fast | NAME …]: run these scenarios (or all) and print each mark that isn't good.

With --no-judge only the scenarios themselves are looked at: whether their effects show, and go with their rules.
"""

from __future__ import annotations

import asyncio
import fnmatch
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.spark_analysis.session import build_session
from tests.truth.catalogue import EVERY
from tests.truth.oracle import SETTLED
from tests.truth.suite import BROKER, analysed, play


def main(arguments: list[str]) -> int:
    names = [name for name in arguments if not name.startswith("--")]
    if "--fast" in arguments:
        chosen = [scenario for scenario in EVERY if scenario.fast]
    else:
        chosen = [s for s in EVERY if not names or any(fnmatch.fnmatch(s.name, name) for name in names)]
    judging = "--no-judge" not in arguments
    folder = Path(tempfile.mkdtemp(prefix="truth-"))
    started = time.monotonic()
    with KafkaCluster("4", auto_create_topics=False, properties=BROKER) as kafka:
        print(f"broker after {time.monotonic() - started:.0f} s")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            told = runner.run(play(kafka.bootstrap, chosen, folder))
    print(f"played after {time.monotonic() - started:.0f} s, in {folder}")
    if not judging:
        for one in told:
            print("   ", one.run.scenario.name, dict(one.true), dict(one.run.hits))
            for effect in one.run.scenario.effects:
                if effect.check in SETTLED and one.true[effect.check, effect.client] < effect.at_least:
                    print("    void: did not show:", effect)
            for problem in one.problems:
                print("    void:", problem)
        return 0
    spark = build_session(log_file=folder / "spark.log")
    try:
        judged = analysed(spark, told)
    finally:
        spark.stop()
    print(f"judged after {time.monotonic() - started:.0f} s")
    for one in told:
        print("   ", one.run.scenario.name, dict(one.true), dict(one.run.hits))
    for problem in judged.void:
        print("void:", problem)
    for mark in judged.wrong:
        print(mark)
    print(f"{len(judged.marks)} marks, {len(judged.wrong)} not good")
    return 1 if judged.wrong or judged.void else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
