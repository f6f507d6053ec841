"""Kafka faults over Toxiproxy's API: the Kafka listeners as its proxies, the rule's fields as attributes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.proxy.admin.conftest import FakeProxy

REFUSALS = {
    "type": "kafka_error",
    "attributes": {"error_code": "NOT_LEADER_OR_FOLLOWER", "match": {"topic": "orders"}, "trigger": {"times": 4}},
}


async def add(client: httpx.AsyncClient, toxic: dict[str, Any], proxy: str = "bootstrap") -> httpx.Response:
    return await client.post(f"/proxies/{proxy}/toxics", json=toxic)


async def test_the_kafka_listeners_are_proxies(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/proxies")).json()
    assert set(listed) == {"bootstrap", "broker-1", "broker-2"}
    assert listed["bootstrap"] == {
        "name": "bootstrap",
        "listen": "127.0.0.1:19092",
        "upstream": "kafka:9092",
        "enabled": True,
        "toxics": [],
    }


async def test_a_kafka_fault_is_a_toxic_of_its_listener(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    made = await add(client, REFUSALS)
    assert made.status_code == 200
    assert made.json() == {**REFUSALS, "name": "kafka_error_downstream", "stream": "downstream", "toxicity": 1.0}
    (rule,) = (await client.get("/v1/faults")).json()
    assert rule["name"] == "bootstrap.kafka_error_downstream"
    assert rule["match"] == {"topic": "orders", "listener": "bootstrap"}
    assert rule["trigger"] == {"times": 4}
    assert (await client.get("/proxies/bootstrap/toxics")).json() == [made.json()]
    assert (await client.get("/proxies/broker-1/toxics")).json() == []
    assert (await add(client, REFUSALS)).status_code == 409
    assert (await client.delete("/proxies/bootstrap/toxics/kafka_error_downstream")).status_code == 204
    assert proxy.plan.rules() == []


async def test_fields_may_be_given_with_dots_and_numbers_as_a_command_line_sends_them(
    client: httpx.AsyncClient, proxy: FakeProxy
) -> None:
    attributes = {"delay_ms": 20.0, "match.api_key": "Produce", "match.partition_index": 3.0}
    made = await add(client, {"type": "kafka_delay", "name": "slow", "attributes": attributes, "toxicity": 0.5})
    assert made.status_code == 200, made.text
    fault = proxy.plan.get("bootstrap.slow").fault.model_dump(mode="json", exclude_unset=True)
    assert fault["delay_ms"] == 20
    assert fault["match"] == {"api_key": "Produce", "partition_index": 3, "listener": "bootstrap"}
    assert fault["trigger"] == {"times": "forever", "probability": 0.5}
    changed = await client.patch("/proxies/bootstrap/toxics/slow", json={"attributes": {"delay_ms": 30}})
    assert changed.json()["attributes"] == {**attributes, "delay_ms": 30}
    assert proxy.plan.get("bootstrap.slow").fault.delay_ms == 30  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("toxic", "message"),
    [
        ({"type": "kafka_nonsense"}, "invalid toxic type"),
        ({"type": "latency"}, "is a Kafka listener: it takes kafka_"),
        ({"type": "kafka_error"}, "error_code: missing: Kafka's error code, by name (old ones too) or number"),
        ({"type": "kafka_delay", "attributes": {"delay_ms": 1, "match.topik": "x"}}, "did you mean 'topic'"),
        ({"type": "kafka_delay", "attributes": {"match": "x", "match.topic": "x"}}, "as a whole and in parts"),
        ({"type": "kafka_leader_move", "attributes": {"leader_id": 2}}, "over /v1/faults"),
    ],
)
async def test_what_is_no_fault_is_refused(
    client: httpx.AsyncClient, proxy: FakeProxy, toxic: dict[str, Any], message: str
) -> None:
    refused = await add(client, toxic)
    assert refused.status_code == 400
    assert message in refused.json()["error"]
    assert proxy.plan.rules() == []


async def test_a_change_that_is_refused_leaves_the_toxic_as_it_was(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    await add(client, REFUSALS)
    path = "/proxies/bootstrap/toxics/kafka_error_downstream"
    before = (await client.get(path)).json()
    assert (await client.patch(path, json={"attributes": {"error_code": "NO_SUCH"}})).status_code == 400
    assert (await client.get(path)).json() == before
    assert proxy.plan.get("bootstrap.kafka_error_downstream").fault.error_code.name == "NOT_LEADER_OR_FOLLOWER"  # type: ignore[attr-defined]


async def test_a_listener_is_disabled_and_enabled(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    proxy.open = {4: {"connection_id": 4, "listener": "broker-1"}, 5: {"connection_id": 5, "listener": "broker-2"}}
    off = await client.post("/proxies/broker-1", json={"enabled": False})
    assert (off.status_code, off.json()["enabled"]) == (200, False)
    assert proxy.closed == [(4, False)]
    assert proxy.plan.listener("broker-1", 1, proxy.now_us()).fate == "refusing"
    assert proxy.plan.listener("broker-2", 2, proxy.now_us()).fate == "open"
    assert (await client.post("/proxies/broker-1", json={"enabled": True})).json()["enabled"] is True
    assert proxy.plan.rules() == []
    assert (await client.post("/proxies/broker-1", json={"upstream": "x:1"})).status_code == 500


async def test_reset_and_clean_ups_of_test_suites_leave_the_listeners(
    client: httpx.AsyncClient, proxy: FakeProxy
) -> None:
    for clean_up in (("POST", "/reset"), ("DELETE", "/proxies/bootstrap")):
        await add(client, REFUSALS)
        await client.post("/proxies/bootstrap", json={"enabled": False})
        assert (await client.request(*clean_up)).status_code == 204
        assert (await client.get("/proxies/bootstrap")).json()["enabled"] is True
        assert proxy.plan.rules() == []
    assert (await client.post("/proxies", json={"name": "bootstrap", "upstream": "x:1"})).status_code == 409


async def test_a_rule_that_was_removed_otherwise_is_no_trouble(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    await add(client, REFUSALS)
    await client.delete("/v1/faults")
    assert (await client.delete("/proxies/bootstrap/toxics/kafka_error_downstream")).status_code == 204
