"""Where the commands of `notleader` are, and `notleader` with nothing but the one that is asked for.

To import all others takes longer than most of them work.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import typer

WHERE: Final = {
    "run": "notleader.proxy.cli.run:run",
    "replay": "notleader.proxy.cli.replay:replay",
    "toxiproxy": "notleader.proxy.cli.toxiproxy:toxiproxy",
    "demo": "notleader.proxy.lab.cli:demo",
    "kafka": "notleader.proxy.lab.cli:kafka_app",
    "incident": "notleader.proxy.lab.incident_cli:incident_app",
    "matrix": "notleader.proxy.lab.matrix_cli:matrix",
    "explore": "notleader.proxy.lab.explore.cli:explore",
    "bisect": "notleader.proxy.lab.bisect.cli:bisect",
    "fault": "notleader.proxy.cli.fault:fault_app",
    "capture": "notleader.proxy.cli.capture:capture_app",
    "log": "notleader.proxy.brokerlog.cli:log_app",
    "wire": "notleader.proxy.cli.wire:app",
}
"""Module and name of each command, or group of them, in the order of the help."""


def put(app: typer.Typer, word: str) -> None:
    """Import that command, or group, and have it be one of the app's."""
    module, name = WHERE[word].split(":")
    found = getattr(import_module(module), name)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=word)
    else:
        app.command()(found)


def alone(word: str | None) -> typer.Typer | None:
    """The command with that one or group of them; None of what is no such word."""
    if word not in WHERE:
        return None
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    put(app, word)
    return app
