"""`/v1/timelines`: faults that come and go by time and by hits; `/v1/incidents`: those that come with notleader."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from notleader.faults.schema import FaultDocumentError
from notleader.faults.timeline import Add, Clear, Operation, Remove, Step, Timeline, parse_timeline, step_json_schema
from notleader.faults.waiting import waits_in_vain
from notleader.proxy.admin import documents_api as documents
from notleader.proxy.admin.aside import aside
from notleader.proxy.admin.problems import Finding, Problem
from notleader.proxy.admin.target import ControlledProxy
from notleader.proxy.config.yaml_text import parse_yaml

MAX_STEPS: Final = 1000
_EXAMPLE: Final = {
    "steps": [
        {"at": "0s", "add": {"name": "no-leader", "kind": "error", "error_code": 6, "trigger": {"times": 4}}},
        {"after": {"fault": "no-leader", "hits": 4}, "remove": "no-leader"},
        {"at": "10s", "clear": True},
    ]
}
_STEP: Final = step_json_schema({"$ref": "#/components/schemas/Fault"})
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["steps"],
                    "additionalProperties": False,
                    "properties": {"steps": {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": _STEP}},
                },
                "examples": {"an election that ends": {"value": _EXAMPLE}},
            }
        },
    }
}
_INCIDENT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name", "title", "story", "links", "steps"],
    "properties": {
        "name": {"type": "string", "examples": ["sarama-hang"]},
        "title": {"type": "string"},
        "story": {"type": "string"},
        "links": {"type": "array", "items": {"type": "string"}},
        "steps": {"type": "array", "items": _STEP},
    },
}
_STEP_STATE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["when", "what", "done"],
    "properties": {
        "when": {"type": "string", "examples": ["at 1.5 s", "after 4 hits of no-leader"]},
        "what": {"type": "string", "examples": ["add no-leader (error)", "remove no-leader", "clear"]},
        "done": {"type": "boolean"},
    },
}
_STATE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The timeline that runs or ran last.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["running"],
                    "properties": {
                        "running": {"type": "boolean"},
                        "steps": {"type": "integer"},
                        "timeline": {"type": "array", "items": _STEP_STATE},
                    },
                    "additionalProperties": True,
                }
            }
        },
    }
}


def make_router(proxy: ControlledProxy) -> APIRouter:
    """The routes over one proxy, which runs one timeline at a time."""
    router = APIRouter(tags=["timelines"])

    @router.get("/v1/timelines", responses=_STATE)
    async def show_timeline() -> Response:
        """The timeline that runs or ran last."""
        return JSONResponse(_document(proxy.timeline))

    @router.post("/v1/timelines", status_code=201, openapi_extra=_BODY, responses={201: _STATE[200]})
    async def start_timeline(request: Request) -> Response:
        """Run steps from now on, in place of the timeline before. The faults in force stay."""
        document = await documents.read_json(request)
        known = {rule.name for rule in proxy.plan.rules()}
        timeline = await aside(_parse, document, known)
        proxy.start_timeline(timeline)
        return JSONResponse(_document(timeline), status_code=201)

    @router.delete("/v1/timelines", status_code=204)
    async def stop_timeline() -> Response:
        """Take no more steps. The faults in force stay."""
        proxy.timeline = None
        return Response(status_code=204)

    @router.get(
        "/v1/incidents",
        responses={
            200: {
                "description": "Each with its story, and its faults as the `steps` of a timeline.",
                "content": {"application/json": {"schema": {"type": "array", "items": _INCIDENT}}},
            }
        },
    )
    async def list_incidents() -> Response:
        """What happened to others: POST the `steps` of one, as they are or changed, to `/v1/timelines`."""
        return JSONResponse(_incidents())

    return router


@cache
def _incidents() -> list[dict[str, Any]]:
    """The incident files of the package, their rules from the start on as a first step."""
    found: list[dict[str, Any]] = []
    kept = {"faults", "steps"}
    for file in sorted(Path(str(files("notleader.faults"))).joinpath("incidents").glob("*.yaml")):
        document = parse_yaml(file.read_text("utf-8"))
        # Some incidents differ by run: the first is the one in which it happens.
        source: dict[str, Any] = next((one for one in (document, *document.get("runs", ())) if one.keys() & kept), {})
        steps = [{"at": "0s", "add": fault} for fault in source.get("faults") or ()] + (source.get("steps") or [])
        if steps:
            found.append({"name": document["name"], "title": document["title"], "story": document["story"].strip()})
            found[-1] |= {"links": document.get("links", []), "steps": steps}
    return found


def _parse(document: Any, known: Collection[str]) -> Timeline:
    steps = document.get("steps") if isinstance(document, dict) else document
    if not isinstance(steps, list) or not steps:
        raise _invalid([Finding("steps", "a list of steps is wanted")])
    if isinstance(document, dict) and (others := sorted(set(document) - {"steps"})):
        raise _invalid([Finding(name, "is not known: only 'steps' is") for name in others])
    if len(steps) > MAX_STEPS:
        raise _invalid([Finding("steps", f"has more than {MAX_STEPS} steps")])
    if found := waits_in_vain((), steps, known=known):
        raise _invalid([Finding(problem.path, problem.message) for problem in found])
    try:
        return parse_timeline(steps)
    except FaultDocumentError as error:
        raise _invalid([Finding(problem.path, problem.message) for problem in error.problems]) from error


def _document(timeline: Timeline | None) -> dict[str, Any]:
    if timeline is None:
        return {"running": False}
    left = {id(step) for step in timeline.left}
    steps = [
        {"when": _when(step), "what": ", ".join(map(_what, step.operations)), "done": id(step) not in left}
        for step in timeline.steps
    ]
    return {"running": not timeline.finished, "steps": len(steps), "timeline": steps}


def _when(step: Step) -> str:
    if step.at_ms is not None:
        return f"at {step.at_ms / 1000:g} s"
    return f"after {step.hits} {'hit' if step.hits == 1 else 'hits'} of {step.after_fault}"


def _what(operation: Operation) -> str:
    match operation:
        case Add(fault):
            return f"add {fault.name} ({fault.kind})" if fault.name else f"add {fault.kind}"
        case Remove(name):
            return f"remove {name}"
        case Clear():
            return "clear"


def _invalid(findings: list[Finding]) -> Problem:
    return Problem(422, "invalid-timeline", "the timeline cannot be run", findings=findings)
