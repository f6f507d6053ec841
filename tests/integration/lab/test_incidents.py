"""The five incidents in their fast form: the affected versions suffer, the controls don't."""

from __future__ import annotations

import re

import pytest

from notleader.proxy.lab.incident import load_incident
from notleader.proxy.lab.incident_run import Held, hold
from notleader.proxy.lab.outcome import Outcome
from notleader.proxy.lab.stages import Stages
from tests.tools.programs import need

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

# What is left out differs from another run only in its version; `make test-incidents` has all of them.
RUNS = {
    "sarama-hang": ("affected", "control"),
    "sarama-two-minutes": ("affected", "control"),
    "java-callback-deadlock": ("affected", "newest", "control"),
    "java-send-blocks": ("affected", "newest", "control"),
    "scala-refresh-stall": ("affected", "control"),
}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Held]]:
    """All of them by name and run, with brokers and Spark shared."""
    need("go")
    need("javac")
    chosen = []
    for name, runs in RUNS.items():
        incident = load_incident(name)
        chosen.append(incident.model_copy(update={"runs": [run for run in incident.runs if run.name in runs]}))
    found: dict[str, dict[str, Held]] = {}
    for each in hold(chosen, tmp_path_factory.mktemp("incidents"), Stages(quiet=True)):
        found.setdefault(each.incident, {})[each.judged.run.name] = each
    return found


def said(held: Held) -> list[Outcome]:
    """What the application was told."""
    return held.outcomes


def stacks(held: Held) -> str:
    """What the client's program wrote at its end: the stacks of its threads."""
    (log,) = (path for path in (held.folder / "logs").glob("*.log") if path.stem != "proxy")
    return log.read_text()


@pytest.mark.parametrize("name", RUNS)
def test_every_run_is_as_its_file_says(held: dict[str, dict[str, Held]], name: str) -> None:
    assert set(held[name]) == set(RUNS[name])
    for run in held[name].values():
        assert run.as_expected, run.judged


def test_sarama_hangs_after_four_refusals_and_no_fewer(held: dict[str, dict[str, Held]]) -> None:
    affected, control = (held["sarama-hang"][name] for name in ("affected", "control"))
    assert (affected.hits, control.hits) == ({"not-leader": 4}, {"not-leader": 4})
    assert [each.outcome for each in said(affected)] == ["pending", "pending"]
    assert [each.outcome for each in said(control)] == ["info", "info"]
    assert "(*syncProducer).SendMessages" in stacks(affected)


def test_two_reads_and_four_dials_of_a_second_each(held: dict[str, dict[str, Held]]) -> None:
    """2 * ReadTimeout + (M + 1) * DialTimeout + M * 0.25 s + 0.1 s, with M = 3; a busy machine adds to it."""
    *_, last = said(held["sarama-two-minutes"]["affected"])
    assert last.outcome == "info"
    assert last.took_ms is not None
    assert last.took_ms >= 6500


@pytest.mark.parametrize("version", ["affected", "newest"])
def test_a_java_callback_that_waits_stops_its_producer(held: dict[str, dict[str, Held]], version: str) -> None:
    run = held["java-callback-deadlock"][version]
    assert run.hits == {"not-leader": 4}
    network_thread = re.search(r'^"kafka-producer-network-thread.*?(?=^"|\Z)', stacks(run), re.DOTALL | re.MULTILINE)
    assert network_thread is not None
    assert "FutureRecordMetadata.get" in network_thread[0]
    every = said(run)
    (fresh,) = (each for each in every if each.client.endswith("-fresh"))
    assert fresh.outcome == "ok", "the fault is gone: a new producer works"
    assert not any(each.outcome == "ok" for each in every if each is not fresh), "this one never did again"


@pytest.mark.parametrize("version", ["affected", "newest"])
def test_a_cold_java_send_holds_its_caller(held: dict[str, dict[str, Held]], version: str) -> None:
    first, *_ = said(held["java-send-blocks"][version])
    assert first.outcome == "fail"
    assert first.blocked_ms is not None
    assert first.blocked_ms >= 1000
    assert "etadata" in (first.error or "")


def test_one_send_waits_for_each_refresh_of_the_old_producer(held: dict[str, dict[str, Held]]) -> None:
    every = said(held["scala-refresh-stall"]["affected"])
    assert {each.outcome for each in every} == {"ok"}
    stalled = [each for each in every if (each.took_ms or 0) >= 2000]
    assert 2 <= len(stalled) < len(every) / 2
