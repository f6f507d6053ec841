"""Each kind, in each of its phases and choices, has a script and a test before a real broker: read off the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from notleader.faults.base import Fault

_TESTS = Path(__file__).parents[1]
_SCRIPTS = tuple(sorted((_TESTS / "faults").glob("test_*.py")))
_REAL = tuple(
    path
    for folder in ("faults", "proxy")
    for path in sorted((_TESTS / "integration" / folder).glob("*.py"))
    if "pytest.mark.kafka" in path.read_text("utf-8") or path.name == "firewalled.py"
)
_NOT_A_CHOICE = frozenset({"kind", "distribution"})


def choices(kind: str) -> Iterator[tuple[str, str]]:
    """The fields of a kind that take one of some words, each with each word."""
    for name, field in Fault.kinds[kind].model_fields.items():
        if name not in _NOT_A_CHOICE:
            forms = (field.annotation, *get_args(field.annotation))
            words = {word for form in forms if get_origin(form) is Literal for word in get_args(form)}
            yield from ((name, word) for word in sorted(words) if len(words) > 1)


@cache
def documents(paths: tuple[Path, ...]) -> list[dict[str, Any]]:
    """Every fault that tests write down: keyword arguments or mappings with a `kind`, values that aren't plain as sets.

    A name is looked up among the parameters that its test is given, and a set holds all that it may be.
    """
    found = []
    for path in paths:
        tree = ast.parse(path.read_text("utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            given = _parameters(function)
            if not function.name.startswith("test_") and not _asserts(function):
                continue
            found += [document for node in ast.walk(function) if (document := _document(node, given))]
        module = ast.Module([node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)], [])
        found += [document for node in ast.walk(module) if (document := _document(node, {}))]
    return found


def _asserts(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(function))


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, set[Any]]:
    given: dict[str, set[Any]] = {}
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize":
            names = [name.value for name in ast.walk(decorator.args[0]) if isinstance(name, ast.Constant)]
            values = {value.value for value in ast.walk(decorator.args[1]) if isinstance(value, ast.Constant)}
            given |= dict.fromkeys(names, values)
    return given


def _document(node: ast.AST, given: dict[str, set[Any]]) -> dict[str, Any] | None:
    if isinstance(node, ast.Call):
        pairs = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    elif isinstance(node, ast.Dict):
        pairs = {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    else:
        return None
    document = {name: _values(value, given) for name, value in pairs.items()}
    return document if document.get("kind") else None


def _values(node: ast.expr, given: dict[str, set[Any]]) -> set[Any]:
    if isinstance(node, ast.Constant):
        return {node.value}
    return given.get(node.id, set()) if isinstance(node, ast.Name) else set()


def written(paths: tuple[Path, ...], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents(paths) if kind in document["kind"]]


@pytest.mark.parametrize("kind", sorted(Fault.kinds))
@pytest.mark.parametrize("paths", [_SCRIPTS, _REAL], ids=["script", "real"])
def test_a_kind_has_a_test(paths: tuple[Path, ...], kind: str) -> None:
    assert written(paths, kind)


@pytest.mark.parametrize("kind", sorted(Fault.kinds))
@pytest.mark.parametrize("paths", [_SCRIPTS, _REAL], ids=["script", "real"])
def test_a_kind_is_tested_in_each_of_its_phases_and_choices(paths: tuple[Path, ...], kind: str) -> None:
    model = Fault.kinds[kind]
    missing = [
        f"{name}: {word}"
        for name, word in choices(kind)
        if not any(word in document.get(name, {model.model_fields[name].default}) for document in written(paths, kind))
    ]
    assert not missing
