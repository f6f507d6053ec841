"""The five incidents at the length they were measured at, ten rounds of each, and real outages beside the proxy's.

Not part of `make test`: `make test-incidents`. What takes seconds or minutes here is what the clients take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.programs import need

pytestmark = [pytest.mark.incidents, pytest.mark.kafka, pytest.mark.spark]
PROJECT = Path(__file__).resolve().parents[3]
FIVE = ["sarama-hang", "sarama-two-minutes", "java-callback-deadlock", "java-send-blocks", "scala-refresh-stall"]


def run(name: str, folder: Path, *options: str) -> dict[str, Any]:
    """What `notleader incident run --json` printed."""
    for program in ("go", "javac"):
        need(program)
    ran = subprocess.run(
        [sys.executable, "-m", "notleader", "incident", "run", name, "--out", str(folder), "--json", *options],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def last_send_s(document: dict[str, Any], name: str) -> float:
    """How long the last send of a run took, from what its client said."""
    (found,) = (one for one in document["runs"] if one["name"] == name)
    (client,) = found["story"]
    lines = (Path(found["folder"]) / "outcomes" / f"{client}.jsonl").read_text().splitlines()
    said = json.loads(lines[-1])
    return float(said["completed_at_us"] - said["called_at_us"]) / 1e6


@pytest.mark.parametrize("name", FIVE)
def test_ten_of_ten(name: str, tmp_path: Path) -> None:
    rounds = run(name, tmp_path, "--rounds", "10")["rounds"]
    assert set(rounds) >= {"affected", "control"}
    assert all(one == {"as_expected": 10, "of": 10} for one in rounds.values())


@pytest.mark.parametrize("name", FIVE)
def test_as_it_was_measured(name: str, tmp_path: Path) -> None:
    document = run(name, tmp_path, "--form", "measured")
    if name == "sarama-two-minutes":
        assert 17 <= last_send_s(document, "affected") <= 25
        assert 30 <= last_send_s(document, "newest") <= 45


def test_the_two_minutes_of_the_report(tmp_path: Path) -> None:
    document = run("sarama-two-minutes", tmp_path, "--form", "report")
    assert 120 <= last_send_s(document, "affected") <= 150


@pytest.fixture
def namespace() -> Iterator[list[str]]:
    """How to run something in a network namespace of its own, with a loopback and nothing else."""
    for program in ("ip", "iptables"):
        need(program)
    name = f"notleader-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield ["ip", "netns", "exec", name]
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def world(outage: str, folder: Path, *before: str) -> dict[str, Any]:
    """What an outage did to the clients, and what the proxy did to the same ones."""
    ran = subprocess.run(
        [*before, sys.executable, "-m", "tests.integration.lab.world", outage, str(folder)],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        timeout=1800,
    )
    assert ran.returncode == 0, ran.stderr
    measured: dict[str, Any] = json.loads(ran.stdout)
    return measured


def test_a_firewall_does_what_the_black_hole_does(tmp_path: Path, namespace: list[str]) -> None:
    for version, told in world("two-minutes", tmp_path, *namespace).items():
        assert told["world"]["outcome"] == told["proxy"]["outcome"] == "info", (version, told)
        assert told["proxy"]["seconds"] == pytest.approx(told["world"]["seconds"], rel=0.1)


def test_a_leader_without_power_does_what_the_black_hole_does(tmp_path: Path, namespace: list[str]) -> None:
    for version, told in world("deadlock", tmp_path, *namespace).items():
        for where in ("world", "proxy"):
            seen = told[where]
            assert seen["sends_after_the_outage"] > 0, (version, where, seen)
            assert seen["of_these_acknowledged"] == 0, (version, where, seen)
            assert seen["longest_call_ms"] >= 1000, (version, where, seen)
            assert seen["network_thread_waits_in_callback"], (version, where, seen)
            assert seen["fresh_producer"] == "ok", (version, where, seen)


def test_a_rolling_restart_does_what_four_refusals_do(tmp_path: Path) -> None:
    seen = world("hang", tmp_path)
    affected, control = seen["affected"], seen["control"]
    assert affected["hung"] > 0, seen
    assert affected["in_SendMessages"] == affected["rolled_over_epoch"] == affected["hung"], seen
    assert control["hung"] == 0, seen
