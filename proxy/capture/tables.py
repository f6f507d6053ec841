"""What `ls` and `stats` print for people: Rich tables on a terminal, tab-separated lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from notleader.proxy.capture.lines import size
from notleader.proxy.wire.printable import printable

if TYPE_CHECKING:
    from notleader.proxy.capture.reading import Listed


def print_segments(segments: Sequence[Listed]) -> None:
    """One line per segment, and a sum."""
    head = ("SEGMENT", "ROWS", "SIZE", "LEVEL", "FIRST (UTC)", "LAST (UTC)", "STATE")
    rows = [
        (
            one.path,
            str(one.rows),
            size(one.size_bytes),
            one.level or "",
            _moment(one.first_us),
            _moment(one.last_us),
            f"{one.state}: {one.problem}" if one.problem else one.state,
        )
        for one in segments
    ]
    _print(head, rows, right=(1, 2))


def print_statistics(told: dict[str, Any]) -> None:
    """The traffic by client and API, then what producers and groups do."""
    _print(
        ("CLIENT", "API", "COUNT", "ERRORS", "p50 ms", "p95 ms", "p99 ms", "MAX ms", "SENT", "GOT", "WHICH ERRORS"),
        [
            (
                one["client"],
                one["api"],
                str(one["count"]),
                f"{one['error_rate']:.1%}" if one["errors"] else "",
                *(_ms(one[name]) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                size(one["request_bytes"]),
                size(one["response_bytes"]),
                _counted(one["error_codes"]),
            )
            for one in told["traffic"]
        ],
        right=range(2, 10),
    )
    if told["producers"]:
        _print(
            ("PRODUCER", "REQUESTS", "BATCHES", "RECORDS/BATCH", "BYTES/BATCH", "ACKS", "COMPRESSION", "TOPICS"),
            [
                (
                    one["client"],
                    str(one["requests"]),
                    str(one["batches"]),
                    "" if one["records_per_batch"] is None else f"{one['records_per_batch']:.1f}",
                    "" if one["bytes_per_batch"] is None else f"{one['bytes_per_batch']:.0f}",
                    _counted(one["acks"]),
                    _counted(one["compression"]),
                    _counted(one["topics"]),
                )
                for one in told["producers"]
            ],
            right=range(1, 5),
        )
    if told["groups"]:
        _print(
            ("GROUP", "JOINS", "SYNCS", "LEAVES", "HEARTBEATS", "ERRORS", "REASONS", "CALLS BY"),
            [
                (
                    one["group"],
                    *(str(one[name]) for name in ("joins", "syncs", "leaves", "heartbeats")),
                    _counted(one["errors"]),
                    _counted(one["reasons"]),
                    _counted(one["clients"]),
                )
                for one in told["groups"]
            ],
            right=range(1, 5),
        )


def _moment(at_us: int | None) -> str:
    return "" if at_us is None else f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _counted(counts: dict[str, int]) -> str:
    """``a x3, b x1``, and the name alone where there is one that stands for all."""
    if len(counts) == 1:
        ((name, count),) = counts.items()
        return f"{name} x{count}"
    return ", ".join(f"{name} x{count}" for name, count in counts.items())


def _print(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        for row in (head, *rows):
            typer.echo("\t".join(printable(" ".join(cell.split())) for cell in row))
        return
    to_the_right = set(right)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, name in enumerate(head):
        table.add_column(name, justify="right" if position in to_the_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    console.print(table)
