"""Faults before brokers that want TLS or SASL: sessions that expire, leaders that move."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.doors import PASSWORD, ManyDoors
from tests.integration.faults.conftest import add, remove
from tests.integration.faults.test_leaders import (
    assert_nothing_lost_or_twice,
    brokers_of,
    java,
    rows,
    traffic,
    until,
)
from tests.integration.proxy.conftest import ProxyFor

pytestmark = pytest.mark.kafka

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_JAVA_LOGIN = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={_MODULE} required username="alice" password="{PASSWORD}";
"""
_LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}


def logins(captured: list[dict[str, Any]]) -> dict[int, int]:
    """How often each connection that was produced on has authenticated."""
    producing = {row["connection_id"] for row in captured if row["api_name"] == "Produce"}
    said = [row["connection_id"] for row in captured if row["api_name"] == "SaslAuthenticate" and not row["error_code"]]
    return {number: said.count(number) for number in producing}


async def test_a_client_that_knows_how_authenticates_again_before_its_session_expires(
    kafka3: ManyDoors, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    kafka3.create_topic("expiring", partitions=1)
    settings = tmp_path / "producer.properties"
    settings.write_text(_JAVA_LOGIN)
    forever: dict[str, Any] = {"times": "forever"}
    rules = [
        {"name": "s", "kind": "session_expiry", "session_lifetime_ms": 1200, "trigger": forever},
        # Hit by what comes again on a connection that has authenticated before.
        {"name": "again", "kind": "delay", "delay_ms": 1, "match": {"api_key": "SaslAuthenticate"}},
    ]
    rules[1]["trigger"] = {**forever, "skip": 1, "per": "connection"}
    async with proxy_for(
        kafka3.bootstrap_of("SASL"), faults=rules, capture=str(tmp_path / "capture"), capture_level="partition"
    ) as proxy:
        sending = ["--topic", "expiring", "--throughput", "50", "--max-messages", "-1"]
        sending += ["--producer.config", str(settings), "--bootstrap-server", str(proxy.listen)]
        async with java(kafka3, "VerifiableProducer", *sending) as lines:
            await until(lambda: proxy.plan.get("again").hits >= 2)
            sent = len(lines)
            await until(lambda: len(lines) > sent + 20)
    offsets = [line["offset"] for line in lines if line["name"] == "producer_send_success"]
    assert offsets == list(range(len(offsets)))
    assert not [line for line in lines if line["name"] == "producer_send_error"]
    assert max(logins(rows(tmp_path / "capture")).values()) >= 2


async def test_a_client_that_does_not_know_how_is_cut_off_and_comes_back(
    kafka3: ManyDoors, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    kafka3.create_topic("expired", partitions=1)
    rules = [
        {"name": "s", "kind": "session_expiry", "session_lifetime_ms": 300, "trigger": {"times": "forever"}},
        {"name": "c", "kind": "close", "match": {"api_key": "Produce"}, "trigger": {"after_ms": 300}},
    ]
    async with proxy_for(kafka3.bootstrap_of("SASL"), capture=str(tmp_path)) as proxy:
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), enable_idempotence=True, **_LOGIN) as producer:
            offsets = [(await producer.send_and_wait("expired", b"v", partition=0)).offset]
            for rule in rules:
                await add(proxy, **rule)
            while not proxy.plan.get("c").hits:
                offsets.append((await producer.send_and_wait("expired", b"v", partition=0)).offset)
        assert offsets == list(range(len(offsets)))
        assert proxy.plan.get("s").hits >= 1, "it was told when it came back"
    assert list(logins(rows(tmp_path)).values()) == [1, 1], "once on each connection"


async def test_before_the_first_login_it_is_ready(
    kafka3: ManyDoors, proxy_for: ProxyFor, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits until it is, the first client among them, would wait for ever."""
    caplog.set_level("INFO", "notleader")
    async with proxy_for(kafka3.bootstrap_of("SASL")) as proxy:
        assert proxy.ready
        assert not proxy.brokers()
        assert "wants a login" in caplog.text
        assert "no Kafka broker answers" not in caplog.text
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), **_LOGIN):
            assert len(list(proxy.brokers())) == 3


@pytest.mark.parametrize("door", ["TLS", "SASL"])
async def test_a_leader_moves_where_brokers_ask_who_is_there(
    kafka3: ManyDoors, proxy_for: ProxyFor, tmp_path: Path, door: str
) -> None:
    topic = f"moved-by-{door.lower()}"
    kafka3.create_topic(topic, partitions=1)
    true_leader = kafka3.leader(topic, 0)
    settings: dict[str, Any]
    authority, password = tmp_path / "ca.pem", tmp_path / "password"
    if door == "TLS":
        kafka3.authority.cert_pem.write_to_path(str(authority))
        settings = {"tls_kafka": True, "tls_kafka_ca": str(authority)}
    else:
        password.write_text(PASSWORD + "\n")
        settings = {"relay_sasl_mechanism": "PLAIN", "relay_sasl_username": "alice"}
        settings["relay_sasl_password_file"] = str(password)
    async with (
        proxy_for(kafka3.bootstrap_of(door), capture=str(tmp_path / "capture"), **settings) as proxy,
        traffic(proxy, topic, partitions=1, **(_LOGIN if door == "SASL" else {})) as seen,
    ):
        await seen.more(0, 10)
        await add(proxy, name="move", kind="leader_move", match={"topic": topic})
        await seen.more(0, 30)
        (move,) = proxy.plan.elections.moves()
        await remove(proxy, "move")
        await seen.more(0, 20)
    assert_nothing_lost_or_twice(seen)
    for api_name in ("Produce", "Fetch"):
        served = brokers_of(rows(tmp_path / "capture"), api_name, topic, 0)
        assert served == [true_leader, move.leader_id, true_leader]


async def test_a_relay_outlives_the_sessions_of_the_broker(
    kafka3: ManyDoors, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    kafka3.create_topic("brief", partitions=1)
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "producer.properties").write_text(_JAVA_LOGIN + "metadata.max.age.ms=300\nretries=1000\n")
    settings = {"relay_sasl_mechanism": "PLAIN", "relay_sasl_username": "alice"}
    settings["relay_sasl_password_file"] = str(tmp_path / "password")
    async with proxy_for(kafka3.bootstrap_of("BRIEF"), capture=str(tmp_path / "capture"), **settings) as proxy:
        sending = ["--topic", "brief", "--throughput", "50", "--max-messages", "-1", "--bootstrap-server"]
        sending += [str(proxy.listen), "--producer.config", str(tmp_path / "producer.properties")]
        async with java(kafka3, "VerifiableProducer", *sending) as lines:
            await until(lambda: len(lines) > 20)
            await add(proxy, name="move", kind="leader_move", match={"topic": "brief"})
            sent = len(lines)
            await until(lambda: len(lines) > sent + 350)
    assert not [line for line in lines if line["name"] == "producer_send_error"]
    captured = rows(tmp_path / "capture")
    assert {row["outcome"] for row in captured[:-5] if row["api_name"] == "Produce"} <= {"answered", "injected"}
    produced = [row for row in captured if row["api_name"] == "Produce" and row["outcome"] == "answered"]
    assert len({row["connection_id"] for row in produced}) == 2, "to the one that led and to the one that is shown to"
    assert produced[-1]["request_at_us"] - produced[0]["request_at_us"] > 6_000_000


async def test_a_proxy_that_is_not_let_in_ends_the_connection_and_says_why(
    kafka3: ManyDoors, proxy_for: ProxyFor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = "not-let-in"
    kafka3.create_topic(topic, partitions=1)
    (tmp_path / "password").write_text("wrong-one")
    settings = {"relay_sasl_mechanism": "PLAIN", "relay_sasl_username": "alice"}
    settings["relay_sasl_password_file"] = str(tmp_path / "password")
    async with (
        proxy_for(kafka3.bootstrap_of("SASL"), **settings) as proxy,
        AIOKafkaProducer(bootstrap_servers=str(proxy.listen), metadata_max_age_ms=200, **_LOGIN) as producer,
    ):
        assert (await producer.send_and_wait(topic, b"before", partition=0)).offset == 0
        await add(proxy, name="move", kind="leader_move", match={"topic": topic})
        sending = asyncio.create_task(producer.send_and_wait(topic, b"after", partition=0))
        await until(lambda: any("doesn't let the proxy in" in message for message in caplog.messages))
        await remove(proxy, "move")
        assert (await sending).offset == 1
    assert "SASL_AUTHENTICATION_FAILED" in caplog.text
    assert "wrong-one" not in caplog.text


async def test_a_leader_that_can_not_move_for_a_client_with_sasl_stays_and_says_why(
    kafka3: ManyDoors, proxy_for: ProxyFor, caplog: pytest.LogCaptureFixture
) -> None:
    topic = "moved-without"
    kafka3.create_topic(topic, partitions=1)
    with caplog.at_level(logging.WARNING, "notleader"):
        async with proxy_for(kafka3.bootstrap_of("SASL")) as proxy:
            async with AIOKafkaProducer(
                bootstrap_servers=str(proxy.listen), enable_idempotence=True, metadata_max_age_ms=300, **_LOGIN
            ) as producer:
                assert (await producer.send_and_wait(topic, b"before", partition=0)).offset == 0
                await add(proxy, name="move", kind="leader_move", match={"topic": topic})
                assert (await producer.send_and_wait(topic, b"after", partition=0)).offset == 1
            assert proxy.plan.elections.moves() == ()
    said = [message for message in caplog.messages if message.startswith("fault move (leader_move) can't be applied")]
    assert len(said) == 1
    assert "SASL" in said[0]
