"""Plays scenarios with their controls, many at a time, as they mostly wait; what was played already is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.doors import ManyDoors
from tests.truth import judge
from tests.truth.kept import Run, load
from tests.truth.oracle import SETTLED, Truth, truth
from tests.truth.scenario import Scenario
from tests.truth.world import World

AT_ONCE = 8
ATTEMPTS = 3
"""So often is a scenario played whose effect does not show; what the analysis says of it is no part of that."""
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "500",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""What a broker of these scenarios does sooner than by default, and what several of them don't replicate."""


@dataclass
class Played:
    """One scenario: its run, what is true of it, and what makes it no evidence."""

    run: Run
    true: Truth
    problems: list[str] = field(default_factory=list)


Say = Callable[[str, Played | None, str], None]
"""Told a scenario's name, and what came of it or why it could not be played."""


def controls(scenario: Scenario) -> Iterator[tuple[str, frozenset[str]]]:
    """The tags of a scenario's controls, and the rules that each leaves out; no two leave out the same."""
    names = frozenset(rule["name"] for rule in scenario.rules)
    seen: set[frozenset[str]] = set()
    for effect in scenario.effects:
        if effect.check not in SETTLED or not effect.by:
            continue
        for left_out in (frozenset(effect.by), names - set(effect.by) if effect.stays else frozenset()):
            if left_out and left_out not in seen:
                seen.add(left_out)
                yield f"-without-{'-'.join(sorted(left_out))}", left_out


def kept(scenario: Scenario, folder: Path) -> Played | None:
    """What was played of the scenario, where all of it is there; judged by what is called true now."""
    run = load(scenario, folder / scenario.name)
    shown = {gone: load(scenario, folder / f"{scenario.name}{tag}") for tag, gone in controls(scenario)}
    if run is None or any(control is None for control in shown.values()):
        return None
    return _assessed(run, {gone: truth(control) for gone, control in shown.items() if control is not None})


def forget(scenario: Scenario, folder: Path) -> None:
    """Have the scenario played again."""
    for tag in ("", *(tag for tag, _ in controls(scenario))):
        (folder / f"{scenario.name}{tag}" / "run.json").unlink(missing_ok=True)


def _assessed(run: Run, shown: dict[frozenset[str], Truth]) -> Played:
    scenario, true = run.scenario, truth(run)
    played = Played(run, true, [f"{scenario.name}: {problem}" for problem in run.problems])
    names = frozenset(rule["name"] for rule in scenario.rules)
    for name in dict.fromkeys(name for effect in scenario.effects for name in effect.by if not run.hits.get(name)):
        played.problems.append(f"{scenario.name}: {name} never struck")
    for effect in scenario.effects:
        if effect.check in SETTLED and true[effect.check, effect.client] < effect.at_least:
            played.problems.append(f"{scenario.name}: {effect.check} of {effect.client} did not show in the run")
        absent, present = shown.get(frozenset(effect.by)), shown.get(names - set(effect.by))
        if wrong := judge.counterfactual(effect, absent, present):
            played.problems.append(f"{scenario.name}: {wrong}")
    return played


async def _play(made: World, scenario: Scenario) -> Played:
    for attempt in range(1, ATTEMPTS + 1):
        run = await made.run(scenario, attempt=attempt)
        shown = {gone: truth(await made.run(scenario, gone, tag, attempt)) for tag, gone in controls(scenario)}
        played = _assessed(run, shown)
        if not played.problems:
            break
    return played


async def _play_all(made: World, scenarios: Sequence[Scenario], at_once: int, say: Say) -> list[Played]:
    turn, found = asyncio.Semaphore(at_once), []
    async with made:

        async def one(scenario: Scenario) -> None:
            async with turn:
                try:
                    played = await _play(made, scenario)
                except Exception as error:  # one that can't be played keeps no other from it
                    say(scenario.name, None, repr(error))
                    return
            say(scenario.name, played, "")
            found.append(played)

        await asyncio.gather(*map(one, scenarios))
    return found


def play(
    scenarios: Sequence[Scenario], folder: Path, say: Say = lambda *_: None, at_once: int = AT_ONCE
) -> tuple[list[Played], list[str]]:
    """Every scenario, in its order; those that `folder` holds already are not played. And what can't be played."""
    done = {scenario.name: played for scenario in scenarios if (played := kept(scenario, folder)) is not None}
    failed: list[str] = []

    def heard(name: str, played: Played | None, why: str) -> None:
        if played is None:
            failed.append(f"{name}: could not be played: {why}")
        say(name, played, why)

    left = [scenario for scenario in scenarios if scenario.name not in done]
    clusters = {(scenario.kafka, scenario.brokers, scenario.sasl): None for scenario in left}
    for version, brokers, sasl in clusters:
        of_it = [one for one in left if (one.kafka, one.brokers, one.sasl) == (version, brokers, sasl)]
        cluster = ManyDoors if sasl else KafkaCluster
        with (
            cluster(version, brokers, auto_create_topics=False, properties=BROKER) as kafka,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            behind = kafka.bootstrap_of("SASL") if isinstance(kafka, ManyDoors) else kafka.bootstrap
            for played in runner.run(_play_all(World(kafka.bootstrap, behind, folder), of_it, at_once, heard)):
                done[played.run.scenario.name] = played
    return [done[scenario.name] for scenario in scenarios if scenario.name in done], failed
