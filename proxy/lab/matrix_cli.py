"""`notleader matrix`: every client in every incident's world, and a page of what became of each."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from notleader.proxy.lab.exits import clear_errors
from notleader.proxy.lab.paths import made
from notleader.proxy.lab.stages import Stages, fail

if TYPE_CHECKING:
    from notleader.proxy.lab.matrix_run import Filled


def matrix(
    clients: Annotated[
        str, typer.Option(metavar="A,B", help="Only these: a family, or FAMILY@VERSION. Default: all that are pinned.")
    ] = "",
    incidents: Annotated[
        str, typer.Option(metavar="X,Y", help="Only these. Default: all that have a world for other clients.")
    ] = "",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Cells and pages; what is done there is not done again.")
    ] = Path("out/matrix"),
    rounds: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Run each cell twice, and up to N times where the two differ; 1: only once."
        ),
    ] = 5,
    again: Annotated[bool, typer.Option("--again", help="Run the cells that are done, too.")] = False,
    pages_only: Annotated[bool, typer.Option("--pages-only", help="Run nothing: pages of what is there.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Print the clients and incidents, and end.")] = False,
    evidence: Annotated[str, typer.Option(metavar="URL", help="What the cells of matrix.md link to.")] = "matrix.html",
    note: Annotated[str, typer.Option(metavar="TEXT", help="A line for the page on how it was made.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Put every client into every incident's world, and write a page of what became of each.

    Each cell has a proxy and topics of its own; brokers are shared, and Spark
    starts once. A run that was interrupted goes on where it stopped. Writes
    OUT/matrix.html (one file, every cell with its evidence), OUT/matrix.md and
    OUT/matrix.json. Client programs are built once with the machine's own
    toolchains; a cell whose toolchain is missing is not run, says so, and makes
    the exit code 2.

    Examples:

    notleader matrix --clients sarama@1.37.2,franz_go --incidents sarama-hang

    notleader matrix --incidents lost-acknowledgement --out out/lost --json
    """
    from notleader.proxy.lab import matrix as model
    from notleader.proxy.lab.analysis import need_spark
    from notleader.proxy.lab.matrix_page import Page, html, markdown
    from notleader.proxy.lab.matrix_rounds import by_place

    with clear_errors(as_json=as_json):
        columns = model.clients(_words(clients))
        rows = model.incidents(_words(incidents))
        if list_only:
            document = {"clients": [c.name for c in columns], "incidents": [i.name for i in rows]}
            typer.echo(
                json.dumps(document) if as_json else "\n".join([*document["clients"], "", *document["incidents"]])
            )
            return
        need_spark("matrix")
        stages = Stages(quiet=as_json)
        made(out)
        places = [(client, incident) for incident in rows for client in columns if not client.unable(incident)]
        began = time.strftime("%Y-%m-%d", time.gmtime())
        done = by_place(places, rounds, out, stages, again=again, pages_only=pages_only)
        asked = [f"--clients {clients}" if clients else "", f"--incidents {incidents}" if incidents else ""]
        command = " ".join(["notleader matrix", *filter(None, asked)])
        page = Page(
            rows,
            columns,
            done,
            [*_about(began, command, [cell for each in done.values() for cell in each]), *filter(None, [note])],
        )
        (out / "matrix.html").write_text(html(page), "utf-8")
        (out / "matrix.md").write_text(markdown(page, evidence), "utf-8")
        told = [
            {
                "incident": incident.name,
                "client": client.name,
                "word": words.word,
                "words": dict(words.counts),
                "phrase": words.first.phrase,
                "evidence": words.first.evidence,
                "own": cell[0].own,
                "hits": cell[0].hits,
                "failed": cell[0].failed,
                "sends": cell[0].sends,
                "ok": cell[0].ok,
                "at": cell[0].at,
                "folder": str(out / "cells" / incident.name / client.word),
            }
            for incident, client, cell, words in page.cells()
        ]
        result = {"about": page.about, "cells": told, "page": str(out / "matrix.html")}
        (out / "matrix.json").write_text(json.dumps(result, indent=1), "utf-8")
    if as_json:
        typer.echo(json.dumps(result))
    else:
        for incident, client, _, words in page.cells():
            rate = "" if words.stable else f"{words.word}: "
            typer.echo(f"{incident.name:26} {client.name:20} {rate}{words.first.phrase}")
        typer.echo(f"\npage: {out / 'matrix.html'}")
    if number := page.not_run():
        fail(f"{number} cell{'s were' if number > 1 else ' was'} not run: a program can't be had here, see above")
        raise typer.Exit(2)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _about(today: str, command: str, done: list[Filled]) -> list[str]:
    from notleader.proxy import __version__
    from notleader.proxy.lab.kafka import full_version

    days = sorted({cell.at[:10] for cell in done}) or [today]
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    cells = len({(run.incident, run.client) for run in done})
    return [
        f"{when}, notleader {__version__}, Kafka {full_version('3.9')}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}",
        f"`{command}`",
        f"{cells} cell{'s' * (cells != 1)} in {len(done)} run{'s' * (len(done) != 1)},"
        f" {sum(run.seconds for run in done):.0f} s of client time",
    ]
