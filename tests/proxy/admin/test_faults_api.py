"""`/v1/faults`, asked over HTTP without sockets."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from notleader.faults.base import Fault
from notleader.faults.schema import parse_fault_document
from tests.proxy.admin.conftest import FakeProxy

CLOSE = {"name": "cut", "kind": "close", "match": {"api_key": "Produce"}, "trigger": {"times": 2}}


async def names(client: httpx.AsyncClient) -> list[str]:
    return [rule["name"] for rule in (await client.get("/v1/faults")).json()]


async def test_a_fault_is_added_shown_and_removed(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    made = await client.post("/v1/faults", json=CLOSE)
    assert made.status_code == 201
    assert made.headers["location"] == "/v1/faults/cut"
    assert made.json() == {
        **CLOSE,
        "phase": "before_broker",
        "hits": 0,
        "refused": 0,
        "enabled": True,
        "exhausted": False,
        "released": False,
    }
    assert (await client.get("/v1/faults/cut")).json() == made.json()
    assert (await client.get("/v1/faults")).json() == [made.json()]
    assert proxy.changes == 1
    assert (await client.delete("/v1/faults/cut")).status_code == 204
    assert await names(client) == []
    assert proxy.changes == 2


async def test_a_fault_is_switched_off_and_on(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    await client.post("/v1/faults", json=CLOSE)
    for enabled in (False, True):
        switched = await client.patch("/v1/faults/cut", json={"enabled": enabled})
        assert (switched.status_code, switched.json()["enabled"]) == (200, enabled)
        proxy.serve()
        assert (await client.get("/v1/faults/cut")).json()["hits"] == int(enabled)
    assert (await client.patch("/v1/faults/cut", json={"enabled": "no"})).status_code == 422
    assert (await client.patch("/v1/faults/other", json={"enabled": True})).status_code == 404


async def test_a_list_is_added_in_order_and_gets_names(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/faults", json=[{"kind": "close"}, CLOSE, {"kind": "close"}])
    assert made.status_code == 201
    assert [rule["name"] for rule in made.json()] == ["close-1", "cut", "close-2"]
    assert await names(client) == ["close-1", "cut", "close-2"]


async def test_documents_are_read_beside_the_loop_and_the_plan_changes_once(
    client: httpx.AsyncClient, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_by: set[int] = set()

    def noted(document: object, path: str = "") -> Fault:
        read_by.add(threading.get_ident())
        return parse_fault_document(document, path)

    monkeypatch.setattr("notleader.faults.schema.parse_fault_document", noted)
    monkeypatch.setattr("notleader.proxy.admin.documents_api.parse_fault_document", noted)
    generation = proxy.plan.generation
    assert (await client.post("/v1/faults", json=[{"kind": "close"}] * 30)).status_code == 201
    assert proxy.plan.generation == generation + 1
    assert (await client.post("/v1/faults", json=CLOSE)).status_code == 201
    assert (await client.put("/v1/faults/cut", json=CLOSE)).status_code == 200
    assert len(proxy.plan.rules()) == 31
    assert read_by
    assert threading.get_ident() not in read_by


async def test_one_bad_fault_refuses_the_whole_list_and_every_problem_is_named(
    client: httpx.AsyncClient, proxy: FakeProxy
) -> None:
    document = [CLOSE, {"kind": "clsoe"}, {"kind": "close", "trigger": {"times": 0}, "matsch": {}}]
    answer = await client.post("/v1/faults", json=document)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "urn:notleader:problem:invalid-fault"
    assert {"[1]", "[2]"} == {item["path"][:3] for item in problem["problems"]}
    paths = {item["path"] for item in problem["problems"]}
    assert any(path.endswith("trigger.times") for path in paths), paths
    assert any(path.endswith("matsch") for path in paths), paths
    assert await names(client) == []
    assert proxy.plan.rules() == []


async def test_a_name_that_is_taken_refuses_the_whole_list(client: httpx.AsyncClient) -> None:
    await client.post("/v1/faults", json=CLOSE)
    answer = await client.post("/v1/faults", json=[{"kind": "close", "name": "other"}, CLOSE])
    assert answer.status_code == 409
    assert answer.json()["problems"][0]["path"] == "[1].name"
    assert await names(client) == ["cut"]


async def test_a_generated_name_in_the_way_of_a_given_one_refuses_the_whole_list(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/v1/faults", json=[{"kind": "close"}, {"kind": "close", "name": "close-1"}])
    assert answer.status_code == 409
    assert await names(client) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff",
        b'{"kind": NaN}',
        b"[" * 100_000,
        b'{"kind": "\\ud800"}',
        b'{"kind": "close", "kind": "delay"}',
    ],
)
async def test_what_is_no_json_is_a_400_problem(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post("/v1/faults", content=body)
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:notleader:problem:invalid-json"


@pytest.mark.parametrize("document", [None, 3, "close", True, {}, {"kind": None}, {"kind": ["close"]}])
async def test_json_that_is_no_fault_is_a_422_problem(client: httpx.AsyncClient, document: Any) -> None:
    answer = await client.post("/v1/faults", content=json.dumps(document))
    assert answer.status_code == 422
    assert answer.json()["problems"]


async def test_an_empty_list_adds_nothing(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/faults", json=[])
    assert (answer.status_code, answer.json()) == (201, [])


@pytest.mark.parametrize("name", ["schema", "a/b", "..", "a\nb", "x" * 256])
async def test_a_name_no_address_can_carry_is_refused(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/v1/faults", json={"kind": "close", "name": name})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["path"] == "name"


@pytest.mark.parametrize("name", ["a b", "ä€", "100%", "a?b#c", "[0]"])
async def test_any_other_name_can_be_addressed(client: httpx.AsyncClient, name: str) -> None:
    made = await client.post("/v1/faults", json={"kind": "close", "name": name})
    assert made.status_code == 201
    assert (await client.get(made.headers["location"])).json()["name"] == name
    assert (await client.delete(made.headers["location"])).status_code == 204


async def test_put_adds_then_replaces_in_place_with_fresh_counters(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    assert (await client.put("/v1/faults/a", json={"kind": "close"})).status_code == 201
    await client.post("/v1/faults", json={"kind": "close", "name": "b"})
    proxy.serve()
    assert (await client.get("/v1/faults/a")).json()["hits"] == 1
    replaced = await client.put("/v1/faults/a", json={"kind": "close", "trigger": {"times": 9}})
    assert replaced.status_code == 200
    assert replaced.json()["hits"] == 0
    assert await names(client) == ["a", "b"]
    assert (await client.put("/v1/faults/a", json={"kind": "close", "name": "z"})).status_code == 422
    assert (await client.put("/v1/faults/schema", json={"kind": "close"})).status_code == 422


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/faults/no", "/v1/faults/no/wait", "/v1/faults/no/release"])
async def test_a_fault_that_does_not_exist_is_a_404_problem(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code in (404, 405)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_body_is_json_whatever_its_type_says(client: httpx.AsyncClient) -> None:
    await client.post("/v1/faults", json=CLOSE)
    as_curl_says = {"Content-Type": "application/x-www-form-urlencoded"}
    switched = await client.patch("/v1/faults/cut", content='{"enabled": false}', headers=as_curl_says)
    assert switched.status_code == 200
    assert switched.json()["enabled"] is False
    election = '{"topic": "orders", "partition_index": 0, "for_ms": 500}'
    assert "dictionary" not in (await client.post("/v1/elections", content=election, headers=as_curl_says)).text


async def test_clearing_removes_all(client: httpx.AsyncClient) -> None:
    await client.post("/v1/faults", json=[CLOSE, {"kind": "close"}])
    assert (await client.delete("/v1/faults")).status_code == 204
    assert await names(client) == []


async def test_release_lets_go(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    await client.post("/v1/faults", json=CLOSE)
    assert proxy.plan.is_held("cut")
    assert (await client.post("/v1/faults/cut/release")).json()["released"] is True
    assert not proxy.plan.is_held("cut")


class TestWait:
    async def test_it_answers_when_the_hits_come(self, client: httpx.AsyncClient, proxy: FakeProxy) -> None:
        await client.post("/v1/faults", json=CLOSE)
        waiting = asyncio.create_task(client.get("/v1/faults/cut/wait?hits=2&timeout_ms=5000"))
        proxy.serve()
        await asyncio.sleep(0.05)
        assert not waiting.done()
        proxy.serve()
        answer = await waiting
        assert answer.status_code == 200
        assert (answer.json()["hits"], answer.json()["reached"]) == (2, True)

    async def test_it_says_the_count_when_time_is_up(self, client: httpx.AsyncClient, proxy: FakeProxy) -> None:
        await client.post("/v1/faults", json=CLOSE)
        proxy.serve()
        answer = await client.get("/v1/faults/cut/wait?hits=2&timeout_ms=30")
        assert answer.status_code == 408
        assert (answer.json()["hits"], answer.json()["reached"]) == (1, False)

    async def test_a_rule_that_is_removed_meanwhile_ends_it(self, client: httpx.AsyncClient) -> None:
        await client.post("/v1/faults", json=CLOSE)
        waiting = asyncio.create_task(client.get("/v1/faults/cut/wait"))
        await asyncio.sleep(0.01)
        await client.delete("/v1/faults/cut")
        assert (await waiting).status_code == 404

    @pytest.mark.parametrize("query", ["hits=0", "hits=x", "timeout_ms=-1", "hits=1e3", "timeout_ms=99999999999"])
    async def test_a_senseless_question_is_a_422_problem(self, client: httpx.AsyncClient, query: str) -> None:
        await client.post("/v1/faults", json=CLOSE)
        answer = await client.get(f"/v1/faults/cut/wait?{query}")
        assert answer.status_code == 422
        assert answer.json()["problems"][0]["path"].startswith("query.")


async def test_the_schema_names_every_kind(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/faults/schema")
    assert answer.headers["content-type"].startswith("application/schema+json")
    assert '"leader_election"' in answer.text


async def test_a_rule_waits_only_for_one_that_is_there(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    waiting = {"kind": "refuse", "trigger": {"after_fault": "cut"}}
    for method, address, body, path in (
        ("POST", "/v1/faults", waiting, "trigger.after_fault"),
        ("POST", "/v1/faults", [{"kind": "close"}, waiting], "[1].trigger.after_fault"),
        ("PUT", "/v1/faults/gone", waiting, "trigger.after_fault"),
        ("POST", "/v1/timelines", [{"at": 0, "add": waiting}], "steps[0].add.trigger.after_fault"),
    ):
        answer = await client.request(method, address, json=body)
        assert answer.status_code == 422, address
        assert [item["path"] for item in answer.json()["problems"]] == [path]
    assert proxy.plan.rules() == []
    assert (await client.post("/v1/faults", json=[waiting, CLOSE])).status_code == 201
    assert (await client.post("/v1/faults", json=waiting)).status_code == 201
    assert (await client.post("/v1/timelines", json=[{"at": 9, "add": waiting}])).status_code == 201
