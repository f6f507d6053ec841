"""`/v1/timelines`: faults that come and go by time and by hits."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from faults.schema import FaultDocumentError
from faults.timeline import Timeline, parse_timeline
from proxy.admin import documents_api as documents
from proxy.admin.problems import Finding, Problem
from proxy.admin.target import ControlledProxy

MAX_STEPS: Final = 1000
_EXAMPLE: Final = {
    "steps": [
        {"at": "0s", "add": {"name": "no-leader", "kind": "error", "error_code": 6, "trigger": {"times": 4}}},
        {"after": {"fault": "no-leader", "hits": 4}, "remove": "no-leader"},
        {"at": "10s", "clear": True},
    ]
}
_STEP: Final[dict[str, Any]] = {
    "type": "object",
    "description": "When (`at` or `after`), and what (`add`, `remove` or `clear`).",
    "additionalProperties": False,
    "oneOf": [{"required": ["at"]}, {"required": ["after"]}],
    "anyOf": [{"required": ["add"]}, {"required": ["remove"]}, {"required": ["clear"]}],
    "properties": {
        "at": {
            "description": "How long after the start: seconds, or a text such as `1.5s`, `200ms`.",
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": "^[0-9]+([.][0-9]+)? ?(us|ms|s|m|min|h)$"},
            ],
        },
        "after": {
            "type": "object",
            "required": ["fault"],
            "additionalProperties": False,
            "properties": {
                "fault": {"type": "string", "minLength": 1},
                "hits": {"type": "integer", "minimum": 1},
            },
        },
        "add": {"$ref": "#/components/schemas/Fault"},
        "remove": {"type": "string", "minLength": 1},
        "clear": {"const": True},
    },
}
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
_STATE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The timeline that runs or ran last.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["running"],
                    "properties": {"running": {"type": "boolean"}, "steps": {"type": "integer"}},
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
        timeline = _parse(document)
        proxy.start_timeline(timeline)
        return JSONResponse(_document(timeline), status_code=201)

    @router.delete("/v1/timelines", status_code=204)
    async def stop_timeline() -> Response:
        """Take no more steps. The faults in force stay."""
        proxy.timeline = None
        return Response(status_code=204)

    return router


def _parse(document: Any) -> Timeline:
    steps = document.get("steps") if isinstance(document, dict) else document
    if not isinstance(steps, list) or not steps:
        raise _invalid([Finding("steps", "a list of steps is wanted")])
    if isinstance(document, dict) and (others := sorted(set(document) - {"steps"})):
        raise _invalid([Finding(name, "is not known: only 'steps' is") for name in others])
    if len(steps) > MAX_STEPS:
        raise _invalid([Finding("steps", f"has more than {MAX_STEPS} steps")])
    try:
        return parse_timeline(steps)
    except FaultDocumentError as error:
        raise _invalid([Finding(problem.path, problem.message) for problem in error.problems]) from error


def _document(timeline: Timeline | None) -> dict[str, Any]:
    if timeline is None:
        return {"running": False}
    return {"running": not timeline.finished, "steps": len(timeline.steps)}


def _invalid(findings: list[Finding]) -> Problem:
    return Problem(422, "invalid-timeline", "the timeline cannot be run", findings=findings)
