"""The analysis finds what is true of real runs, names the rules that did it, and accuses nothing that is right.

The few scenarios of the fast cut are in `make test`; `make test-truth` plays all of them, and writes what came of it
into docs/held-to-the-truth.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.spark_analysis.session import build_session
from tests.truth import page
from tests.truth.catalogue import EVERY
from tests.truth.judge import Judged
from tests.truth.scenario import Scenario
from tests.truth.suite import BROKER, Told, analysed, play

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Any]:
    session = build_session(log_file=tmp_path / "spark.log")
    yield session
    session.stop()


def played(scenarios: list[Scenario], folder: Path) -> list[Told]:
    with (
        KafkaCluster("4", auto_create_topics=False, properties=BROKER) as kafka,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        told, failed = runner.run(play(kafka.bootstrap, scenarios, folder))
    assert not failed, "\n".join(failed)
    return told


def complaints(judged: Judged) -> str:
    return "\n".join([*judged.void, *(str(mark) for mark in judged.wrong)])


def test_the_few_of_the_fast_cut(tmp_path: Path, spark: Any) -> None:
    told = played([scenario for scenario in EVERY if scenario.fast], tmp_path)
    judged = analysed(spark, told)
    assert not judged.void + judged.wrong, complaints(judged)
    assert {mark.check for mark in judged.marks} > {"duplicate", "failed", "late", "lost", "retried"}


@pytest.mark.truth
def test_all_of_them(tmp_path: Path, spark: Any) -> None:
    told = played(list(EVERY), tmp_path)
    judged = analysed(spark, told)
    page.write(told, judged)
    assert not judged.void + judged.wrong, complaints(judged)
