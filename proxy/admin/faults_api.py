"""`/v1/faults`: the rules in force, and waiting for what they do."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response

from notleader.faults.base import Fault
from notleader.faults.plan import Rule
from notleader.faults.timeline import Add
from notleader.proxy.admin import documents_api as documents
from notleader.proxy.admin.aside import aside
from notleader.proxy.admin.problems import Finding, Problem, not_found
from notleader.proxy.admin.target import ControlledProxy

MAX_WAIT_MS: Final = 3_600_000
MAX_FAULTS_PER_REQUEST: Final = 1000
MAX_RULES: Final = 10_000
_POLL_S: Final = 0.005
_RULES_PER_TURN: Final = 50

Name = Annotated[str, Path(min_length=1, max_length=255, description="The rule's name.")]


class Switch(BaseModel):
    """Whether a rule may strike."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"enabled": False}]})

    enabled: bool


_RULE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A fault document, and what has become of it.",
    "required": ["name", "kind", "hits", "refused", "enabled", "exhausted", "released"],
    "properties": {
        "name": {"type": "string", "examples": ["slow-election"]},
        "kind": {"type": "string", "examples": ["error"]},
        "hits": {"type": "integer", "description": "How often it struck."},
        "refused": {"type": "integer", "description": "How often it meant an exchange and could do nothing to it."},
        "enabled": {"type": "boolean", "description": "It may strike; PATCH switches it off and on."},
        "exhausted": {"type": "boolean", "description": "It cannot strike any more."},
        "released": {"type": "boolean", "description": "What it held was let go."},
    },
    "additionalProperties": True,
}


def rule_document(rule: Rule) -> dict[str, Any]:
    """A rule as `/v1` shows it: its fault document with its `hits` and its state beside."""
    return {
        **rule.fault.model_dump(mode="json", exclude_unset=True),
        "name": rule.name,
        "kind": rule.fault.kind,
        "phase": rule.fault.phase,
        "hits": rule.hits,
        "refused": rule.refused,
        "enabled": rule.is_on,
        "exhausted": rule.is_exhausted,
        "released": rule.released,
    }


def make_router(proxy: ControlledProxy, stopping: asyncio.Event) -> APIRouter:
    """The routes over one proxy; waiting ends when `stopping` is set."""
    router = APIRouter(tags=["faults"])

    @router.get("/v1/faults", responses=_answers(200, "Every rule, in the order they are asked.", many=True))
    async def list_faults() -> Response:
        """List the rules with their hits."""
        told = []
        for number, rule in enumerate(list(proxy.plan.rules()), 1):
            told.append(rule_document(rule))
            if number % _RULES_PER_TURN == 0:
                await asyncio.sleep(0)  # the traffic's turn
        return JSONResponse(told)

    @router.post(
        "/v1/faults",
        status_code=201,
        responses=_answers(201, "The rule, or the list of rules, as they are now in force.", either=True),
        openapi_extra=documents.request_body(one=True, many=True),
    )
    async def add_faults(request: Request) -> Response:
        """Add one fault or a list of them. One that is wrong refuses them all."""
        document = await documents.read_json(request)
        if isinstance(document, list):
            faults = await aside(documents.parse_faults, document)
            documents.check_waiting(faults, _known(proxy), many=True)
            added = _add_all(proxy, faults)
            return JSONResponse([rule_document(rule) for rule in added], status_code=201)
        fault = await aside(documents.parse_fault, document)
        documents.check_waiting([fault], _known(proxy), many=False)
        (rule,) = _add_all(proxy, [fault])
        return JSONResponse(
            rule_document(rule),
            status_code=201,
            headers={"Location": f"/v1/faults/{quote(rule.name, safe='')}"},
        )

    @router.delete("/v1/faults", status_code=204)
    async def clear_faults() -> Response:
        """Remove every rule and end every election; what they hold is let go."""
        proxy.plan.clear()
        proxy.plan_changed()
        return Response(status_code=204)

    @router.get(
        "/v1/faults/schema",
        responses={
            200: {
                "description": "The JSON Schema of a fault.",
                "content": {"application/schema+json": {"schema": {"type": "object"}}},
            }
        },
    )
    async def fault_schema() -> Response:
        """The JSON Schema that fault documents follow."""
        return JSONResponse(await aside(documents.fault_schema), media_type="application/schema+json")

    @router.get("/v1/faults/{name}", responses=_answers(200, "The rule."))
    async def get_fault(name: Name) -> Response:
        """One rule with its hits."""
        return JSONResponse(rule_document(_rule(proxy, name)))

    @router.put(
        "/v1/faults/{name}",
        responses={**_answers(200, "The rule in place of the former."), **_answers(201, "The new rule.")},
        openapi_extra=documents.request_body(one=True, many=False),
    )
    async def put_fault(name: Name, request: Request) -> Response:
        """Replace a rule at its place in the order, or add it; its counters start at zero."""
        fault = await aside(documents.parse_fault, await documents.read_json(request))
        if fault.name not in ("", name):
            raise Problem(
                422,
                "name-differs",
                f"the document is named {fault.name!r}, the address {name!r}",
                findings=[Finding("name", "differs from the name in the address")],
            )
        fault = fault.model_copy(update={"name": name})
        documents.check_waiting([fault], _known(proxy), many=False)
        existed = _find(proxy, name) is not None
        if not existed:
            documents.check_name(name)
            _check_room(proxy, 1)
        rule = proxy.plan.replace(name, fault, proxy.now_us())
        proxy.plan_changed()
        return JSONResponse(rule_document(rule), status_code=200 if existed else 201)

    @router.patch("/v1/faults/{name}", responses=_answers(200, "The rule."))
    async def switch_fault(name: Name, wanted: Switch) -> Response:
        """Switch a rule off or on: it keeps its place and its counters, but not what it holds."""
        rule = _rule(proxy, name)
        proxy.plan.switch(name, wanted.enabled)
        proxy.plan_changed()
        return JSONResponse(rule_document(rule))

    @router.delete("/v1/faults/{name}", status_code=204)
    async def remove_fault(name: Name) -> Response:
        """Remove a rule; what it holds is let go."""
        _rule(proxy, name)
        proxy.plan.remove(name)
        proxy.plan_changed()
        return Response(status_code=204)

    @router.post("/v1/faults/{name}/release", responses=_answers(200, "The rule."))
    async def release_fault(name: Name) -> Response:
        """Let go what the rule holds; it holds nothing more until it is replaced."""
        rule = _rule(proxy, name)
        proxy.plan.release(name)
        proxy.plan_changed()
        return JSONResponse(rule_document(rule))

    @router.get(
        "/v1/faults/{name}/wait",
        responses={
            **_answers(200, "The rule has been hit that often; `reached` is true."),
            408: {"description": "It was not, in time; the problem document has `hits`."},
        },
    )
    async def wait_for_hits(
        name: Name,
        hits: Annotated[int, Query(ge=1, le=2**53)] = 1,
        timeout_ms: Annotated[int, Query(ge=0, le=MAX_WAIT_MS)] = 10_000,
    ) -> Response:
        """Wait until a rule has been hit so many times."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        # Polled: the data path must not pay for a waiter that is hardly ever there.
        while (rule := _rule(proxy, name)).hits < hits:
            if stopping.is_set():
                raise Problem(503, "stopping", "the proxy stops")
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise Problem(
                    408,
                    "hits-not-reached",
                    f"{name!r} has {rule.hits} of {hits} hits after {timeout_ms} ms",
                    extra={"name": name, "hits": rule.hits, "wanted": hits, "reached": False},
                )
            await asyncio.sleep(min(_POLL_S, left_s))
        return JSONResponse({**rule_document(rule), "wanted": hits, "reached": True})

    return router


def _add_all(proxy: ControlledProxy, faults: list[Fault]) -> list[Rule]:
    """Put all faults in force, or none: Problem 409 names each name that is taken."""
    _check_room(proxy, len(faults))
    seen: set[str] = set()
    taken: list[Finding] = []
    for position, fault in enumerate(faults):
        if fault.name and (fault.name in seen or _find(proxy, fault.name) is not None):
            where = f"[{position}].name" if len(faults) > 1 else "name"
            taken.append(Finding(where, f"a rule named {fault.name!r} is already in force"))
        seen.add(fault.name)
    if taken:
        raise Problem(409, "name-taken", taken[0].message, findings=taken)
    now_us = proxy.now_us()
    added: list[Rule] = []
    try:
        with proxy.plan.together():
            for fault in faults:
                added.append(proxy.plan.add(fault, now_us))  # noqa: PERF401  (those before one that fails count)
    except ValueError as error:
        with proxy.plan.together():
            for rule in added:
                proxy.plan.remove(rule.name)
        raise Problem(409, "name-taken", str(error)) from error
    finally:
        proxy.plan_changed()
    return added


def _check_room(proxy: ControlledProxy, more: int) -> None:
    if len(proxy.plan.rules()) + more > MAX_RULES:
        raise Problem(409, "too-many-rules", f"a proxy holds {MAX_RULES} rules at most: remove some first")


def _known(proxy: ControlledProxy) -> set[str]:
    """The names of the rules in force, and of those that the timeline adds."""
    steps = proxy.timeline.steps if proxy.timeline is not None else ()
    to_come = {each.fault.name for step in steps for each in step.operations if isinstance(each, Add)}
    return {rule.name for rule in proxy.plan.rules()} | to_come


def _find(proxy: ControlledProxy, name: str) -> Rule | None:
    try:
        return proxy.plan.get(name)
    except KeyError:
        return None


def _rule(proxy: ControlledProxy, name: str) -> Rule:
    rule = _find(proxy, name)
    if rule is None:
        raise not_found("fault", name)
    return rule


def _answers(
    status: int, description: str, *, many: bool = False, either: bool = False
) -> dict[int | str, dict[str, Any]]:
    several = {"type": "array", "items": _RULE_SCHEMA}
    schema = {"oneOf": [_RULE_SCHEMA, several]} if either else several if many else _RULE_SCHEMA
    return {status: {"description": description, "content": {"application/json": {"schema": schema}}}}
