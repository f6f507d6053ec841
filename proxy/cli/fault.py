"""`notleader fault …`: the rules of a running proxy, from the shell; exported as `fault_app`.

Exit codes: 0 done, 1 a negative verdict (the hits did not come, there is no such rule), 2 wrong use or no
proxy to talk to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from notleader.faults.timeline import parse_duration_ms
from notleader.proxy.cli import completion, tables
from notleader.proxy.cli import kinds as catalogue
from notleader.proxy.cli.client import DEFAULT_ADMIN, AdminClient, RefusedError, UnreachableError
from notleader.proxy.cli.documents import UnreadableDocumentError, faults_of, read_document
from notleader.proxy.config.refusal import say_refused

NEGATIVE = 1
WRONG_USE = 2
MAX_WAIT_MS = 3_600_000

T = TypeVar("T")

Admin = Annotated[
    str, typer.Option("--admin", envvar="NOTLEADER_ADMIN", metavar="HOST:PORT", help="The proxy's admin address.")
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar=["NOTLEADER_TOKEN", "NOTLEADER_ADMIN_TOKEN"],
        metavar="TOKEN",
        help="The token it wants, if any.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else there.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The rule's name.", autocompletion=completion.rules)]

fault_app = typer.Typer(
    name="fault",
    help="Add, list, await and remove the faults of a running proxy.",
    no_args_is_help=True,
)


@fault_app.command("add")
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-|JSON",
            help="A YAML or JSON file, - for standard input, or JSON or YAML itself: one fault, a list, or a document "
            "with 'faults:'.",
        ),
    ],
    admin: Admin = DEFAULT_ADMIN,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Add faults, all of them or none.

    Example: notleader fault add '{"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER",
    "match": {"api_key": "Produce", "topic": "orders"}, "trigger": {"times": 4}}'
    """
    try:
        given = faults_of(read_document(source))
    except UnreadableDocumentError as error:
        _stop(WRONG_USE, [str(error)], as_json)
    if given.others and not as_json:
        typer.echo(f"note: only the faults are added; {', '.join(given.others)} left alone", err=True)
    rules = _ask(admin, token, as_json, lambda client: client.add_faults(given.faults), within=given.path)
    if as_json:
        _print_json(rules)
    else:
        tables.print_added(rules)


@fault_app.command("ls")
def list_rules(admin: Admin = DEFAULT_ADMIN, token: Token = None, as_json: AsJson = False) -> None:
    """List the rules in their order, with their hits."""
    rules = _ask(admin, token, as_json, lambda client: client.list_faults())
    if as_json:
        _print_json(rules)
    else:
        tables.print_rules(rules)


@fault_app.command("rm")
def remove(name: Name, admin: Admin = DEFAULT_ADMIN, token: Token = None, as_json: AsJson = False) -> None:
    """Remove one rule; what it holds is let go. Exit code 1 when there is none of that name."""
    _ask(admin, token, as_json, lambda client: client.remove_fault(name), absent=NEGATIVE)
    if as_json:
        _print_json({"removed": name})


@fault_app.command("clear")
def clear(admin: Admin = DEFAULT_ADMIN, token: Token = None, as_json: AsJson = False) -> None:
    """Remove every rule."""
    _ask(admin, token, as_json, lambda client: client.clear_faults())
    if as_json:
        _print_json({"cleared": True})


@fault_app.command("release")
def release(name: Name, admin: Admin = DEFAULT_ADMIN, token: Token = None, as_json: AsJson = False) -> None:
    """Let go what a stall holds; the rule stays, spent."""
    _ask(admin, token, as_json, lambda client: client.release_fault(name), absent=NEGATIVE)
    if as_json:
        _print_json({"released": name})


@fault_app.command("wait")
def wait(
    name: Name,
    hits: Annotated[int, typer.Option("--hits", min=1, metavar="N", help="How many hits to wait for.")] = 1,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="How long at most: 500ms, 10s, 2m.")
    ] = "10s",
    admin: Admin = DEFAULT_ADMIN,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a rule has been hit often enough. Exit code 1 when it was not in time."""
    timeout_ms = _duration_ms(timeout)
    state = _ask(admin, token, as_json, lambda client: client.wait_for_hits(name, hits, timeout_ms))
    reached = bool(state.get("reached"))
    if as_json:
        _print_json({"name": name, "hits": state.get("hits"), "wanted": hits, "reached": reached})
    else:
        verdict = "reached" if reached else f"not reached in {timeout}"
        typer.echo(f"{name}: {state.get('hits')} of {hits} hits, {verdict}")
    if not reached:
        raise typer.Exit(NEGATIVE)


@fault_app.command("kinds")
def kinds(as_json: AsJson = False) -> None:
    """List the kinds of fault there are. Needs no proxy."""
    found = catalogue.summaries()
    if as_json:
        _print_json(found)
    else:
        tables.print_kinds(found)


@fault_app.command("show")
def show(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="One of 'notleader fault kinds'.", autocompletion=completion.kinds)
    ],
    as_json: AsJson = False,
) -> None:
    """Say what a kind does and which fields it takes. Needs no proxy."""
    try:
        described = catalogue.describe(kind)
    except LookupError as error:
        _stop(WRONG_USE, [str(error.args[0])], as_json)
    if as_json:
        _print_json(described)
    else:
        tables.print_kind(described)


def _ask(
    admin: str,
    token: str | None,
    as_json: bool,
    question: Callable[[AdminClient], T],
    *,
    within: str = "",
    absent: int = WRONG_USE,
) -> T:
    """Put one question to the proxy; every way it can fail ends the program with a line and a code.

    `within` is where in the user's document the faults stood, `absent` the exit code when the name is unknown.
    """
    try:
        with AdminClient(admin, token) as client:
            return question(client)
    except RefusedError as refused:
        for problem in refused.document.get("problems", ()):
            problem["path"] = within + str(problem.get("path", ""))
        _stop(absent if refused.status == 404 else WRONG_USE, refused.lines(), as_json, refused.document)
    except (UnreachableError, ValueError) as error:
        _stop(WRONG_USE, [str(error)], as_json)


def _stop(code: int, lines: list[str], as_json: bool, document: dict[str, Any] | None = None) -> NoReturn:
    say_refused("\n".join(lines), as_json=as_json, document=document)
    raise typer.Exit(code)


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _duration_ms(text: str) -> int:
    try:
        value = parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from error
    if value > MAX_WAIT_MS:
        raise typer.BadParameter(f"{text} is more than an hour", param_hint="--timeout")
    return round(value)
