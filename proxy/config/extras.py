"""What is installed with an extra only, and the line that says which one is missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Literal

Extra = Literal["capture", "analysis", "lab", "explore", "otel"]
_BRINGS: Final[dict[Extra, tuple[str, str]]] = {
    "capture": ("Arrow", "pyarrow"),
    "analysis": ("Spark", "pyspark"),
    "lab": ("jgo", "jgo"),
    "explore": ("DuckDB", "duckdb"),
    "otel": ("OpenTelemetry", "opentelemetry"),
}


def install(extra: Extra) -> str:
    """The command that installs an extra."""
    return f"pip install 'notleader[{extra}]'"


def missing(who: str, extra: Extra) -> str | None:
    """One line on what ``who`` needs and how to install it; None where it is there."""
    what, module = _BRINGS[extra]
    return None if find_spec(module) is not None else f"{who} needs {what}: {install(extra)}"
