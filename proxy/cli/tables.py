"""Faults and kinds for people: a Rich table on a terminal, tab-separated lines elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from notleader.proxy.wire.printable import printable


def print_rules(rules: Sequence[dict[str, Any]]) -> None:
    """One line per rule, in the order they are asked."""
    if not rules:
        _note("no faults")
        return
    _print(("NAME", "KIND", "PHASE", "MATCH", "TRIGGER", "HITS", "STATE"), (_rule_row(rule) for rule in rules))


def print_added(rules: Sequence[dict[str, Any]]) -> None:
    """The names under which the faults are now known."""
    for rule in rules:
        typer.echo(f"{rule['name']} ({rule['kind']})")


def print_kinds(kinds: Sequence[dict[str, Any]]) -> None:
    """One line per kind: what it does."""
    _print(("KIND", "WHAT IT DOES"), ((kind["kind"], kind["summary"]) for kind in kinds))


def print_kind(kind: dict[str, Any]) -> None:
    """One kind with its fields, and an example."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(kind['kind'])}[/bold]")
    console.print(kind["description"], markup=False)
    console.print()
    _print(
        ("FIELD", "TYPE", "DEFAULT", "MEANING"),
        ((f["name"], f["type"], f["default"], f["description"]) for f in kind["fields"]),
    )


def _rule_row(rule: dict[str, Any]) -> tuple[str, ...]:
    if not rule.get("enabled", True):
        state = "off"
    elif rule.get("released"):
        state = "released"
    elif rule.get("exhausted"):
        state = "spent"
    else:
        state = "active"
    return (
        str(rule["name"]),
        str(rule["kind"]),
        str(rule.get("phase", "")),
        _short(rule.get("match")),
        _short(rule.get("trigger")),
        str(rule.get("hits", 0)),
        state,
    )


def _short(value: Any) -> str:
    """A nested document on one line: `api_key=Produce topic=orders`."""
    if not value:
        return ""
    if not isinstance(value, dict):
        return str(value)
    parts = (
        f"{key}={item if isinstance(item, (str, int, float)) else json.dumps(item)}" for key, item in value.items()
    )
    return " ".join(parts)


def _print(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(printable(" ".join(cell.split())) for cell in row))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    console.print(table)


def _note(text: str) -> None:
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(text, style="dim")
