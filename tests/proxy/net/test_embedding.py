"""The proxy as an object in somebody's program; with sockets it is in tests/docs/test_examples.py."""

from __future__ import annotations

import asyncio

import pytest

from notleader.faults.schema import FaultDocumentError
from notleader.proxy import Proxy
from notleader.proxy.config.settings import ConfigError

KAFKA = "127.0.0.1:9092"


def test_it_listens_on_free_ports_of_loopback_and_has_no_api() -> None:
    proxy = Proxy.in_front_of(KAFKA, faults=[{"kind": "close"}], seed=3)
    assert (str(proxy.settings.listen), proxy.settings.admin, proxy.settings.seed) == ("127.0.0.1:0", None, 3)
    assert [rule.fault.kind for rule in proxy.plan.rules()] == ["close"]


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as told:
        Proxy.in_front_of("nowhere", faults=[{"kind": "clsoe"}], sead=3)
    assert {problem.path for problem in told.value.problems} == {"kafka", "sead", "faults[0].kind"}


async def test_rules_come_and_go_and_are_waited_for() -> None:
    proxy = Proxy.in_front_of(KAFKA)
    rule = proxy.add_fault(name="lost", kind="drop_response", match={"api_key": "Produce"})
    assert (rule.name, rule.hits) == ("lost", 0)
    with pytest.raises(ValueError, match="lost"):
        proxy.add_fault(name="lost", kind="close")
    with pytest.raises(FaultDocumentError):
        proxy.add_fault(kind="close", nonsense=1)
    with pytest.raises(TimeoutError):
        await proxy.wait_for_hits("lost", timeout_s=0.02)
    rule.hits = 2
    await proxy.wait_for_hits("lost", 2, timeout_s=0.02)
    proxy.remove_fault("lost")
    with pytest.raises(KeyError):
        await proxy.wait_for_hits("lost", timeout_s=0.02)


async def test_the_window_of_a_rule_that_is_there_from_the_start_opens_when_the_proxy_listens() -> None:
    """Not with the first exchange that it could hit: what is asked once, at a client's start, would escape it."""
    faults = [{"name": "early", "kind": "close", "match": {"api_key": "JoinGroup"}, "trigger": {"after_ms": 20}}]
    async with Proxy.in_front_of("127.0.0.1:1", faults=faults, connect_timeout_ms=100) as proxy:
        (rule,) = proxy.plan.rules()
        assert not rule.trigger.is_open(proxy.now_us())
        await asyncio.sleep(0.05)
        assert rule.trigger.is_open(proxy.now_us())
