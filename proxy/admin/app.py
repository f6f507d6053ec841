"""The ASGI application of the control plane; every route is documented at `/openapi.json`."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from notleader.proxy.admin import (
    capture_api,
    dashboard,
    documents_api,
    elections_api,
    faults_api,
    timelines_api,
    traffic_api,
)
from notleader.proxy.admin.aside import aside
from notleader.proxy.admin.problems import MEDIA_TYPE, PROBLEM_SCHEMA, Finding, Problem
from notleader.proxy.admin.target import ControlledProxy
from notleader.proxy.admin.toxics.engine import ToxicProxies
from notleader.proxy.admin.toxiproxy import ToxiproxyApi

_METRICS_AGE_S: Final = 0.1
_METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})
Renderer = Callable[[str], tuple[Iterator[bytes], str]]
"""`exposition.render` of one proxy's metrics."""


def create_app(
    proxy: ControlledProxy,
    *,
    stopping: asyncio.Event | None = None,
    toxics: ToxicProxies | None = None,
) -> FastAPI:
    """The application over one proxy. `stopping` ends its streams; who passes `toxics` stops them too."""
    app = FastAPI(
        title="notleader",
        summary="Controls a Kafka proxy that lies on purpose.",
        version="1",
        openapi_url=None,  # `_document` has the route
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    stopping = stopping or asyncio.Event()
    routers = [
        faults_api.make_router(proxy, stopping),
        elections_api.make_router(proxy),
        timelines_api.make_router(proxy),
        traffic_api.make_router(proxy, stopping),
        capture_api.make_router(proxy),
    ]
    for router in routers:
        app.include_router(router)
    toxics = toxics or ToxicProxies(proxy.plan.seed, lambda: proxy, proxy.listeners)
    app.router.routes.extend(ToxiproxyApi(toxics).routes())
    app.add_middleware(documents_api.AlwaysJson)
    _install_problems(app, routers)
    _add_health(app, proxy)
    _add_metrics(app, proxy)
    dashboard.mount(app)
    _document(app)
    return app


def _add_health(app: FastAPI, proxy: ControlledProxy) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """The process lives and its event loop turns."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"], responses={503: {"description": "No broker is known yet."}})
    async def readyz() -> dict[str, str]:
        """The brokers are known, or want a login first."""
        if not proxy.ready:
            raise Problem(503, "not-ready", "no Kafka broker answers yet; the log says why")
        return {"status": "ready"}


def _add_metrics(app: FastAPI, proxy: ControlledProxy) -> None:
    rendered: dict[str, tuple[float, bytes, str]] = {}
    one_at_a_time = asyncio.Lock()
    made: list[Renderer] = []

    async def renderer() -> Renderer:
        if not made:  # a library that only who asks for metrics needs: loaded beside the loop
            made.append(await aside(_renderer, proxy))
        return made[0]

    @app.get(
        "/metrics",
        tags=["metrics"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics."}},
    )
    async def metrics(request: Request) -> Response:
        """The Prometheus exposition, at most a tenth of a second old."""
        # However often it is asked, the event loop that carries the traffic renders it ten times a second
        # at most, and never all of it in one turn.
        accept = request.headers.get("accept", "")
        kind = "application/openmetrics-text" if "application/openmetrics-text" in accept else ""
        async with one_at_a_time:
            made_at, body, content_type = rendered.get(kind, (-math.inf, b"", ""))
            if time.monotonic() - made_at > _METRICS_AGE_S:
                pieces, content_type = (await renderer())(kind)
                body = b""
                for piece in pieces:
                    body += piece
                    await asyncio.sleep(0)
                rendered[kind] = (time.monotonic(), body, content_type)
        return Response(body, headers={"Content-Type": content_type})


def _renderer(proxy: ControlledProxy) -> Renderer:
    from notleader.proxy.admin.exposition import make_registry, render

    return partial(render, make_registry(proxy))


def _install_problems(app: FastAPI, routers: list[APIRouter]) -> None:
    async def problem(_request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return error.response()

    async def invalid_request(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        findings = [Finding(_path(item["loc"]), str(item["msg"])) for item in error.errors()]
        is_json = not any(item["type"] == "json_invalid" for item in error.errors())
        if not is_json:
            return Problem(400, "invalid-json", "the body is no JSON", findings=findings).response()
        return Problem(422, "invalid-request", "the request is not as documented", findings=findings).response()

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods(app, routers, request.url.path))
        return Problem(error.status_code, "http", str(error.detail), headers=headers).response()

    async def bug(_request: Request, error: Exception) -> Response:
        return Problem(500, "internal", f"this is a bug in notleader: {type(error).__name__}").response()

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(RequestValidationError, invalid_request)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, bug)


def _methods(app: FastAPI, routers: list[APIRouter], path: str) -> list[str]:
    """Every method that some route has for this path; Starlette only says those of the first that fits."""
    routes = [*app.routes, *(route for router in routers for route in router.routes)]
    fitting = [route for route in routes if isinstance(route, Route) and route.path_regex.fullmatch(path)]
    # A path spelled out (`/v1/faults/schema`) is that resource, not also one of `/v1/faults/{name}`.
    exact = [route for route in fitting if route.path == path]
    return sorted({method for route in exact or fitting for method in route.methods or ()})


def _path(location: tuple[Any, ...] | list[Any]) -> str:
    """pydantic's location as a path: ("query", "hits") is `query.hits`, ("body", 0, "x") is `body[0].x`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _document(app: FastAPI) -> None:
    """Complete the generated OpenAPI: the fault's own schema, and problem documents for every error."""
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = generated()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        fault, named = documents_api.components()
        schemas.update({**named, "Fault": fault, "Problem": PROBLEM_SCHEMA})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path in document["paths"].values():
            for method, operation in path.items():
                if method in _METHODS:
                    _describe_errors(operation)
        return document

    app.openapi = openapi  # type: ignore[method-assign]

    one_at_a_time = asyncio.Lock()

    @app.get("/openapi.json", include_in_schema=False)
    async def described() -> JSONResponse:
        async with one_at_a_time:
            return JSONResponse(await aside(app.openapi))

    @app.get("/v1", include_in_schema=False)
    async def index() -> JSONResponse:
        return JSONResponse({"openapi": "/openapi.json"})


def _describe_errors(operation: dict[str, Any]) -> None:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses = operation["responses"]
    responses.pop("422", None)
    for status in [status for status in responses if status >= "400"]:
        responses[status]["content"] = content
    responses["4XX"] = {"description": "What was wrong, as a problem document.", "content": content}
