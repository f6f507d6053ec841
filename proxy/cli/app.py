"""The ``notleader`` command: one Typer app, its parts where the things they drive live."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from notleader.faults.schema import FaultDocumentError, Problem, parse_faults, validated
from notleader.faults.timeline import parse_timeline
from notleader.faults.waiting import names_in, waits_in_vain
from notleader.proxy import __version__
from notleader.proxy.cli import alone
from notleader.proxy.cli.analyze import become
from notleader.proxy.cli.completion import teach_bash
from notleader.proxy.cli.files import init, schema
from notleader.proxy.config.settings import ConfigError, lines_in, load, located, read_yaml
from notleader.proxy.record import helpers
from notleader.proxy.wire.names import did_you_mean

app = typer.Typer(
    name="notleader",
    help="A Kafka proxy that injects faults, records the traffic, and says what the faults did to the clients.",
    epilog="See it all once: notleader demo. Before your own Kafka: notleader run --kafka localhost:9092 "
    '--listen localhost:19092, then from another terminal: notleader fault add \'{"kind": "drop_response"}\'.',
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
errors = Console(stderr=True)
teach_bash()

for word in alone.WHERE:
    alone.put(app, word)
app.command()(init)
app.command()(schema)
spark_app = typer.Typer(no_args_is_help=True, help="The Spark that analyses leave, and what spark-submit takes.")
app.add_typer(spark_app, name="spark")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def analyze(context: typer.Context) -> None:
    """Join captures with what the clients said, by Spark, and say what the faults did."""
    raise typer.Exit(become(context.args))


@spark_app.callback()
def spark() -> None:
    """The Spark that analyses leave, and what spark-submit takes."""


@spark_app.command("stop")
def spark_stop() -> None:
    """End the Spark that earlier analyses left; without this it ends by itself when nobody asked for ten minutes."""
    os.execve(sys.executable, helpers.command("notleader.spark_analysis", "stop"), helpers.environment())


@spark_app.command("entry")
def spark_entry(
    archive: Annotated[
        Path | None, typer.Option("--zip", metavar="FILE", help="Write the package there, for --py-files.")
    ] = None,
) -> None:
    """Say which file spark-submit is to start: `spark-submit --master … "$(notleader spark entry)" analyze …`."""
    given = ["--zip", str(archive)] if archive is not None else []
    os.execve(sys.executable, helpers.command("notleader.spark_analysis", "entry", *given), helpers.environment())


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Config files of `notleader run`, or incidents.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout; of several files a list of them.")
    ] = False,
) -> None:
    """Validate config and incident files: exit 0, or every problem with its line and path."""
    found = [(file, _problems_of(file)) for file in files]
    if as_json:
        documents = [_checked(file, problems) for file, problems in found]
        print(json.dumps(documents if len(documents) > 1 else documents[0]))  # noqa: T201
    else:
        for file, problems in found:
            for line in located(problems, file):
                errors.print(line, markup=False, soft_wrap=True)
            if not problems:
                Console().print(f"{file}: valid", markup=False, soft_wrap=True)
    raise typer.Exit(1 if any(problems for _, problems in found) else 0)


def _problems_of(file: Path) -> list[Problem]:
    try:
        return _problems(read_yaml(file))
    except ConfigError as error:
        return error.problems


def _checked(file: Path, problems: list[Problem]) -> dict[str, Any]:
    line_of = lines_in(file)
    listed = [{"path": each.path, "line": line_of(each.path), "message": each.message} for each in problems]
    return {"file": str(file), "valid": not problems, "problems": listed}


def _problems(document: dict[str, Any]) -> list[Problem]:
    """What is wrong with a config or incident document; clients are what only an incident has."""
    if "clients" not in document and "runs" not in document:
        try:
            load(document, need_kafka=False)
        except ConfigError as error:
            return error.problems
        return []
    from notleader.proxy.lab.incident import Incident

    problems: list[Problem] = []
    try:
        validated(Incident, document, "")
    except FaultDocumentError as error:
        problems += error.problems
    if isinstance(settings := document.get("proxy"), dict):
        try:
            load(settings, need_kafka=False)
        except ConfigError as error:
            problems += [Problem(f"proxy.{problem.path}", problem.message) for problem in error.problems]
    runs = document.get("runs")
    numbered = enumerate(runs) if isinstance(runs, list) else ()
    parts = [("", document), *((f"runs[{number}].", run) for number, run in numbered if isinstance(run, dict))]
    everywhere = [name for _, part in parts for name in names_in(part.get("faults"), part.get("steps"))]
    for place, part in parts:
        for parse, key in ((parse_faults, "faults"), (parse_timeline, "steps")):
            if isinstance(part.get(key), list):
                try:
                    parse(part[key], place + key)
                except FaultDocumentError as error:
                    problems += error.problems
        # A run has the incident's faults and steps where it says none of its own.
        of_part = {key: _said(part, document, key) for key in ("faults", "steps")}
        # What the incident says for all runs may be about a rule that only one of them has.
        known = () if place else set(everywhere).difference(names_in(document.get("faults"), document.get("steps")))
        found = waits_in_vain(of_part["faults"], of_part["steps"], known=known, removable=everywhere)
        own = tuple(key for key in of_part if part.get(key) is not None)
        problems += [Problem(place + each.path, each.message) for each in found if each.path.startswith(own)]
    return problems


def _said(part: dict[str, Any], document: dict[str, Any], key: str) -> Any:
    return document.get(key) if part.get(key) is None else part[key]


@app.command("help")
def show_help(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND…]", help="A command, such as `fault add`.")
    ] = None,
) -> None:
    """Show the help of a command, as its --help does."""
    assert context.parent is not None
    here: Any = context.parent
    for word in command or []:
        found = getattr(here.command, "commands", {}).get(word)
        if found is None:
            known = did_you_mean(word, getattr(here.command, "commands", {}))
            errors.print(f"there is no command {here.command_path} {word}{known}", markup=False)
            raise typer.Exit(2)
        here = type(here)(found, parent=here, info_name=word)
    if here.command.name == "analyze":
        os.execve(sys.executable, helpers.command("notleader.proxy", "analyze", "--help"), helpers.environment())
    typer.echo(here.get_help())


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)  # noqa: T201
        raise typer.Exit
