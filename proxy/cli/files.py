"""`notleader schema` and `notleader init`: what helps to write a file of rules."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from notleader.proxy.cli.file_schemas import SCHEMAS, text_of

_SCHEMA_FILE = "notleader.schema.json"
STARTER = f"""\
# yaml-language-server: $schema={_SCHEMA_FILE}
# Rules for notleader:  notleader run --config FILE        Is it right?  notleader check FILE
# Saved again while the proxy runs, it is read again: whole, or, with a mistake in it, not at all.
# Every kind with its fields: notleader fault kinds, notleader fault show KIND.

kafka: localhost:9092        # the real brokers
listen: localhost:19092      # where your clients bootstrap; each broker gets a port after it
seed: 7                      # the same seed and the same traffic: the same decisions
# capture: traffic/          # record every exchange as Parquet

faults:
  # The next four Produce requests for this partition are told that this broker isn't its leader.
  - name: lost-leader
    kind: error
    error_code: NOT_LEADER_OR_FOLLOWER
    match: {{api_key: Produce, topic: orders, partition_index: 0}}
    trigger: {{times: 4}}

  # The broker appends, and its answer never arrives: does your client send it twice?
  # - name: lost-acknowledgement
  #   kind: drop_response
  #   match: {{api_key: Produce, topic: orders}}
  #   trigger: {{skip: 10}}    # lets ten pass, then hits once; times: forever, every, probability, after_ms, for_ms

# What happens when: in place of rules that stand from the start, or beside them.
# steps:
#   - at: 2s
#     add: {{name: election, kind: leader_election, match: {{topic: orders, partition_index: 0}}, for_ms: 2000}}
#   - after: {{fault: lost-leader, hits: 4}}
#     add: {{name: slow, kind: delay, delay_ms: 500, trigger: {{for_ms: 3000, times: forever}}}}
#   - at: 30s
#     clear: true
"""

_Name = enum.Enum("_Name", {name: name for name in SCHEMAS}, type=str)  # type: ignore[misc]


def schema(
    name: Annotated[_Name, typer.Argument(metavar="config|timeline|incident", help="Which file.")],
) -> None:
    """Print the JSON Schema of a file, for editors: rules and settings (config), a timeline, an incident."""
    typer.echo(text_of(name.value), nl=False)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where.")] = Path("notleader.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a commented file of rules to start from, and beside it the schema that editors complete by."""
    if file.exists() and not force:
        typer.echo(f"{file} is there already: --force writes over it", err=True)
        raise typer.Exit(2)
    described = file.parent / _SCHEMA_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(STARTER, encoding="utf-8")
        described.write_text(text_of("config"), encoding="utf-8")
    except OSError as error:
        typer.echo(f"can't write {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(2) from error
    typer.echo(f"{file} and {described}; next: notleader run --config {file}")
