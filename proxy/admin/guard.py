"""Who may drive the proxy: not a web page, not a stranger on the network, and nobody with a huge body.

Loopback is no protection from the user's own browser: any page may send requests to 127.0.0.1, and a page
whose name is re-pointed to 127.0.0.1 (DNS rebinding) may read the answers too. So the Host header must name
this server, an Origin header must be this server's own, and Sec-Fetch-Site (W3C Fetch Metadata) may name no other page.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from notleader.proxy.admin.problems import Problem
from notleader.proxy.wire.endpoint import is_loopback, is_wildcard

BODY_LIMIT_BYTES: Final = 1 << 20
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def _opens_dashboard(scope: Scope, headers: Headers) -> bool:
    """Whether somebody follows a link to the dashboard: its page does nothing by being opened."""
    goes_there = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return goes_there and scope["method"] == "GET" and scope["path"] == "/"


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to listen beyond loopback without a token.

    Raises ValueError with a line that says what to do.
    """
    if not token and not is_loopback(host):
        raise ValueError(
            f"the admin address {host} can be reached from other machines: set a token "
            "(--admin-token), or listen on 127.0.0.1"
        )


class Guard:
    """ASGI middleware that lets through only what may drive the proxy, with its body already read.

    `listen_host` is the configured address; `hosts` are further names under which clients may call it. A
    server on a wildcard address is called by names that nobody can list; it has a token (`check_exposure`),
    which a rebound web page cannot know, so there the Host is not looked at. With `any_host` it is nowhere: for an
    application that takes no request of a web page at all.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        listen_host: str = "127.0.0.1",
        hosts: Iterable[str] = (),
        token: str | None = None,
        any_host: bool = False,
        body_limit_bytes: int = BODY_LIMIT_BYTES,
    ) -> None:
        self._app = app
        self._hosts = {_bare(host) for host in (listen_host, *hosts)}
        self._any_host = any_host or (bool(token) and is_wildcard(listen_host))
        self._token = token.encode() if token else None
        self._body_limit_bytes = body_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._admit(scope)
            if scope["method"] in _BODY_METHODS:
                receive = await self._read_body(Headers(scope=scope), receive)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._knows_host(host):
            raise Problem(
                403, "foreign-host", f"the Host header {host!r} does not name this server: call it by its address"
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope.get('scheme', 'http')}://{host}".lower():
            raise Problem(403, "foreign-origin", f"requests of the web page {origin!r} are refused")
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and not _opens_dashboard(scope, headers):
            # A browser sends no Origin with what a page fetches without wanting to read it (no-cors), but it says this.
            raise Problem(403, "foreign-origin", f"requests of another web page ({site}) are refused")
        if self._token is not None and scope["path"] not in _OPEN_PATHS:
            given = _credential(headers.get("authorization", ""))
            if given is None or not hmac.compare_digest(given, self._token):
                # Basic lets a browser ask for the token, and Toxiproxy's clients carry it in their URL.
                wants = "this server wants its token" if given is None else "that is not this server's token"
                raise Problem(
                    401,
                    "unauthorized",
                    f"{wants}: 'Authorization: Bearer TOKEN', or the token as password",
                    headers={"WWW-Authenticate": 'Basic realm="notleader", Bearer realm="notleader"'},
                )

    def _knows_host(self, host_header: str) -> bool:
        if self._any_host:
            return True
        name = _bare(_without_port(host_header))
        return bool(name) and (is_loopback(name) or name in self._hosts)

    async def _read_body(self, headers: Headers, receive: Receive) -> Receive:
        """Read the whole body within the limit and hand it on as one message."""
        too_large = Problem(413, "body-too-large", f"a body may have {self._body_limit_bytes} bytes at most")
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._body_limit_bytes:
            raise too_large
        body = bytearray()
        first: Message | None = None
        while first is None:
            message = await receive()
            if message["type"] != "http.request":
                first = message
                break
            body += message.get("body", b"")
            if len(body) > self._body_limit_bytes:
                raise too_large
            if not message.get("more_body", False):
                first = {"type": "http.request", "body": bytes(body), "more_body": False}

        async def replay() -> Message:
            nonlocal first
            if first is not None:
                message, first = first, None
                return message
            return await receive()

        return replay


def _bare(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _without_port(host_header: str) -> str:
    if host_header.startswith("["):
        return host_header.partition("]")[0]
    return host_header.partition(":")[0]


def _credential(authorization: str) -> bytes | None:
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value.encode("latin-1", "replace")
    if scheme.lower() == "basic":
        try:
            _, _, password = base64.b64decode(value, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            return None
        return password
    return None
