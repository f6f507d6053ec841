"""The HTTP API over a proxy in several processes: what an answer says holds in all of them."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from notleader.proxy.admin.problems import Problem

_GATHERED: Final = frozenset({"/metrics", "/v1/capture", "/v1/connections"})


@runtime_checkable
class Spread(Protocol):
    """A proxy in several processes."""

    async def settled(self) -> None:
        """Return once all processes have done what they were told so far. Raises OSError when one doesn't."""
        ...

    async def gather(self, *, connections: bool = False) -> None:
        """Have all processes say how it goes."""
        ...


class Settling:
    """Answers a change only once it is one everywhere, and a question with what all processes say."""

    def __init__(self, app: ASGIApp, proxy: Spread) -> None:
        self._app = app
        self._proxy = proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] in ("GET", "HEAD"):
            if scope["path"] in _GATHERED:
                await self._proxy.gather(connections=scope["path"] == "/v1/connections")
            await self._app(scope, receive, send)
        else:
            await self._settled(scope, receive, send)

    async def _settled(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem: Problem | None = None

        async def send_settled(message: Message) -> None:
            nonlocal problem
            if message["type"] == "http.response.start":
                try:
                    await self._proxy.settled()
                except OSError as error:
                    problem = Problem(503, "worker-lost", f"not in force everywhere: {error}")
                    await problem.response()(scope, receive, send)
            if problem is None:
                await send(message)

        await self._app(scope, receive, send_settled)
