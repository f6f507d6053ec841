"""Toxiproxy's API over real listeners: what keeps a proxy, what a refused change leaves, how clients write things."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from notleader.proxy.admin.toxics.engine import ToxicProxies, ToxicProxy
from notleader.proxy.admin.toxiproxy import ToxiproxyApi
from tests.integration.admin.test_toxics import echo, ping, rule

UPSTREAM = "127.0.0.1:9"


@pytest.fixture
async def proxies() -> AsyncIterator[ToxicProxies]:
    made = ToxicProxies(seed=7)
    yield made
    await made.stop()


@pytest.fixture
async def client(proxies: ToxicProxies) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(ToxiproxyApi(proxies)), base_url="http://localhost"
    ) as http:
        yield http


async def made(client: httpx.AsyncClient, name: str = "one", **given: object) -> dict[str, Any]:
    answer = await client.post("/proxies", json={"name": name, "upstream": UPSTREAM, **given})
    assert answer.status_code == 201
    document: dict[str, Any] = answer.json()
    return document


def port_of(document: dict[str, Any]) -> int:
    return int(document["listen"].rpartition(":")[2])


@pytest.mark.parametrize(
    ("listen", "again"), [("127.0.0.1:0", "localhost:{}"), (":0", "0.0.0.0:{}"), (":0", ":{}"), ("0.0.0.0:0", ":{}")]
)
async def test_populate_keeps_what_is_where_it_shall_be(
    client: httpx.AsyncClient, proxies: ToxicProxies, listen: str, again: str
) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    upstream = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    port = port_of(await made(client, listen=listen, upstream=upstream))
    assert (await client.post("/proxies/one/toxics", json={"type": "latency"})).status_code == 200
    streams = await asyncio.open_connection("127.0.0.1", port)
    await ping(streams)
    before = proxies.by_name["one"]
    wanted = {"name": "one", "listen": again.format(port), "upstream": upstream}
    kept = (await client.post("/populate", json=[wanted])).json()["proxies"][0]
    assert proxies.by_name["one"] is before
    assert [toxic["name"] for toxic in kept["toxics"]] == ["latency_downstream"]
    await ping(streams)
    streams[1].close()
    await client.patch("/proxies/one", json={"enabled": False})
    kept = (await client.post("/populate", json=[wanted])).json()["proxies"][0]
    assert kept["enabled"] is False
    server.close()


async def test_a_port_alone_is_every_address_of_both_ip_versions(client: httpx.AsyncClient) -> None:
    document = await made(client, listen=":0")
    for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
        _, writer = await asyncio.open_connection(host, port_of(document))
        writer.close()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("listen", ["127.0.0.1:{taken}", "nowhere.invalid:80", "no address", "192.0.2.1:{own}"])
async def test_a_change_that_is_refused_changes_nothing(client: httpx.AsyncClient, listen: str, enabled: bool) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    before = await made(client)
    await client.patch("/proxies/one", json={"enabled": enabled})
    where = listen.format(taken=taken.getsockname()[1], own=port_of(before))
    refused = await client.patch("/proxies/one", json={"listen": where, "enabled": True})
    taken.close()
    assert refused.status_code == 500
    assert (await client.get("/proxies/one")).json() == {**before, "enabled": enabled}
    assert (await client.post("/reset")).status_code == 204
    assert (await client.get("/proxies/one")).json() == before


async def test_no_listen_is_some_port(client: httpx.AsyncClient) -> None:
    await made(client)
    changed = await client.patch("/proxies/one", json={"listen": ""})
    assert changed.status_code == 200
    assert port_of(changed.json()) > 0
    assert (await client.post("/reset")).status_code == 204


async def test_reset_reaches_the_others_where_one_can_not_listen(client: httpx.AsyncClient) -> None:
    first = await made(client, "first")
    await made(client, "second")
    for name in ("first", "second"):
        await client.post(f"/proxies/{name}/toxics", json={"type": "noop"})
        await client.patch(f"/proxies/{name}", json={"enabled": False})
    with socket.create_server(("127.0.0.1", port_of(first))):
        assert (await client.post("/reset")).status_code == 500
    there = (await client.get("/proxies")).json()
    assert [there[name]["enabled"] for name in ("first", "second")] == [False, True]
    assert not there["first"]["toxics"]
    assert not there["second"]["toxics"]


async def test_keys_are_read_in_any_case_and_null_is_as_if_left_out(client: httpx.AsyncClient) -> None:
    answer = await client.post("/proxies", json={"Name": "one", "Upstream": UPSTREAM, "Listen": None, "Enabled": None})
    assert answer.json()["enabled"] is True
    toxic = {"Type": "latency", "Toxicity": None, "Attributes": {"Latency": 5, "jitter": None}}
    added = (await client.post("/proxies/one/toxics", json=toxic)).json()
    assert added["attributes"] == {"latency": 5, "jitter": 0}
    changed = await client.patch(
        "/proxies/one/toxics/latency_downstream", json={"toxicity": None, "attributes": {"jitter": 2}}
    )
    assert (changed.json()["toxicity"], changed.json()["attributes"]) == (1.0, {"latency": 5, "jitter": 2})


async def test_every_answer_has_a_number_of_its_own(client: httpx.AsyncClient) -> None:
    answers = [await client.get("/version"), await client.get("/proxies/none"), await client.get("/proxies")]
    assert len({answer.headers["x-toxiproxy-request-id"] for answer in answers}) == 3


async def test_a_noop_changes_nothing_that_passes() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxies = ToxicProxies()
    proxy = await proxies.add("echo", ":0", f"127.0.0.1:{server.sockets[0].getsockname()[1]}", True)
    assert isinstance(proxy, ToxicProxy)
    await proxy.add_toxic(rule("noop"))
    streams = await asyncio.open_connection("127.0.0.1", int(proxy.listen.rpartition(":")[2]))
    await ping(streams, b"x" * 100_000)
    streams[1].close()
    await proxies.stop()
    server.close()
