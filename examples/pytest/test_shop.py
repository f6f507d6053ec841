"""What the shop does when Kafka is not well. Run it with `pytest examples/pytest`."""

from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from shop import place_orders, place_orders_async, send_orders

from notleader.proxy.lab.testing import NotLeader
from notleader.recorders.aiokafka import recorded

NOT_LEADER = {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": {"api_key": "Produce"}}


def test_orders_outlive_a_broker_that_leads_no_more(notleader: NotLeader) -> None:
    first, *_ = place_orders(notleader.bootstrap, ["before"])
    with notleader.fault(**NOT_LEADER, trigger={"times": 4}) as rule:
        offsets = place_orders(notleader.bootstrap, ["a", "b"])
        rule.wait(hits=4)
    assert offsets == [first + 1, first + 2]


@pytest.mark.asyncio
async def test_orders_outlive_an_election(notleader: NotLeader) -> None:
    await place_orders_async(notleader.bootstrap, ["before"])
    with notleader.fault(kind="leader_election", match={"topic": "orders"}, for_ms=500) as election:
        first, second = await place_orders_async(notleader.bootstrap, ["a", "b"])
        await election.wait_async()
    assert second == first + 1


def test_a_fault_that_never_struck_is_no_test(notleader: NotLeader) -> None:
    """A rule for a topic that nobody writes to: the fixture fails the test, which pytest.raises keeps green here."""
    with (
        pytest.raises(AssertionError, match=r"was never hit; requests that passed: .*Produce orders"),
        notleader.fault(kind="close", match={"api_key": "Produce", "topic": "ordesr"}),
    ):
        place_orders(notleader.bootstrap, ["a"])


@pytest.mark.asyncio
async def test_a_lost_acknowledgement_duplicates_nothing(notleader: NotLeader, tmp_path: Path) -> None:
    """What the client said, and what Spark makes of it and of the traffic."""
    outcomes = tmp_path / "shop.jsonl"
    producer = AIOKafkaProducer(
        bootstrap_servers=notleader.bootstrap, acks="all", enable_idempotence=True, request_timeout_ms=2000
    )
    async with recorded(producer, outcomes) as shop:
        await send_orders(shop, ["before"])
        with notleader.fault(kind="drop_response", match={"api_key": "Produce"}):
            await send_orders(shop, ["a", "b"])
    verdict = notleader.verdict(outcomes)
    assert [said.outcome for said in verdict.outcomes] == ["ok", "ok", "ok"]
    assert max(said.took_ms or 0 for said in verdict.outcomes) > 1000
    assert verdict.found("duplicate") == 0
    assert not verdict.negative, verdict.findings


@pytest.mark.incident
def test_an_incident_of_the_catalogue(notleader: NotLeader) -> None:
    """With the client that suffered it, built here; this one needs Go."""
    done = notleader.incident("sarama-hang", client="sarama@1.37.2")
    affected = done["affected"]
    assert affected.as_expected, done.told()
    assert affected.found["hang"] == 2
    assert [said.outcome for said in affected.outcomes] == ["pending", "pending"]
