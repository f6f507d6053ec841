"""`notleader capture …`: recorded and live traffic, from the shell; exported as `capture_app`.

Exit codes: 0 done, 1 a negative verdict (nothing matches, nothing to export, a segment that can't be read), 2 wrong use
or nothing to read.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, NoReturn

import typer
from rich.console import Console

from notleader.proxy.capture import lines, tables
from notleader.proxy.capture.export import FORMATS, plain, write_csv, write_jsonl, write_pcapng
from notleader.proxy.capture.filter import Accepts, FilterError, compile_filter, complete
from notleader.proxy.capture.outage import Outage
from notleader.proxy.capture.requests import write_requests
from notleader.proxy.capture.stats import Statistics
from notleader.proxy.capture.tree import document, tree
from notleader.proxy.config.extras import missing
from notleader.proxy.config.refusal import say_refused
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.wire.errors import in_words

if TYPE_CHECKING:
    # These load Arrow, which comes with the extra `capture`.
    from notleader.proxy.capture.reading import Capture

NEGATIVE: Final = 1
WRONG_USE: Final = 2
_POLL_S: Final = 0.5
_WHOLE_LINES: Final = 1 << 20

Where = Annotated[str, typer.Argument(metavar="DIR", help="A capture's folder, one of its files, or a URL.")]
FilterText = Annotated[
    str,
    typer.Argument(
        metavar="FILTER",
        help="Which rows, for example: api == Produce and topic == orders and error != 0 and latency_ms > 100",
        autocompletion=lambda incomplete: complete(incomplete),
    ),
]
FilterOption = Annotated[str, typer.Option("--filter", metavar="FILTER", help="Only rows that this filter accepts.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else there.")]
Spool = Annotated[
    Path | None,
    typer.Option(
        "--capture-spool",
        envvar="NOTLEADER_CAPTURE_SPOOL",
        metavar="DIR",
        help="Of a remote capture: the proxy's --capture-spool, where its unfinished segments are.",
    ),
]

Read = Callable[[bool], Iterator[Mapping[str, Any]]]
"""The rows that are meant; whether with their frames."""

capture_app = typer.Typer(
    name="capture",
    help="Look at recorded and live traffic, and take it elsewhere.",
    no_args_is_help=True,
)


@capture_app.command("ls")
def list_segments(
    where: Where,
    repair: Annotated[
        bool, typer.Option("--repair", help="First finish the segments that killed proxies left behind.")
    ] = False,
    spool: Spool = None,
    as_json: AsJson = False,
) -> None:
    """List the segments below a folder: rows, size, time, and whether they are finished."""
    capture = _opened(where, spool, as_json)
    if repair:
        from notleader.proxy.recorder.salvage import salvage

        for one in salvage(capture.place, capture.spool):
            typer.echo(str(one), err=True)
    try:
        found = list(capture.listed())
    except CaptureError as error:
        _stop(WRONG_USE, str(error), as_json)
    if as_json:
        _print_json([one._asdict() for one in found])
    else:
        tables.print_segments(found)
        if not repair and any(one.state == "left behind" for one in found):
            typer.echo("segments that a killed proxy left behind: --repair finishes them", err=True)
    if any(one.problem for one in found):
        raise typer.Exit(NEGATIVE)
    if not found:
        _stop(NEGATIVE, "no segments", False)


@capture_app.command("show")
def show(
    where: Where,
    filter_text: FilterText = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="Rows shown at most; 0 for all.")
    ] = 200,
    spool: Spool = None,
    as_json: AsJson = False,
) -> None:
    """Show recorded exchanges, one per line; a single one in full, its frames decoded where they were kept.

    Example: notleader capture show traffic/ 'connection_id == 3 and exchange_seq == 7'
    """
    accepts = _filter(filter_text, as_json)
    capture = _opened(where, spool, as_json)
    chosen = (row for row in _rows(capture, as_json) if accepts(row))
    # One more than is shown, to know whether there is more.
    found = list(itertools.islice(chosen, limit + 1 if limit else None))
    more = bool(limit) and len(found) > limit
    found = found[:limit] if more else found
    single = _with_frames(capture, found[0]) if len(found) == 1 else None
    if as_json:
        _print_json([document(single)] if single is not None else [plain(row) for row in found])
    elif single is not None:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = _WHOLE_LINES
        console.print(tree(single))
    else:
        _print_lines(found, heading=True)
    _tell(capture.problems)
    if more:
        typer.echo(f"only the first {limit}: --limit 0 shows all, a filter fewer", err=True)
    if not found:
        _stop(NEGATIVE, "nothing matches" if filter_text else "no rows", False)
    _whole(capture)


@capture_app.command("stats")
def stats(where: Where, filter_text: FilterText = "", spool: Spool = None, as_json: AsJson = False) -> None:
    """Count what the clients do: APIs, errors, latencies, batches, acks, group membership."""
    accepts = _filter(filter_text, as_json)
    capture = _opened(where, spool, as_json)
    statistics = Statistics()
    statistics.add_all(row for row in _rows(capture, as_json) if accepts(row))
    told = statistics.document()
    if as_json:
        _print_json(told)
    else:
        tables.print_statistics(told)
    _tell(capture.problems)
    if not told["exchanges"]:
        _stop(NEGATIVE, "no exchanges", False)
    _whole(capture)


@capture_app.command("tail")
def tail(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR|FILTER", help="A capture to read (a running proxy when absent), and a filter."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Of a folder: go on with what is recorded.")] = False,
    count: Annotated[
        int | None,
        typer.Option(
            "--lines", "-n", metavar="N", min=0, help="Of a folder: so many rows at first. Of a proxy: end after them."
        ),
    ] = None,
    admin: Annotated[
        str, typer.Option("--admin", envvar="NOTLEADER_ADMIN", metavar="HOST:PORT", help="The proxy's admin address.")
    ] = "127.0.0.1:8474",
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar=["NOTLEADER_TOKEN", "NOTLEADER_ADMIN_TOKEN"],
            metavar="TOKEN",
            help="The token it wants, if any.",
        ),
    ] = None,
    spool: Spool = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document per line and row.")] = False,
) -> None:
    """Watch a running proxy, or the end of a capture, row by row.

    Examples: notleader capture tail 'error != 0' · notleader capture tail traffic/ -f 'topic == orders'
    """
    given = list(arguments or ())
    where = given.pop(0) if given and _is_place(given[0]) else None
    if follow and where is None:
        _stop(
            WRONG_USE, f"-f follows a folder, and there is none at {given[0]}" if given else "-f wants a DIR", as_json
        )
    if len(given) > 1:
        _stop(WRONG_USE, f"one filter, please: quote it ({' '.join(given)!r})", as_json)
    filter_text = given[0] if given else ""
    accepts = _filter(filter_text, as_json)
    try:
        if where is None:
            _emit(_live(admin, token, filter_text, count), as_json)
            return
        capture = _opened(where, spool, as_json)
        if not follow:
            found = capture.last(20 if count is None else count, accepts, frames=as_json)
            _emit(found, as_json)
            _tell(capture.problems)
            if not found and count != 0:
                _stop(NEGATIVE, "nothing matches" if filter_text else "no rows", False)
            _whole(capture)
            return
        from notleader.proxy.capture.reading import Follower

        follower = Follower(capture)
        _emit(deque((row for row in follower.new() if accepts(row)), maxlen=20 if count is None else count), as_json)
        while True:
            _tell(capture.problems)
            capture.problems.clear()
            time.sleep(_POLL_S)
            _emit((row for row in follower.new() if accepts(row)), as_json, heading=False)
    except CaptureError as error:
        _stop(WRONG_USE, str(error), as_json)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except BrokenPipeError:
        _end_unread()


@capture_app.command("export")
def export(
    where: Where,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write, - for stdout.")],
    to: Annotated[str, typer.Option("--to", metavar="|".join(FORMATS), help="The format.")],
    filter_text: FilterOption = "",
    spool: Spool = None,
    as_json: AsJson = False,
) -> None:
    """Write a capture as pcapng (Wireshark opens it; needs --capture-level payload), JSON lines or CSV."""
    if to not in FORMATS:
        _stop(WRONG_USE, f"--to takes {', '.join(FORMATS)}, not {to!r}", as_json)
    told = {"file": file, "format": to}
    _write_rows(where, spool, filter_text, file, lambda read, target: _export(read, to, target), told, as_json)


@capture_app.command("to-requests")
def to_requests(
    where: Where,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write, - for stdout.")],
    filter_text: FilterText = "",
    spool: Spool = None,
    as_json: AsJson = False,
) -> None:
    """Write the recorded requests as JSON lines, decoded and as the bytes that send them again.

    Needs --capture-level payload. Example: notleader capture to-requests traffic/ sent.jsonl 'api == Produce', then
    jq -r .frame sent.jsonl | head -1 | base64 -d | nc localhost 9092
    """
    _write_rows(where, spool, filter_text, file, write_requests, {"file": file}, as_json)


@capture_app.command("to-faults")
def to_faults(
    where: Where,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The YAML file to write, - for stdout.")],
    filter_text: FilterOption = "",
    slow_ms: Annotated[
        float, typer.Option("--slow-ms", metavar="MS", min=1, help="Answers slower than this become delays.")
    ] = 500.0,
    spool: Spool = None,
    as_json: AsJson = False,
) -> None:
    """Turn what a recorded outage did (errors, delays, lost connections) into steps that do it again.

    The file goes to `notleader run --config FILE`, in front of a healthy broker.
    """
    accepts = _filter(filter_text, as_json)
    capture = _opened(where, spool, as_json)
    outage = Outage(slow_ms=slow_ms)
    outage.add_all(row for row in _rows(capture, as_json, frames=True) if accepts(row))
    text = outage.to_yaml(capture.place.shown)
    _tell(capture.problems)
    if not outage.steps():
        _stop(NEGATIVE, "nothing in this capture looks like a fault", as_json)
    try:
        if file == "-":
            typer.echo(text, nl=False)
        else:
            Path(file).write_text(text, "utf-8")
    except OSError as error:
        _stop(WRONG_USE, f"can't write {file}: {error.strerror}", as_json)
    if as_json and file != "-":
        _print_json({"file": file, **outage.summary()})
    else:
        typer.echo(f"{file}: " + ", ".join(f"{count} {name}" for name, count in outage.summary().items()), err=True)
    _whole(capture)


# ---- what they share ------------------------------------------------------------------------------------------------


def _opened(where: str, spool: Path | None, as_json: bool) -> Capture:
    if (line := missing("notleader capture", "capture")) is not None:
        _stop(WRONG_USE, line, as_json)
    from notleader.proxy.capture.reading import Capture

    try:
        return Capture(where, spool)
    except CaptureError as error:
        _stop(WRONG_USE, str(error), as_json)


def _write_rows(
    where: str,
    spool: Path | None,
    filter_text: str,
    file: str,
    write: Callable[[Read, BinaryIO], dict[str, int]],
    said: dict[str, Any],
    as_json: bool,
) -> None:
    """Have ``write`` write the rows that are meant, and say what it has written, as JSON behind what is ``said``."""
    accepts = _filter(filter_text, as_json)
    capture = _opened(where, spool, as_json)

    def read(frames: bool) -> Iterator[Mapping[str, Any]]:
        return (row for row in capture.rows(frames=frames) if accepts(row))

    told = _write(file, lambda target: write(read, target), capture, filter_text, as_json)
    _tell(capture.problems)
    if as_json and file != "-":
        _print_json({**said, **told})
    else:
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in told.items())
        typer.echo(f"{file}: {counts}", err=True)
    _whole(capture)


def _write(
    file: str, write: Callable[[BinaryIO], dict[str, int]], capture: Capture, filter_text: str, as_json: bool
) -> dict[str, int]:
    """What ``write`` says it has written; ends the command where that is nothing.

    Under its name only when it is whole: a file of that name is not given up for a failure.
    """
    partial = file if file == "-" else f"{file}.partial"
    try:
        with nullcontext(sys.stdout.buffer) if file == "-" else open(partial, "wb") as target:
            told = write(target)
            if not any(told.values()):
                _tell(capture.problems)
                raise CaptureError("nothing matches" if filter_text else "no rows")
            target.flush()
        if file != "-":
            os.replace(partial, file)
    except (CaptureError, OSError, KeyboardInterrupt) as error:
        if file != "-":
            with suppress(OSError):
                Path(partial).unlink(missing_ok=True)
        elif isinstance(error, BrokenPipeError):
            _end_unread()
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, CaptureError):
            _stop(NEGATIVE, str(error), as_json and file != "-")
        _stop(WRONG_USE, f"can't write {file}: {in_words(error)}", as_json)
    return told


def _end_unread() -> NoReturn:
    """Whoever read stdout has seen enough; nothing may be flushed into the closed pipe at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(0) from None


def _rows(capture: Capture, as_json: bool, *, frames: bool = False) -> Iterator[dict[str, Any]]:
    try:
        yield from capture.rows(frames=frames and capture.may_have_frames())
    except CaptureError as error:
        _stop(WRONG_USE, str(error), as_json)


def _filter(text: str, as_json: bool) -> Accepts:
    try:
        return compile_filter(text)
    except FilterError as error:
        document = {"error": error.message, "filter": error.text, "start": error.start, "end": error.end}
        _stop(WRONG_USE, "\n".join(error.lines()), as_json, document)


def _is_place(text: str) -> bool:
    return "://" in text or Path(text).exists() or text.endswith("/")


def _with_frames(capture: Capture, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same row with its frames, where it has any."""
    if row["event"] != "exchange":
        return row
    key = ("run_id", "proxy_id", "connection_id", "exchange_seq")
    same = (other for other in capture.rows(frames=True) if all(other[name] == row[name] for name in key))
    return next(same, row)


def _live(admin: str, token: str | None, filter_text: str, count: int | None) -> Iterator[dict[str, Any]]:
    from notleader.proxy.cli.client import AdminClient, RefusedError, UnreachableError

    try:
        with AdminClient(admin, token) as client:
            yield from itertools.islice(client.exchanges(filter_text), count)
    except (UnreachableError, RefusedError, ValueError) as error:
        raise CaptureError(str(error)) from error


def _emit(rows: Iterable[Mapping[str, Any]], as_json: bool, heading: bool = True) -> None:
    if not as_json:
        _print_lines(rows, heading=heading)
        return
    for row in rows:
        typer.echo(json.dumps(plain(row), separators=(",", ":")))
        sys.stdout.flush()


def _print_lines(rows: Iterable[Mapping[str, Any]], *, heading: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal and heading:
        console.print(lines.head())
    for row in rows:
        if console.is_terminal:
            console.print(lines.line(row))
        else:
            typer.echo(lines.tabbed(row))
            sys.stdout.flush()


def _export(read: Read, to: str, target: BinaryIO) -> dict[str, int]:
    if to == "pcapng":
        return write_pcapng(read, target)
    return (write_jsonl if to == "jsonl" else write_csv)(read(True), target)


def _tell(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(problem, err=True)


def _whole(capture: Capture) -> None:
    """End with a negative verdict where something could not be read, which has been told."""
    if capture.problems:
        raise typer.Exit(NEGATIVE)


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def _stop(code: int, message: str, as_json: bool, document: Any = None) -> NoReturn:
    say_refused(message, as_json=as_json, document=document)
    raise typer.Exit(code)
