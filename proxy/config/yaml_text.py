"""YAML as plain data; by libyaml, where PyYAML has it: a thousand rules take a tenth of the time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE: Final = "tag:yaml.org,2002:merge"
_DEEPEST: Final = 100
"""libyaml builds what is nested on the stack, and ends the process where that ends."""


def parse_yaml(text: str) -> Any:
    """What a document of YAML (or JSON) says, None for an empty one. Raises yaml.YAMLError.

    A key that a mapping has twice is refused, as YAML 1.2 (3.2.1.3) has it: the second would replace the first unsaid.
    """
    try:
        _bound(text)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _refuse_doubles(node, "", set())
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except ValueError as error:  # a date that is none, or half a character
        raise yaml.YAMLError(str(error)) from error


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The same for JSON, as the `object_pairs_hook` of its parser: a key that an object has twice is a ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"{twice!r} is said twice in one object")
    return found


def lines_of(text: str) -> Callable[[str], int | None]:
    """The line, from 1, where a document says what a path (`faults[2].match.api_key`) names, or the nearest around it.

    None where it says nothing of the first part of the path, or can't be read.
    """
    try:
        _bound(text)
        document = yaml.compose(text, _LOADER)
    except (yaml.YAMLError, ValueError):
        document = None
    return partial(_line_in, document)


def _line_in(node: yaml.Node | None, path: str) -> int | None:
    line = None
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _refuse_doubles(node: yaml.Node, path: str, seen: set[int]) -> None:
    if id(node) in seen:  # what an alias names is looked at where it stands
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            _refuse_doubles(value, f"{path}[{position}]", seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            place = path
            if isinstance(key, yaml.ScalarNode):
                place = f"{path}.{key.value}" if path else key.value
                first = lines.get((key.tag, key.value))
                if first is not None and key.tag != _MERGE:
                    problem = f"{place} is said twice, in line {first} and in line {line}"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                lines[key.tag, key.value] = line
            _refuse_doubles(value, place, seen)


def _bound(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise yaml.MarkedYAMLError(problem=f"nested more than {_DEEPEST} deep", problem_mark=event.start_mark)  # type: ignore[arg-type]
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
