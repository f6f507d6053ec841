"""YAML as plain data; by libyaml, where PyYAML has it: a thousand rules take a tenth of the time."""

from __future__ import annotations

from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST: Final = 100
"""libyaml builds what is nested on the stack, and ends the process where that ends."""


def parse_yaml(text: str) -> Any:
    """What a document of YAML (or JSON) says, None for an empty one. Raises yaml.YAMLError."""
    try:
        _bound(text)
        return yaml.load(text, _LOADER)
    except ValueError as error:  # a date that is none, or half a character
        raise yaml.YAMLError(str(error)) from error


def _bound(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise yaml.MarkedYAMLError(problem=f"nested more than {_DEEPEST} deep", problem_mark=event.start_mark)  # type: ignore[arg-type]
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
