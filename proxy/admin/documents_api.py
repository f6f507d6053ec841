"""Request bodies of `/v1`: JSON in, faults or problems out, and what OpenAPI says about them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Final, NoReturn

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from notleader.faults.base import Fault
from notleader.faults.schema import FaultDocumentError, fault_json_schema, parse_fault_document
from notleader.faults.schema import parse_faults as parse_document_list
from notleader.faults.waiting import waits_in_vain
from notleader.proxy.admin.problems import Finding, Problem
from notleader.proxy.config.yaml_text import once_each

MAX_FAULTS_PER_REQUEST: Final = 1000
MAX_NAME_CHARS: Final = 255
_RESERVED_NAMES: Final = frozenset({"schema", ".", ".."})
_BAD_IN_NAME: Final = re.compile(r"[/\x00-\x1f\x7f]")
_EXAMPLE: Final = {
    "name": "slow-election",
    "kind": "error",
    "error_code": "NOT_LEADER_OR_FOLLOWER",
    "match": {"api_key": "Produce", "topic": "orders", "partition_index": 0},
    "trigger": {"times": 4},
}


class AlwaysJson:
    """ASGI middleware by which a body below `/v1` is JSON, whatever it says that it is: `curl -d` says a form."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
            scope = {**scope, "headers": [*others, (b"content-type", b"application/json")]}
        await self._app(scope, receive, send)


async def read_json(request: Request) -> Any:
    """The body as plain JSON data, whatever its content type says; Problem 400 when it is none."""
    body = await request.body()
    try:
        document = json.loads(body, parse_constant=_no_such_number, object_pairs_hook=once_each)
        # A lone surrogate is legal in JSON's syntax and in no text: it would fail later, in an answer.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Problem(400, "invalid-json", f"the body is no JSON: {error}") from error
    return document


def parse_faults(document: list[Any]) -> list[Fault]:
    """The faults of a list; Problem 422 with every finding when one is wrong."""
    if len(document) > MAX_FAULTS_PER_REQUEST:
        raise Problem(422, "too-many-faults", f"one request may add {MAX_FAULTS_PER_REQUEST} faults at most")
    try:
        faults = parse_document_list(document, path="")
    except FaultDocumentError as error:
        raise _refused(error) from error
    for position, fault in enumerate(faults):
        check_name(fault.name, f"[{position}].name")
    return faults


def parse_fault(document: Any) -> Fault:
    """One fault; Problem 422 with every finding when it is wrong."""
    try:
        fault = parse_fault_document(document)
    except FaultDocumentError as error:
        raise _refused(error) from error
    check_name(fault.name)
    return fault


def check_waiting(faults: list[Fault], known: Collection[str], *, many: bool) -> None:
    """Problem 422 for each that waits for a rule neither among them nor `known`; `many`: the body is a list."""
    found = waits_in_vain(faults, known=known, path="")
    if found:
        raise _invalid([Finding(each.path if many else each.path.removeprefix("[0]."), each.message) for each in found])


def check_name(name: str, path: str = "name") -> None:
    """Problem 422 for a name that no address under `/v1/faults/` can carry."""
    message = None
    if name in _RESERVED_NAMES:
        message = f"{name!r} is taken by the API itself"
    elif len(name) > MAX_NAME_CHARS:
        message = f"has more than {MAX_NAME_CHARS} characters"
    elif _BAD_IN_NAME.search(name):
        message = "has a slash or a control character"
    if message is not None:
        raise _invalid([Finding(path, message)])


def fault_schema() -> dict[str, Any]:
    """The JSON Schema of a fault document."""
    return fault_json_schema()


def components() -> tuple[dict[str, Any], dict[str, Any]]:
    """The fault's schema for OpenAPI: the `Fault` schema, and the named ones it refers to."""
    text = json.dumps(fault_schema()).replace("#/$defs/", "#/components/schemas/")
    schema: dict[str, Any] = json.loads(text)
    named = schema.pop("$defs", {})
    return schema, named


def request_body(*, one: bool, many: bool) -> dict[str, Any]:
    """OpenAPI's description of a body with one fault, a list of faults, or either."""
    reference = {"$ref": "#/components/schemas/Fault"}
    several = {"type": "array", "items": reference, "maxItems": MAX_FAULTS_PER_REQUEST}
    schema = {"oneOf": [reference, several]} if one and many else reference
    examples: dict[str, Any] = {"one fault": {"value": _EXAMPLE}}
    if many:
        examples["several"] = {"value": [_EXAMPLE, {"kind": "delay", "delay_ms": 200}]}
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "examples": examples}},
        }
    }


def _invalid(findings: list[Finding]) -> Problem:
    count = len(findings)
    detail = "the fault document has a problem" if count == 1 else f"the fault document has {count} problems"
    return Problem(422, "invalid-fault", detail, findings=findings)


def _refused(error: FaultDocumentError) -> Problem:
    return _invalid([Finding(problem.path, problem.message) for problem in error.problems])


def _no_such_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
