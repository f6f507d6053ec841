"""Fault documents as people hand them over: a file, standard input, or JSON on the command line."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from notleader.proxy.config.yaml_text import once_each, parse_yaml

_JSON_BEGINS: Final = re.compile(r"[\s{\[]*(\"|$)")


class UnreadableDocumentError(ValueError):
    """The document cannot be read or is neither YAML nor JSON; the text is one line."""


class FaultSource(NamedTuple):
    """Faults as plain data, where in the document they stood ("" or "faults"), and what else was beside them."""

    faults: Any
    path: str
    others: tuple[str, ...]


def read_document(argument: str) -> Any:
    """The YAML or JSON behind FILE, `-` (standard input) or inline JSON (or YAML, `kind: error`), as plain data.

    Raises UnreadableDocumentError.
    """
    text = argument.lstrip()
    if text.startswith(("{", "[")):
        return _parse_inline(text)
    if "\n" in text or (": " in text and not Path(argument).exists()):
        return _parse_yaml(text, "the YAML on the command line")
    name = "standard input" if argument == "-" else argument
    try:
        content = sys.stdin.read() if argument == "-" else Path(argument).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableDocumentError(f"{name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UnreadableDocumentError(f"{name}: is not UTF-8 text") from error
    return _parse_yaml(content, name)


def faults_of(document: Any) -> FaultSource:
    """The faults of a single fault, a list of faults, or a document with `faults:`.

    Raises UnreadableDocumentError when there are none.
    """
    if isinstance(document, dict) and "kind" not in document and "faults" in document:
        others = tuple(str(key) for key in document if key != "faults")
        return FaultSource(document["faults"] or [], "faults", others)
    if isinstance(document, (dict, list)):
        return FaultSource(document, "", ())
    raise UnreadableDocumentError("a fault, a list of faults or a document with 'faults:' is wanted")


def _parse_yaml(text: str, name: str) -> Any:
    try:
        return parse_yaml(text)
    except yaml.YAMLError as error:
        raise UnreadableDocumentError(f"{name}: is neither YAML nor JSON: {_one_line(error)}") from error


def _parse_inline(text: str) -> Any:
    """JSON, or else YAML, whose `{kind: close}` begins the same way; what is neither is told as a mistake in the one
    that it looks like.
    """
    try:
        return json.loads(text, object_pairs_hook=once_each)
    except (ValueError, RecursionError) as error:
        wrong_json = error
    try:
        return parse_yaml(text)
    except yaml.YAMLError as error:
        if _JSON_BEGINS.match(text):
            raise UnreadableDocumentError(f"the JSON on the command line: {_one_line(wrong_json)}") from wrong_json
        raise UnreadableDocumentError(
            f"what is on the command line is neither JSON nor YAML: {_one_line(error)}"
        ) from error


def _one_line(error: BaseException) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem} (line {mark.line + 1}, column {mark.column + 1})"
    return " ".join(str(error).split())
