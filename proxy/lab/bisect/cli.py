"""`notleader bisect`: the first release of a client that something breaks, and the first that it doesn't."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from notleader.proxy.lab.errors import LabError, need
from notleader.proxy.lab.exits import clear_errors
from notleader.proxy.lab.placeholders import checked
from notleader.proxy.lab.stages import Stages

if TYPE_CHECKING:
    from notleader.proxy.lab.bisect.halving import Halving
    from notleader.proxy.lab.bisect.trials import Trial
    from notleader.proxy.lab.explore.candidates import Rule


def bisect(
    name: Annotated[str, typer.Argument(metavar="INCIDENT|FILE", help="An incident, or a rule file for COMMAND.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND…]", help="As for explore, with {version} in it.")
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(metavar="FAMILY", help="Whose releases: sarama, librdkafka, java, … (`incident show`)."),
    ] = None,
    versions: Annotated[
        str,
        typer.Option(
            metavar="A,B,…",
            help="The releases to choose from, sorted as versions; oldest first, where they are none. "
            "Default: all stable ones of the registry.",
        ),
    ] = "",
    since: Annotated[str, typer.Option(metavar="V", help="Nothing older.")] = "",
    until: Annotated[str, typer.Option(metavar="V", help="Nothing newer.")] = "",
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Try each so often: bad is one that was bad once.")
    ] = 1,
    build: Annotated[
        str, typer.Option(metavar="CMD", help="Before each release's first run of COMMAND, with {version} in it.")
    ] = "",
    kafka: Annotated[
        str, typer.Option(metavar="HOST:PORT[,…]", help="COMMAND's Kafka. Default: one from its jars.")
    ] = "",
    partitions: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Of the topic of each run of COMMAND.")
    ] = 1,
    limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=1, help="When a run of COMMAND is late, as for explore.")
    ] = None,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="How long a late one is waited for before it `hangs`.")
    ] = 150.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run's folder, named by the time, goes.")] = Path(
        "out/bisect"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Find the first bad and the first good release of a client.

    Bad is a release with which the incident's affected run shows what it must,
    or which the rules of FILE break. The oldest and the newest are tried, then
    what lies between two that differ is halved. A release that can't be had or
    built here, fails without faults, or sends nothing that a rule of FILE
    matches, is skipped and said so.

    With a rule file, COMMAND gets {version}, and all that `explore` replaces.

    Exit 0 when a change was found, 1 when all that could be tried are alike,
    2 when nothing could be tried.

    Examples:

    notleader bisect sarama-hang

    notleader bisect out/explore/failure-1.yaml --client aiokafka
    --build 'pip install aiokafka=={version}' -- ./service {bootstrap} {topic}

    (give --build an environment of its own, not yours)
    """
    with clear_errors(as_json=as_json), ExitStack() as stack:
        need("bisect", "capture" if command else "analysis")
        from notleader.proxy.lab.bisect.halving import Halving
        from notleader.proxy.lab.demo import new_folder
        from notleader.proxy.lab.explore.cli import rules_of

        stages = Stages(quiet=as_json)
        if command:
            if not any("{version}" in word for word in (*command, build)):
                raise LabError("COMMAND or --build has to take {version} somewhere: the release that is tried")
            checked(command)
            rules = rules_of(Path(name))
            if not rules:
                raise LabError(f"{name} has no rules below `faults`: no release is bad by none")
            choice = _chosen(versions, client, since, until, stages)
            trial = _of_command(
                Path(name),
                rules,
                command,
                build,
                kafka,
                rounds,
                partitions,
                (limit, patience),
                new_folder(out),
                stages,
                stack,
            )
            halving = Halving(choice)
        else:
            from notleader.proxy.lab.bisect.trials import OfIncident, affected, family_of
            from notleader.proxy.lab.incident import load_incident
            from notleader.proxy.lab.run import started

            incident = load_incident(name)
            family = family_of(incident, client)
            told = [affected(incident).version, *(run.version for run in incident.runs)]
            choice = _chosen(versions, family, since, until, stages)
            folder = new_folder(out / incident.name)
            cluster = stack.enter_context(started(incident.kafka, stages))
            trial = OfIncident(incident, family, rounds, folder, stages, cluster)
            halving = Halving(choice, [each for each in dict.fromkeys(told) if each in choice])
        trials = _halved(halving, trial, stages)
    _end(name, halving, trials, as_json)


_VERSION: Final = re.compile(r"v?\d+(\.\d+)*")


def _chosen(versions: str, family: str | None, since: str, until: str, stages: Stages) -> list[str]:
    """The releases that are asked for, oldest first."""
    from notleader.proxy.lab.bisect.releases import releases
    from notleader.proxy.lab.jars import version_key

    for option, border in (("--since", since), ("--until", until)):
        if border and not _VERSION.fullmatch(border):
            raise LabError(f"{option} {border} is no release: it takes one like 1.37.2")
    if versions:
        found = [word.strip() for word in versions.split(",") if word.strip()]
        if all(map(_VERSION.fullmatch, found)):
            found = sorted(set(found), key=version_key)
    elif family is None:
        raise LabError("say by --versions which releases there are, or by --client whose")
    else:
        with stages.stage(f"releases of {family}") as say:
            found = releases(family)
            say(f"{len(found)}, {found[0]} to {found[-1]}" if found else "none")
    found = [
        each
        for each in found
        if (not since or version_key(each) >= version_key(since))
        and (not until or version_key(each) <= version_key(until))
    ]
    if len(found) < 2:
        raise LabError(f"there is nothing to choose from: {', '.join(found) or 'no release'}")
    return found


def _of_command(
    file: Path,
    rules: list[Rule],
    command: list[str],
    build: str,
    kafka: str,
    rounds: int,
    partitions: int,
    late: tuple[float | None, float],
    folder: Path,
    stages: Stages,
    stack: ExitStack,
) -> Callable[[str], Trial]:
    from notleader.proxy.lab.bisect.trials import OfCommand
    from notleader.proxy.lab.explore.candidates import brokers_needed
    from notleader.proxy.lab.explore.cli import kafka_of, messages_for
    from notleader.proxy.lab.explore.search import Limits
    from notleader.proxy.lab.explore.telling import messages_of
    from notleader.proxy.lab.explore.tries import Bench

    bootstrap = stack.enter_context(kafka_of(kafka, stages, brokers_needed(rules)))
    messages = messages_for(command, None, messages_of(file.read_text("utf-8")))
    bench = Bench(bootstrap, command, folder.resolve(), "bisect", partitions, messages=messages)
    limits = Limits(limit_s=late[0], patience_s=late[1])
    return OfCommand(bench, rules, build, limits, rounds, stages)


def _halved(halving: Halving, trial: Callable[[str], Trial], stages: Stages) -> list[Trial]:
    trials: list[Trial] = []
    while (release := halving.next()) is not None:
        trials.append(trial(release))
        halving.told(release, trials[-1].result)
        rate = f" ({trials[-1].bad} of {trials[-1].of})" if trials[-1].bad and trials[-1].of > 1 else ""
        stages.console.print(f"{release}: {trials[-1].result}{rate}: {trials[-1].words}", markup=False, soft_wrap=True)
    return trials


def _end(name: str, halving: Halving, trials: list[Trial], as_json: bool) -> None:
    changes = halving.changes
    if as_json:
        typer.echo(json.dumps(document(name, halving, trials)))
    else:
        said = {trial.release: trial for trial in trials}
        for release, result in halving.tried:
            typer.echo(f"{release:>10}  {result}")
        for before, after, result in changes:
            typer.echo(f"first {result}: {after} (the last that isn't: {before})")
            typer.echo(f"  {said[after].words}")
        usable = [(release, result) for release, result in halving.tried if result != "skipped"]
        if not usable:
            typer.echo("none could be tried")
        elif not changes:
            typer.echo(f"no change: all that were tried are {usable[0][1]}")
        elif usable[0][1] == "bad":
            typer.echo(f"bad from the oldest on that could be tried: {usable[0][0]}")
    tried_any = any(trial.result != "skipped" for trial in trials)
    raise typer.Exit(0 if changes else 1 if tried_any else 2)


def document(name: str, halving: Halving, trials: list[Trial]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "of": name,
        "releases": list(halving.releases),
        "changes": [{"last": before, "first": after, "result": result} for before, after, result in halving.changes],
        "trials": [
            {"release": t.release, "result": t.result, "bad": t.bad, "of": t.of, "words": t.words} for t in trials
        ],
    }
