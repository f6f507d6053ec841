"""The lab's commands: `notleader kafka up|down`, `notleader incident …` and `notleader demo`."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from notleader.proxy.lab.exits import clear_errors
from notleader.proxy.lab.incident_cli import IncidentName, incident_app
from notleader.proxy.lab.ports import is_free
from notleader.proxy.lab.stages import Stages, fail

if TYPE_CHECKING:
    from notleader.proxy.lab.detached import ClusterRecord

__all__ = ["demo", "incident_app", "kafka_app"]

kafka_app = typer.Typer(no_args_is_help=True, help="A real Kafka on loopback, from its jars.")

_USUAL_PORT = 9092


@kafka_app.command("up")
def kafka_up(
    version: Annotated[
        str,
        typer.Option(metavar="VERSION", help="Kafka's version, whole (3.5.2) or, from 3.9 on, its beginning: 4, 4.1."),
    ] = "4",
    nodes: Annotated[int, typer.Option(metavar="N", min=1, max=9, help="How many brokers.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="The first broker's port; others follow. What brokers say to each other has free ones. "
            "Default: 9092 or any free one.",
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when ready and leave Kafka running until `kafka down`.")
    ] = False,
    auto_create: Annotated[bool, typer.Option(help="Create a topic when a client first names it.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Start Kafka and keep it until Ctrl-C; its data goes with it. Needs Java 17 or newer."""
    from notleader.proxy.lab import detached
    from notleader.proxy.lab.kafka import KafkaCluster

    if port is None and all(is_free(_USUAL_PORT + index) for index in range(nodes)):
        port = _USUAL_PORT
    stages = Stages(quiet=as_json)
    with clear_errors(as_json=as_json):
        detached.forget_ended()
        cluster = KafkaCluster(version, nodes, port=port, auto_create_topics=auto_create)
        with contextlib.ExitStack() as stack:
            with stages.stage(f"Kafka {cluster.version}") as say:
                cluster.say = say
                stack.enter_context(cluster)
                say(f"listening on {cluster.bootstrap}")
            if detach:
                _print(detached.record(cluster), as_json)
                stack.pop_all()
                return
            with contextlib.suppress(KeyboardInterrupt):
                _print(detached.describe(cluster), as_json)
                stages.console.print("Ctrl-C ends it")
                told: set[int] = set()
                while len(ended := cluster.ended_nodes()) < nodes:
                    for node_id in ended.keys() - told:
                        stages.console.print(f"{ended[node_id]}; the others go on", markup=False, soft_wrap=True)
                    told |= ended.keys()
                    threading.Event().wait(0.5)
                fail(f"Kafka ended by itself: {'; '.join(ended.values())}")  # the one document has been said
                raise typer.Exit(2)


def _print(described: ClusterRecord, as_json: bool) -> None:
    typer.echo(json.dumps(described) if as_json else described["bootstrap"])


@kafka_app.command("down")
def kafka_down(
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Only the cluster whose first broker has this port. Default: all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """End what `kafka up --detach` left running, and delete its data."""
    from notleader.proxy.lab import detached

    with clear_errors(as_json=as_json):
        ended = detached.end(port)
    if as_json:
        typer.echo(json.dumps({"ended": ended}))
    elif ended:
        for cluster in ended:
            typer.echo(f"ended Kafka {cluster['version']} on {cluster['bootstrap']}")
    else:
        typer.echo("nothing was running")


def demo(
    incident: IncidentName = "leader-lost",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run's folder, named by the time, goes.")] = Path(
        "notleader-demo"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Show it all once: a real Kafka, a real client, one incident, and what Spark says the faults did.

    Exits 0 when the demo ran through, whatever the verdict is: showing a negative one is its purpose.
    """
    from notleader.proxy.lab.analysis import need_spark
    from notleader.proxy.lab.demo import new_folder, run_demo
    from notleader.proxy.lab.incident import load_incident

    with clear_errors(as_json=as_json):
        chosen = load_incident(incident)
        stages = Stages(quiet=as_json)
        need_spark("demo")
        stages.console.print(f"[bold]{chosen.title}[/]\n{chosen.story.strip()}\n")
        shown = run_demo(chosen, new_folder(out), stages, as_json=as_json)
    if as_json:
        document = {
            "incident": chosen.name,
            "folder": str(shown.folder),
            "negative": shown.negative,
            "hits": {name: hits for ran in shown.runs for name, hits in ran.hits.items()},
            "analysis": json.loads(shown.words),
        }
        typer.echo(json.dumps(document))
    else:
        sys.stdout.write(f"\n{shown.words.rstrip()}\n")
