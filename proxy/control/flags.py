"""The flags of ``notleader run``: one for each setting that can be on a command line, and three of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from pydantic.fields import FieldInfo

from notleader.proxy.config.settings import Settings

_FILE_ONLY: Final = {"faults", "steps"}
_PLAIN_TYPES: Final = (int, float, bool)


class RunOptions(NamedTuple):
    """What a command line asks for: the settings it names, the file with others, and how to speak."""

    settings: dict[str, Any]
    config: Path | None = None
    as_json: bool = False
    verbose: bool = False


class Flag(NamedTuple):
    """One setting on a command line: ``--capture-rotate-s``, and ``--no-…`` beside it where it is a ``bool``."""

    name: str
    field: FieldInfo

    @property
    def kinds(self) -> tuple[Any, ...]:
        """What the setting may be, None included."""
        return get_args(self.field.annotation) or (self.field.annotation,)

    @property
    def kind(self) -> type:
        """What its text is read as; whatever is more than a number, the settings read themselves."""
        return next((kind for kind in _PLAIN_TYPES if kind in self.kinds), str)

    @property
    def spelled(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def spelled_off(self) -> str:
        return "--no" + self.spelled[1:]


def flags() -> Iterator[Flag]:
    """All that a command line can set, in the settings' order."""
    for name, field in Settings.model_fields.items():
        if name not in _FILE_ONLY:
            yield Flag(name, field)


def read(arguments: Sequence[str]) -> RunOptions | None:
    """What these arguments ask for; None where there is something to say about them: help, or a mistake.

    ``proxy.run_cli`` reads the same and says it. But Typer would stay in memory for as long as the proxy lives.
    """
    switches = {"--json": ("json", True), "--verbose": ("verbose", True), "-v": ("verbose", True)}
    takes: dict[str, tuple[str, Callable[[str], Any]]] = {"--config": ("config", Path)}
    for flag in flags():
        if flag.kind is bool:
            switches |= {flag.spelled: (flag.name, True), flag.spelled_off: (flag.name, False)}
        else:
            takes[flag.spelled] = flag.name, flag.kind
    found: dict[str, Any] = {}
    left = iter(arguments)
    for argument in left:
        spelled, has_value, value = argument.partition("=")
        if argument in switches:
            name, found[name] = switches[argument]
        elif spelled in takes and (has_value or not (value := next(left, "-")).startswith("-")):
            name, kind = takes[spelled]
            try:
                found[name] = kind(value)
            except ValueError:
                return None
        else:
            return None
    config, as_json, verbose = found.pop("config", None), found.pop("json", False), found.pop("verbose", False)
    return RunOptions(found, config, as_json, verbose)
