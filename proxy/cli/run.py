"""``notleader run`` as Typer sees it: what each flag is called, takes and says in the help."""

import inspect
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import PydanticUndefined

from notleader.proxy.control.flags import Flag, RunOptions, flags
from notleader.proxy.control.serving import serve

_UNITS = {"s": "SECONDS", "ms": "MS", "bytes": "BYTES"}
_PANELS = {
    "admin": "HTTP API, traces and logs",
    "traces": "HTTP API, traces and logs",
    "log": "HTTP API, traces and logs",
    "capture": "Recording",
    "tls": "TLS",
    "relay": "Authentication where the proxy relays",
}
_METAVARS = {
    "kafka": "HOST:PORT[,…]",
    "listen": "HOST:PORT",
    "admin": "HOST:PORT",
    "admin_token": "TOKEN",
    "admin_hosts": "NAME[,…]",
    "traces": "URL",
    "broker_ports": "PORT[,…]",
    "advertise": "HOST",
    "capture": "DIR|URL",
    "capture_level": "LEVEL",
    "capture_redact": "RULE[,…]",
    "capture_spool": "DIR",
    "relay_sasl_mechanism": "MECHANISM",
}


def option(flag: Flag) -> inspect.Parameter:
    """The command line's view of one setting; absent unless the user names it."""
    is_switch = flag.kind is bool
    annotation = Annotated[
        flag.kind | None,  # type: ignore[name-defined]
        typer.Option(
            f"{flag.spelled}/{flag.spelled_off}" if is_switch else flag.spelled,
            help=f"{flag.field.description}{_default(flag.field.default)}",
            show_default=False,
            metavar=_metavar(flag),
            rich_help_panel="Switches" if is_switch else _PANELS.get(flag.name.partition("_")[0], "Proxy"),
        ),
    ]
    return inspect.Parameter(flag.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _default(value: object) -> str:
    if value in (PydanticUndefined, None, "", False):
        return ""
    if value is True:
        return " Default: yes."
    if isinstance(value, float):
        value = f"{value:g}"
    if isinstance(value, int) and value >= 1 << 20:
        return f" Default: {value} ({value >> 20} MiB)."
    return f" Default: {value}."


def _metavar(flag: Flag) -> str:
    """What to write after a flag: nothing, a unit, choices, or the kind of thing that is named."""
    if flag.kind is bool:
        return ""
    if flag.name in _METAVARS:
        return _METAVARS[flag.name]
    for kind in flag.kinds:
        if isinstance(kind, type) and issubclass(kind, Enum):
            return "|".join(member.value for member in kind)
    if Path in flag.kinds:
        return "FILE"
    unit = flag.name.rpartition("_")[2]
    return _UNITS.get(unit, "N" if flag.kind is int else "NAME")


def run(**options: Any) -> None:
    """Put the proxy in front of a Kafka cluster and serve until SIGINT or SIGTERM.

    Every flag is also an environment variable (NOTLEADER_KAFKA, NOTLEADER_LISTEN, …) and a key of the
    --config file, which also takes `faults:` and `steps:`. SIGHUP, or a change of that file, has it read again.
    SIGUSR1 finishes the segment of the capture at hand.

    Example: notleader run --kafka localhost:9092 --listen localhost:19092 --config faults.yaml
    """
    as_json, file, verbose = options.pop("json"), options.pop("config"), options.pop("verbose")
    settings = {name: value for name, value in options.items() if value is not None}
    raise typer.Exit(serve(RunOptions(settings, file, as_json, verbose)))


run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *map(option, flags()),
        inspect.Parameter(
            "config",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Path | None, typer.Option("--config", metavar="FILE", help="YAML file with these settings.")
            ],
        ),
        inspect.Parameter(
            "json",
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option("--json", help="Print one JSON line when ready.")],
        ),
        inspect.Parameter(
            "verbose",
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")],
        ),
    ]
)
