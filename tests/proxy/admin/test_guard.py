"""The guard, driven as an ASGI application by httpx."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from notleader.proxy.admin.guard import Guard, check_exposure
from notleader.proxy.wire.endpoint import is_loopback


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(f"{scope['method']} {len(body)}")(scope, receive, send)


async def ask(
    guard: Guard, method: str = "GET", path: str = "/v1/faults", host: str = "127.0.0.1:8474", **options: Any
) -> httpx.Response:
    headers = {"Host": host, **options.pop("headers", {})}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://x") as client:
        return await client.request(method, path, headers=headers, **options)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8474", "127.9.9.9", "localhost:8474", "LOCALHOST", "a.localhost", "[::1]:8474", "kafka-7"]
)
async def test_a_host_that_names_this_machine_passes(host: str) -> None:
    assert (await ask(Guard(echo, hosts=["kafka-7"]), host=host)).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8474", "127.0.0.1.evil.example", "", "10.0.0.7:8474", "localhost.evil", "[::2]"]
)
async def test_a_rebound_host_is_refused_with_a_problem(host: str) -> None:
    answer = await ask(Guard(echo), host=host)
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:notleader:problem:foreign-host"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8474", "http://127.0.0.1:9999", "http://127.0.0.1"]
)
async def test_a_foreign_web_page_is_refused_even_for_reading(origin: str) -> None:
    answer = await ask(Guard(echo), headers={"Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:notleader:problem:foreign-origin"


async def test_the_dashboards_own_origin_passes() -> None:
    answer = await ask(Guard(echo), "POST", headers={"Origin": "http://127.0.0.1:8474"}, content=b"{}")
    assert answer.text == "POST 2"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode", ["no-cors", "navigate"])
async def test_what_another_page_fetches_without_an_origin_is_refused(site: str, mode: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": "document"}
    answer = await ask(Guard(echo), path="/v1/exchanges?filter=x", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:notleader:problem:foreign-origin")
    opened = await ask(Guard(echo), path="/", headers=headers)
    assert opened.status_code == (200 if mode == "navigate" else 403)


@pytest.mark.parametrize("site", ["none", "same-origin"])
async def test_the_address_bar_and_the_dashboard_itself_pass(site: str) -> None:
    assert (await ask(Guard(echo), path="/v1/faults", headers={"Sec-Fetch-Site": site})).status_code == 200


class TestToken:
    guard = Guard(echo, token="s3cret")

    async def test_nothing_passes_without_it(self) -> None:
        answer = await ask(self.guard)
        assert answer.status_code == 401
        assert answer.json()["detail"].startswith("this server wants its token")
        # Basic first: Chromium asks nobody for a password when another scheme leads.
        assert answer.headers["www-authenticate"].startswith("Basic")

    @pytest.mark.parametrize("path", ["/healthz", "/readyz"])
    async def test_health_needs_none(self, path: str) -> None:
        assert (await ask(self.guard, path=path)).status_code == 200

    @pytest.mark.parametrize("path", ["/", "/metrics", "/healthz/", "//healthz", "/v1/exchanges", "/proxies"])
    async def test_everything_else_does(self, path: str) -> None:
        assert (await ask(self.guard, path=path)).status_code == 401

    @pytest.mark.parametrize(
        "authorization",
        ["Bearer wrong", "Bearer s3cre", "Bearer s3crett", "s3cret", "Basic !!!", "Basic czNjcmV0", "Bearer s\xe9cret"],
    )
    async def test_a_wrong_one_is_refused(self, authorization: str) -> None:
        headers = {"Authorization": authorization.encode("latin-1")}
        assert (await ask(self.guard, headers=headers)).status_code == 401

    async def test_who_gave_a_wrong_one_is_told_so(self) -> None:
        answer = await ask(self.guard, headers={"Authorization": b"Bearer wrong"})
        assert answer.json()["detail"].startswith("that is not this server's token")

    async def test_as_bearer_it_passes(self) -> None:
        assert (await ask(self.guard, headers={"Authorization": "bearer s3cret"})).status_code == 200

    async def test_as_the_password_of_a_url_it_passes(self) -> None:
        basic = base64.b64encode(b"anyone:s3cret").decode()
        assert (await ask(self.guard, headers={"Authorization": f"Basic {basic}"})).status_code == 200

    async def test_a_wildcard_listener_is_called_by_any_name(self) -> None:
        guard = Guard(echo, listen_host="0.0.0.0", token="s3cret")
        headers = {"Authorization": "Bearer s3cret"}
        assert (await ask(guard, host="proxy.svc:8474", headers=headers)).status_code == 200
        assert (await ask(guard, host="proxy.svc:8474")).status_code == 401


class TestBody:
    guard = Guard(echo, body_limit_bytes=1000)

    async def test_one_at_the_limit_passes_whole(self) -> None:
        assert (await ask(self.guard, "POST", content=b"x" * 1000)).text == "POST 1000"

    async def test_a_declared_length_beyond_it_is_refused_unread(self) -> None:
        assert (await ask(self.guard, "POST", content=b"x" * 1001)).status_code == 413

    async def test_a_chunked_one_beyond_it_is_refused(self) -> None:
        async def chunks() -> Any:
            for _ in range(11):
                yield b"x" * 100

        assert (await ask(self.guard, "PUT", content=chunks())).status_code == 413


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", ""])
def test_the_network_needs_one(host: str) -> None:
    check_exposure(host, "s3cret")
    for token in (None, ""):
        with pytest.raises(ValueError, match="--admin-token"):
            check_exposure(host, token)
