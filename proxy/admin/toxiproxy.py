"""The Toxiproxy 2 HTTP API (`/proxies`, `/reset`, `/populate`, `/version`), so that its clients work unchanged.

Statuses, messages and defaults are Toxiproxy's, also where `/v1` does it otherwise.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, PlainTextResponse, Response

from notleader.faults.base import Fault
from notleader.proxy.admin.toxics.connection import STREAMS
from notleader.proxy.admin.toxics.engine import ToxicProxies, ToxicProxy
from notleader.proxy.admin.toxics.kafka import PREFIX, KafkaListener, KafkaToxicError, ToxicRule
from notleader.proxy.admin.toxics.kinds import KINDS

# The API level that is spoken, and by whom: clients that parse it see a semantic version.
VERSION: Final = "2.12.0+notleader"


# Toxiproxy would listen on every address when none is given; one that nobody asked for stays local.
_ANYWHERE: Final = "127.0.0.1:0"
_Result = TypeVar("_Result")


class ToxiproxyError(Exception):
    """An error answer in Toxiproxy's form."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def document(self) -> dict[str, Any]:
        """`{"error": …, "status": …}`."""
        return {"error": str(self), "status": self.status}


class _BrowserError(Exception):
    """A request that a web page may have made."""


async def toxiproxy_error(_request: Request, error: Exception) -> Response:
    """The exception handler that the application installs for `ToxiproxyError`."""
    assert isinstance(error, ToxiproxyError)
    return JSONResponse(error.document(), status_code=error.status)


async def browser_refused(_request: Request, _error: Exception) -> Response:
    """The exception handler for requests with a browser's user agent."""
    return PlainTextResponse("User agent not allowed\n", status_code=403)


def error_handlers() -> dict[type[Exception], Any]:
    """What the application has to install for this router."""
    return {ToxiproxyError: toxiproxy_error, _BrowserError: browser_refused}


class _Numbered(APIRoute):
    """Every answer has an X-Toxiproxy-Request-Id of its own."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def numbered(request: Request) -> Response:
            try:
                answer = await handle(request)
            except ToxiproxyError as error:
                answer = await toxiproxy_error(request, error)
            answer.headers["X-Toxiproxy-Request-Id"] = uuid.uuid4().hex
            return answer

        return numbered


async def _no_browsers(request: Request) -> None:
    if request.headers.get("user-agent", "").startswith("Mozilla/"):
        raise _BrowserError


def make_router(proxies: ToxicProxies) -> APIRouter:
    """The routes over one collection of proxies."""
    router = APIRouter(
        tags=["toxiproxy"], include_in_schema=False, dependencies=[Depends(_no_browsers)], route_class=_Numbered
    )

    @router.get("/version")
    async def version() -> Response:
        return JSONResponse({"version": VERSION})

    @router.get("/proxies")
    async def list_proxies() -> Response:
        return JSONResponse({name: proxy.document() for name, proxy in sorted(proxies.by_name.items())})

    @router.post("/proxies")
    async def create_proxy(request: Request) -> Response:
        fields = _object(await _json(request))
        proxy = await _create(proxies, _proxy_fields(fields, {"listen": "", "enabled": True}))
        return JSONResponse(proxy.document(), status_code=201)

    @router.post("/populate")
    async def populate(request: Request) -> Response:
        wanted = _wanted_proxies(await _json(request))
        made = [await _create_or_keep(proxies, fields) for fields in wanted]
        return JSONResponse({"proxies": [proxy.document() for proxy in made]}, status_code=201)

    @router.post("/reset")
    async def reset() -> Response:
        failed: ToxiproxyError | None = None
        for proxy in list(proxies.by_name.values()):
            for toxic in list(proxy.toxics):
                proxy.remove_toxic(toxic)
            try:
                await _listening(proxy.start())
            except ToxiproxyError as error:
                failed = error  # one that can't listen is no reason to leave the others as they are
        if failed is not None:
            raise failed
        return Response(status_code=204)

    @router.get("/proxies/{proxy}")
    async def show_proxy(proxy: str) -> Response:
        return JSONResponse(_proxy(proxies, proxy).document())

    @router.api_route("/proxies/{proxy}", methods=["PATCH", "POST"])
    async def update_proxy(proxy: str, request: Request) -> Response:
        found = _proxy(proxies, proxy)
        current = {"listen": found.listen, "upstream": found.upstream, "enabled": found.enabled}
        fields = _proxy_fields({"name": found.name, **current, **_object(await _json(request))}, current)
        await _listening(found.update(fields["listen"] or _ANYWHERE, fields["upstream"], fields["enabled"]))
        return JSONResponse(found.document())

    @router.delete("/proxies/{proxy}")
    async def delete_proxy(proxy: str) -> Response:
        await proxies.remove(_proxy(proxies, proxy).name)
        return Response(status_code=204)

    @router.get("/proxies/{proxy}/toxics")
    async def list_toxics(proxy: str) -> Response:
        return JSONResponse(_proxy(proxies, proxy).document()["toxics"])

    @router.post("/proxies/{proxy}/toxics")
    async def create_toxic(proxy: str, request: Request) -> Response:
        found = _proxy(proxies, proxy)
        rule = _new_toxic(_object(await _json(request)))
        if found.toxic(rule.name) is not None:
            raise ToxiproxyError(409, "toxic already exists")
        await _in_force(found.add_toxic(rule))
        return JSONResponse(rule.document())

    @router.get("/proxies/{proxy}/toxics/{toxic}")
    async def show_toxic(proxy: str, toxic: str) -> Response:
        return JSONResponse(_toxic(_proxy(proxies, proxy), toxic).document())

    @router.api_route("/proxies/{proxy}/toxics/{toxic}", methods=["PATCH", "POST"])
    async def update_toxic(proxy: str, toxic: str, request: Request) -> Response:
        found = _proxy(proxies, proxy)
        rule = _toxic(found, toxic)
        fields = _object(await _json(request))
        attributes = _attributes(rule.type, rule.attributes, fields.get("attributes"))
        toxicity = _toxicity(rule.toxicity if fields.get("toxicity") is None else fields["toxicity"])
        await _in_force(found.update_toxic(rule, attributes, toxicity))
        return JSONResponse(rule.document())

    @router.delete("/proxies/{proxy}/toxics/{toxic}")
    async def delete_toxic(proxy: str, toxic: str) -> Response:
        found = _proxy(proxies, proxy)
        found.remove_toxic(_toxic(found, toxic))
        return Response(status_code=204)

    return router


async def _create(proxies: ToxicProxies, fields: dict[str, Any]) -> ToxicProxy:
    if fields["name"] in proxies.by_name:
        raise ToxiproxyError(409, "proxy already exists")
    try:
        return await proxies.add(fields["name"], fields["listen"] or _ANYWHERE, fields["upstream"], fields["enabled"])
    except (OSError, ValueError) as error:
        raise ToxiproxyError(500, str(error)) from error


async def _create_or_keep(proxies: ToxicProxies, fields: dict[str, Any]) -> ToxicProxy | KafkaListener:
    existing = proxies.by_name.get(fields["name"])
    if existing is None:
        return await _create(proxies, fields)
    listen, upstream = fields["listen"] or _ANYWHERE, fields["upstream"]
    if not await _listening(existing.is_at(listen, upstream)):
        if isinstance(existing, KafkaListener):
            raise ToxiproxyError(409, "proxy already exists")
        await _listening(existing.update(listen, upstream, fields["enabled"]))
        existing.clear()
    # What is where it shall be stays as it is, with its toxics and connections, switched on or off.
    return existing


def _wanted_proxies(document: Any) -> list[dict[str, Any]]:
    """Every proxy of a populate request, checked before the first is made."""
    if not isinstance(document, list):
        raise _bad_body("a JSON array of proxies is wanted")
    wanted: list[dict[str, Any]] = []
    for number, item in enumerate(document, 1):
        fields = _proxy_fields(_object(item), {"listen": "", "enabled": True}, f" at proxy {number}")
        if any(other["name"] == fields["name"] for other in wanted):
            raise ToxiproxyError(500, f'duplicate proxy name "{fields["name"]}"')
        wanted.append(fields)
    return wanted


async def _listening(change: Coroutine[None, None, _Result]) -> _Result:
    try:
        return await change
    except (OSError, ValueError) as error:
        raise ToxiproxyError(500, str(error)) from error


async def _in_force(change: Coroutine[None, None, None]) -> None:
    try:
        await change
    except KafkaToxicError as error:
        raise _bad_body(str(error)) from error


def _proxy_fields(fields: dict[str, Any], defaults: dict[str, Any], where: str = "") -> dict[str, Any]:
    found = {"name": "", "upstream": "", **defaults}
    found.update({key: fields[key] for key in found if fields.get(key) is not None})
    for key in ("name", "listen", "upstream"):
        if not isinstance(found[key], str):
            raise _bad_body(f"{key} has to be a string")
    if not isinstance(found["enabled"], bool):
        raise _bad_body("enabled has to be true or false")
    for key in ("name", "upstream"):
        if not found[key]:
            raise ToxiproxyError(400, f"missing required field: {key}{where}")
    return found


def _new_toxic(fields: dict[str, Any]) -> ToxicRule:
    kind = fields.get("type") or ""
    stream = fields.get("stream") or "downstream"
    name = fields.get("name") or f"{kind}_{stream}"
    for key, value in (("type", kind), ("stream", stream), ("name", name)):
        if not isinstance(value, str):
            raise _bad_body(f"{key} has to be a string")
    if stream.lower() not in STREAMS:
        raise ToxiproxyError(400, "stream was invalid, can be either upstream or downstream")
    if kind not in KINDS and not (kind.startswith(PREFIX) and kind.removeprefix(PREFIX) in Fault.kinds):
        raise ToxiproxyError(400, "invalid toxic type")
    defaults = KINDS[kind].defaults if kind in KINDS else {}
    attributes = _attributes(kind, defaults, fields.get("attributes"))
    toxicity = fields.get("toxicity")
    direction = STREAMS[0] if stream.lower() == STREAMS[0] else STREAMS[1]
    return ToxicRule(name, kind, direction, _toxicity(1.0 if toxicity is None else toxicity), attributes)


def _attributes(kind: str, current: dict[str, Any], given: Any) -> dict[str, Any]:
    """`current` with what is given of it; attributes the toxic does not have are ignored, as Toxiproxy does.

    Those of a Kafka fault are its fields, and looked at as such when it is put in force.
    """
    if given is None:
        return dict(current)
    if kind not in KINDS:
        return {**current, **_object(given)}
    attributes = dict(current)
    for key, value in _object(given).items():
        if key not in KINDS[kind].defaults or value is None:
            continue
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            value = int(value)  # JavaScript and Lua write integers so
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**53:
            raise _bad_body(f"attribute {key} has to be an integer")
        attributes[key] = value
    return attributes


def _toxicity(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _bad_body("toxicity has to be a number")
    return float(value)


def _proxy(proxies: ToxicProxies, name: str) -> ToxicProxy | KafkaListener:
    found = proxies.by_name.get(name)
    if found is None:
        raise ToxiproxyError(404, "proxy not found")
    return found


def _toxic(proxy: ToxicProxy | KafkaListener, name: str) -> ToxicRule:
    found = proxy.toxic(name)
    if found is None:
        raise ToxiproxyError(404, "toxic not found")
    return found


async def _json(request: Request) -> Any:
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise _bad_body(str(error)) from error


def _object(value: Any) -> dict[str, Any]:
    """A JSON object by its keys in lower case: Go, whose clients people have, reads them so."""
    if not isinstance(value, dict):
        raise _bad_body("a JSON object is wanted")
    return {key.lower(): item for key, item in value.items()}


def _bad_body(message: str) -> ToxiproxyError:
    return ToxiproxyError(400, f"bad request body: {message}")
