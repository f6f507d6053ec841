"""The Toxiproxy 2 HTTP API (`/proxies`, `/reset`, `/populate`, `/version`), so that its clients work unchanged.

Statuses, texts, types and defaults are Toxiproxy's, also where `/v1` does it otherwise. Where they are not on purpose:
docs/how-to/move-from-toxiproxy.md.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from notleader.proxy.admin.toxics.bodies import BodyError, first_value, items, take
from notleader.proxy.admin.toxics.engine import ToxicProxies, ToxicProxy
from notleader.proxy.admin.toxics.kafka import KafkaListener, KafkaToxicError, ToxicRule
from notleader.proxy.admin.toxics.requests import PROXY, WANTED, WrongFieldError, changed_toxic, new_toxic, wanted_proxy

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# Whose API this is: clients that look at it expect a Toxiproxy of that version.
VERSION: Final = "2.12.0"

PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "/version": ("GET",),
    "/reset": ("POST",),
    "/populate": ("POST",),
    "/proxies": ("GET", "POST"),
    "/proxies/{proxy}": ("GET", "PATCH", "POST", "DELETE"),
    "/proxies/{proxy}/toxics": ("GET", "POST"),
    "/proxies/{proxy}/toxics/{toxic}": ("GET", "PATCH", "POST", "DELETE"),
}

# Toxiproxy would listen on every address when none is given; one that nobody asked for stays local.
_ANYWHERE: Final = "127.0.0.1:0"
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
_JSON: Final = {"Content-Type": "application/json"}
_Proxy = ToxicProxy | KafkaListener
_Result = TypeVar("_Result")


class ToxiproxyError(Exception):
    """An error answer in Toxiproxy's form."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def document(self) -> dict[str, Any]:
        """`{"error": …, "status": …}`."""
        return {"error": str(self), "status": self.status}


def _exposed(metrics: CollectorRegistry) -> Response:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return Response(generate_latest(metrics), headers={"Content-Type": CONTENT_TYPE_LATEST})


class _Answer(NamedTuple):
    document: Any = None
    status: int = 200


class ToxiproxyApi:
    """An ASGI application over one collection of proxies, and the routes that lead to it in a larger one.

    With `metrics` it has `/metrics` too.
    """

    def __init__(self, proxies: ToxicProxies, metrics: CollectorRegistry | None = None) -> None:
        self._proxies = proxies
        self._metrics = metrics
        # Changes come one after the other, as a client that makes them from several threads expects.
        self._changing = asyncio.Lock()

    def routes(self) -> list[Route]:
        """For an application that has other paths too."""
        routes = [Route(path, self, methods=methods, include_in_schema=False) for path, methods in PATHS.items()]
        for route in routes:
            route.methods = set(PATHS[route.path])  # Starlette adds HEAD
        return routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        method, path = request.method, scope["path"].split("/")[1:]
        handle = self._handler(path)
        if self._metrics is not None and path == ["metrics"]:
            answer = _numbered(_exposed(self._metrics))
        elif handle is None:
            answer = Response("404 page not found\n", 404, _TEXT)
        elif method not in handle:
            answer = Response(status_code=405)
        elif _is_of_a_web_page(request):
            answer = _numbered(Response("User agent not allowed\n", 403, _TEXT))
        else:
            answer = _numbered(await self._answer(handle[method], path, await request.body()))
        await answer(scope, receive, send)

    def _handler(self, path: list[str]) -> Mapping[str, Callable[..., Awaitable[_Answer]]] | None:
        if path == ["version"]:
            return {"GET": self._version}
        if path == ["reset"]:
            return {"POST": self._reset}
        if path == ["populate"]:
            return {"POST": self._populate}
        if path == ["proxies"]:
            return {"GET": self._proxy_index, "POST": self._proxy_create}
        if path[0] != "proxies" or not all(path) or len(path) not in (2, 3, 4) or path[2:3] not in ([], ["toxics"]):
            return None
        if len(path) == 2:
            update = self._proxy_update
            return {"GET": self._proxy_show, "PATCH": update, "POST": update, "DELETE": self._proxy_delete}
        if len(path) == 3:
            return {"GET": self._toxic_index, "POST": self._toxic_create}
        change = self._toxic_update
        return {"GET": self._toxic_show, "PATCH": change, "POST": change, "DELETE": self._toxic_delete}

    async def _answer(self, handle: Callable[..., Awaitable[_Answer]], path: list[str], body: bytes) -> Response:
        try:
            async with self._changing:
                answer = await handle(*path[1::2], body=body)
        except (ToxiproxyError, BodyError, WrongFieldError) as error:
            refused = _refused(error)
            return Response(_written(refused.document()) + "\n", refused.status, _TEXT)
        if answer.status == 204:
            return Response(status_code=204)
        if handle == self._version:
            return Response(answer.document, headers={"Content-Type": "application/json;charset=utf-8"})
        return Response(_written(answer.document), answer.status, _JSON)

    async def _version(self, *, body: bytes) -> _Answer:
        return _Answer(f'{{"version": "{VERSION}"}}\n')

    async def _reset(self, *, body: bytes) -> _Answer:
        failed: ToxiproxyError | None = None
        for proxy in list(self._proxies.by_name.values()):
            for toxic in list(proxy.toxics):
                proxy.remove_toxic(toxic)
            try:
                await _listening(proxy.start())
            except ToxiproxyError as error:
                failed = error  # one that can't listen is no reason to leave the others as they are
        if failed is not None:
            raise failed
        return _Answer(status=204)

    async def populate(self, body: bytes) -> tuple[list[_Proxy], ToxiproxyError | None]:
        """Make the proxies of such a body, in order; those that are there by its end, and what ended it early."""
        made: list[_Proxy] = []
        try:
            documents = items(first_value(body), f"[]{WANTED}")
            wanted = [wanted_proxy(document, f" at proxy {number}") for number, document in enumerate(documents, 1)]
            for fields in wanted:
                proxy = await self._create_or_keep(fields)
                made.append(proxy)
        except (ToxiproxyError, BodyError, WrongFieldError) as error:
            return made, _refused(error)
        return made, None

    async def _populate(self, *, body: bytes) -> _Answer:
        made, failed = await self.populate(body)
        proxies = [proxy.document() for proxy in made] or None
        if failed is None:
            return _Answer({"proxies": proxies}, 201)
        return _Answer({**failed.document(), "proxies": proxies}, failed.status)

    async def _create_or_keep(self, fields: dict[str, Any]) -> _Proxy:
        existing = self._proxies.by_name.get(fields["name"])
        if existing is None:
            return await self._create(fields)
        listen, upstream = fields["listen"] or _ANYWHERE, fields["upstream"]
        if not await _listening(existing.is_at(listen, upstream)):
            if isinstance(existing, KafkaListener):
                raise ToxiproxyError(409, "proxy already exists")
            await _listening(existing.update(listen, upstream, fields["enabled"]))
            existing.clear()
        # What is where it shall be stays as it is, with its toxics and connections, switched on or off.
        await _reading_kafka(existing, fields["kafka"])
        return existing

    async def _create(self, fields: dict[str, Any]) -> ToxicProxy:
        if fields["name"] in self._proxies.by_name:
            raise ToxiproxyError(409, "proxy already exists")
        listen = fields["listen"] or _ANYWHERE
        try:
            proxy = await self._proxies.add(fields["name"], listen, fields["upstream"], fields["enabled"])
        except (OSError, ValueError) as error:
            raise ToxiproxyError(500, str(error)) from error
        await _reading_kafka(proxy, fields["kafka"])
        return proxy

    async def _proxy_index(self, *, body: bytes) -> _Answer:
        return _Answer({name: proxy.document() for name, proxy in sorted(self._proxies.by_name.items())})

    async def _proxy_create(self, *, body: bytes) -> _Answer:
        return _Answer((await self._create(wanted_proxy(first_value(body)))).document(), 201)

    async def _proxy_show(self, name: str, *, body: bytes) -> _Answer:
        return _Answer(self._proxy(name).document())

    async def _proxy_update(self, name: str, *, body: bytes) -> _Answer:
        proxy = self._proxy(name)
        current = {"name": name, "listen": proxy.listen, "upstream": proxy.upstream, "enabled": proxy.enabled}
        fields = {**current, "kafka": False, **take(first_value(body), PROXY, "toxiproxy.Proxy")}
        if not fields["upstream"]:
            raise ToxiproxyError(400, "missing required field: upstream")
        await _listening(proxy.update(fields["listen"] or _ANYWHERE, fields["upstream"], fields["enabled"]))
        await _reading_kafka(proxy, fields["kafka"])
        return _Answer(proxy.document())

    async def _proxy_delete(self, name: str, *, body: bytes) -> _Answer:
        await self._proxies.remove(self._proxy(name).name)
        return _Answer(status=204)

    async def _toxic_index(self, name: str, *, body: bytes) -> _Answer:
        return _Answer(self._proxy(name).document()["toxics"])

    async def _toxic_create(self, name: str, *, body: bytes) -> _Answer:
        proxy = self._proxy(name)
        rule = new_toxic(first_value(body), lambda toxic: proxy.toxic(toxic) is not None)
        await _in_force(proxy.add_toxic(rule))
        return _Answer(rule.document())

    async def _toxic_show(self, name: str, toxic: str, *, body: bytes) -> _Answer:
        return _Answer(self._toxic(self._proxy(name), toxic).document())

    async def _toxic_update(self, name: str, toxic: str, *, body: bytes) -> _Answer:
        proxy = self._proxy(name)
        rule = self._toxic(proxy, toxic)
        attributes, toxicity = changed_toxic(rule, first_value(body))
        await _in_force(proxy.update_toxic(rule, attributes, toxicity))
        return _Answer(rule.document())

    async def _toxic_delete(self, name: str, toxic: str, *, body: bytes) -> _Answer:
        proxy = self._proxy(name)
        proxy.remove_toxic(self._toxic(proxy, toxic))
        return _Answer(status=204)

    def _proxy(self, name: str) -> _Proxy:
        found = self._proxies.by_name.get(name)
        if found is None:
            raise ToxiproxyError(404, "proxy not found")
        return found

    def _toxic(self, proxy: _Proxy, name: str) -> ToxicRule:
        found = proxy.toxic(name)
        if found is None:
            raise ToxiproxyError(404, "toxic not found")
        return found


def _refused(error: ToxiproxyError | BodyError | WrongFieldError) -> ToxiproxyError:
    if isinstance(error, BodyError):
        return ToxiproxyError(400, f"bad request body: {error}")
    return error if isinstance(error, ToxiproxyError) else ToxiproxyError(error.status, str(error))


def _is_of_a_web_page(request: Request) -> bool:
    # Toxiproxy looks at the agent alone; a page can name another in some browsers, an Origin it can't leave out.
    return request.headers.get("user-agent", "").startswith("Mozilla/") or "origin" in request.headers


def _numbered(answer: Response) -> Response:
    answer.headers["X-Toxiproxy-Request-Id"] = uuid.uuid4().hex
    return answer


def _written(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


async def _listening(change: Coroutine[None, None, _Result]) -> _Result:
    try:
        return await change
    except (OSError, ValueError) as error:
        raise ToxiproxyError(500, str(error)) from error


async def _reading_kafka(proxy: _Proxy, wanted: bool) -> None:
    if wanted and isinstance(proxy, ToxicProxy):
        await _in_force(proxy.read_as_kafka())


async def _in_force(change: Coroutine[None, None, None]) -> None:
    try:
        await change
    except KafkaToxicError as error:
        raise _refused(BodyError(str(error))) from error
