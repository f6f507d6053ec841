"""`notleader incident ls|show|run`: named incidents with the clients that suffered them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from notleader.proxy.lab.exits import clear_errors
from notleader.proxy.lab.stages import Stages
from notleader.proxy.wire.printable import printable

_SPARK_STAYS_S = 600  # as long as that of `analyze`

IncidentName = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE",
        help="An incident's name, or a file with one.",
        autocompletion=lambda incomplete: _names(incomplete),
    ),
]


def _names(incomplete: str) -> list[str]:
    """What the shell offers after a Tab."""
    from notleader.proxy.lab.incident import incident_names

    return [name for name in incident_names() if name.startswith(incomplete)]


incident_app = typer.Typer(no_args_is_help=True, help="Named incidents, with the client that suffered each.")


@incident_app.command("ls")
def incident_ls(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the incidents that come with notleader."""
    from notleader.proxy.lab.incident import incident_names, load_incident

    with clear_errors(as_json=as_json):
        incidents = [load_incident(name) for name in incident_names()]
    if as_json:
        rows = [
            {"name": i.name, "title": i.title, "reproduces": i.reproduces, "runs": [run.model_dump() for run in i.runs]}
            for i in incidents
        ]
        typer.echo(json.dumps(rows))
        return
    width = max(len(incident.name) for incident in incidents)
    for incident in incidents:
        if incident.reproduces:
            typer.echo(f"{incident.name:{width}}  {incident.title}")
    typer.echo("\ntried, and not reproduced here:")
    for incident in incidents:
        if not incident.reproduces:
            typer.echo(f"{incident.name:{width}}  {incident.title}")


@incident_app.command("show")
def incident_show(
    name: IncidentName,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Tell one incident: what happened, the faults, the clients, and what the verdict has to be."""
    import yaml

    from notleader.proxy.lab.incident import load_incident

    with clear_errors(as_json=as_json):
        incident = load_incident(name)
    document = incident.model_dump(mode="json", exclude_defaults=True)
    if as_json:
        typer.echo(json.dumps(document))
    else:
        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110).rstrip())


@incident_app.command("run")
def incident_run(
    name: IncidentName,
    client: Annotated[
        str | None, typer.Option(metavar="FAMILY[@VERSION]", help="Only the runs with this client (and version).")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            metavar="FORM", help="Another length of the story, say with the timeouts of the report; see `show`."
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Run all of it that often, on one Kafka, and count.")
    ] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run's folder, named by the time, goes.")] = Path(
        "out"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Run an incident with the affected client and its controls; exit 1 when one behaves other than it is told.

    Client programs are built once with the machine's own toolchain. A run whose client can't be built, or whose
    command ends with an error and never connected, is told as such, and the others go on; the exit code is then 2.
    """
    from notleader.proxy.lab.analysis import need_spark
    from notleader.proxy.lab.demo import new_folder
    from notleader.proxy.lab.incident import load_incident
    from notleader.proxy.lab.incident_run import run_incident

    with clear_errors(as_json=as_json):
        incident = load_incident(name).only(client).in_form(form).repeated(rounds)
        stages = Stages(quiet=as_json)
        need_spark("incident run")
        stages.console.print(f"[bold]{incident.title}[/]\n{incident.story.strip()}\n")
        folder = new_folder(out / incident.name)
        done = run_incident(incident, folder, stages, None if as_json else _tell, stays_s=_SPARK_STAYS_S)
    if as_json:
        typer.echo(json.dumps(done.as_dict()))
    elif done.report.exists():
        _tell(f"\nreport: {done.report}")
    raise typer.Exit(done.exit_code)


def _tell(text: str) -> None:
    # What clients said and were told is in it.
    sys.stdout.write("\n".join(map(printable, text.split("\n"))) + "\n")
    sys.stdout.flush()
