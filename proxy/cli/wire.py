"""`notleader wire`: what is understood of Kafka's protocol."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from notleader.proxy.wire import coverage as wire_coverage

app = typer.Typer(no_args_is_help=True, help="What notleader understands of Kafka's protocol.")


@app.callback()
def wire() -> None:
    """What notleader understands of Kafka's protocol."""


@app.command()
def coverage(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of the table.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/wire-coverage.md.")] = False,
) -> None:
    """Every API with its versions, the Kafka release that defines them, and what is found in its messages."""
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in wire_coverage.coverage()]))
    elif as_markdown:
        typer.echo(wire_coverage.markdown(), nl=False)
    else:
        shown = Table(*wire_coverage.HEADINGS, box=None, pad_edge=False)
        for row in wire_coverage.table():
            shown.add_row(*row)
        Console().print(shown)
