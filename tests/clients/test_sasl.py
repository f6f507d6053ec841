"""SASL passes through: the principal is written down, and what proves it is not, at no level and in no log."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.node import HOST, Node
from notleader.proxy.lab.ports import free_ports
from notleader.proxy.record.rows import Level
from notleader.proxy.wire.names import ApiKey
from tests.clients import builds
from tests.clients.comparison import Running, captured, exchanges, notleader_run
from tests.clients.raw import Raw, connected

pytestmark = pytest.mark.kafka

SECRET = "correct-horse-battery-staple"
_ITERATIONS = 4096
_SALT = b"salted-by-the-test"
# As AlterUserScramCredentials numbers them.
_SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_MECHANISMS = ("PLAIN", *_SCRAM, "OAUTHBEARER")
_MODULES = "org.apache.kafka.common.security"


class SecuredCluster(KafkaCluster):
    """One broker with a third listener, on which clients must say who they are."""

    secured = ""

    def _launch(self, node: Node) -> None:
        (port,) = free_ports(1)
        self.secured = f"{HOST}:{port}"
        lines = dict(line.split("=", 1) for line in node.config.read_text().splitlines())
        lines["listeners"] += f",SECURED://{self.secured}"
        lines["advertised.listeners"] += f",SECURED://{self.secured}"
        lines["listener.security.protocol.map"] += ",SECURED:SASL_PLAINTEXT"
        lines["sasl.enabled.mechanisms"] = ",".join(_MECHANISMS)
        lines["connections.max.reauth.ms"] = "600000"
        modules = {
            "plain": f'{_MODULES}.plain.PlainLoginModule required user_alice="{SECRET}";',
            "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
            "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
            "oauthbearer": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        }
        for mechanism, module in modules.items():
            lines[f"listener.name.secured.{mechanism}.sasl.jaas.config"] = module
        node.config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        super()._launch(node)


@contextmanager
def secured(version: str) -> Iterator[SecuredCluster]:
    """Such a broker, which knows alice."""
    with SecuredCluster(version, auto_create_topics=False) as cluster:
        cluster.create_topic("guarded")
        with connected(cluster.bootstrap) as raw:
            assert not [result for result in add_alice(raw) if result["error_code"]]
        yield cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredCluster]:
    with secured("4") as cluster:
        yield cluster


def salted(mechanism: str) -> bytes:
    return hashlib.pbkdf2_hmac(_SCRAM[mechanism][1], SECRET.encode(), _SALT, _ITERATIONS)


def add_alice(raw: Raw) -> list[dict[str, Any]]:
    """Give alice her SCRAM credentials; the results."""
    results: list[dict[str, Any]] = []
    for mechanism, (number, _) in _SCRAM.items():
        upsertion = {
            "name": "alice",
            "mechanism": number,
            "iterations": _ITERATIONS,
            "salt": _SALT,
            "salted_password": salted(mechanism),
        }
        answer = raw.call(ApiKey.AlterUserScramCredentials, 0, {"deletions": [], "upsertions": [upsertion]})
        results += answer["results"]
    return results


class Token(AbstractTokenProvider):  # type: ignore[misc]
    """An unsecured JSON Web Token (RFC 7519, section 6), as Kafka's default validator takes."""

    async def token(self) -> str:
        now = int(time.time())
        claims = {"sub": "alice", "iat": now - 10, "exp": now + 600, "jti": SECRET}
        parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
        return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def settings(mechanism: str, password: str = SECRET) -> dict[str, Any]:
    common = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "request_timeout_ms": 15_000}
    if mechanism == "OAUTHBEARER":
        return {**common, "sasl_oauth_token_provider": Token()}
    return {**common, "sasl_plain_username": "alice", "sasl_plain_password": password}


async def send(bootstrap: str, **how: Any) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **how)
    try:
        await producer.start()
        await producer.send_and_wait("guarded", b"for your eyes only")
    finally:
        await producer.stop()


def assert_no_secret(folder: Path, told: bytes = b"") -> None:
    """Neither the password nor anything made from it is in any row, in the log, or in what the HTTP API `told`."""
    derived = [salted(mechanism) for mechanism in _SCRAM]
    plain = SECRET.encode()
    token = base64.urlsafe_b64encode(json.dumps({"jti": SECRET}).encode()[1:])[4:-8]
    wanted = [plain, base64.b64encode(plain), plain.hex().encode(), token, *derived]
    for row in captured(folder / "capture"):
        text = repr(row).encode()
        frames = b"".join(row[name] or b"" for name in ("request_frame", "response_frame"))
        assert not [secret for secret in wanted if secret in text + frames], row["api_name"]
        if row["api_key"] == ApiKey.SaslAuthenticate:
            assert row["request_frame"] is None
            assert row["response_frame"] is None
    log = (folder / "proxy.log").read_bytes()
    assert not [secret for secret in wanted if secret in log + told]


def recording(cluster: SecuredCluster, folder: Path, level: str = "payload") -> Any:
    """A proxy before the listener that asks who is there, which logs all it can and, by default, keeps whole frames."""
    flags = ("--capture-level", level, "--verbose", "--admin", "127.0.0.1:0")
    return notleader_run(cluster.secured, folder / "capture", folder / "proxy.log", *flags)


def told_over_http(proxy: Running) -> bytes:
    """What anybody may ask of the proxy: its metrics, and who is connected."""
    said = b""
    for path in ("metrics", "v1/connections"):
        with urllib.request.urlopen(f"http://{proxy.admin}/{path}", timeout=30) as answer:
            said += answer.read()
    assert b"notleader_" in said
    return said


@pytest.mark.parametrize("level", list(Level))
async def test_every_mechanism_passes_and_the_principal_is_noted(
    level: Level, cluster: SecuredCluster, tmp_path: Path
) -> None:
    proxy: Running
    with recording(cluster, tmp_path, level) as proxy:
        for mechanism in _MECHANISMS:
            await send(proxy.listen, **settings(mechanism))
        told = told_over_http(proxy)
    rows = exchanges(captured(tmp_path / "capture"))
    produced = [row["principal"] for row in rows if row["api_key"] == ApiKey.Produce]
    assert produced == ["alice"] * len(_MECHANISMS)
    assert {"SaslHandshake", "SaslAuthenticate"} <= {row["api_name"] for row in rows}
    assert_no_secret(tmp_path, told)


def java_settings(mechanism: str) -> str:
    """The properties of a Java client that is alice."""
    module, options = f"{_MODULES}.plain.PlainLoginModule", f'username="alice" password="{SECRET}"'
    if mechanism in _SCRAM:
        module = f"{_MODULES}.scram.ScramLoginModule"
    elif mechanism == "OAUTHBEARER":
        module = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
        options = f'unsecuredLoginStringClaim_sub="alice" unsecuredLoginStringClaim_jti="{SECRET}"'
    lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    return "".join(
        f"{name}={value}\n" for name, value in {**lines, "sasl.jaas.config": f"{module} required {options};"}.items()
    )


def java_round_trip(version: str, bootstrap: str, mechanism: str) -> None:
    """The Java client of that version sends a record and reads it."""
    ran = subprocess.run(
        builds.java("java", version, "Secured"),
        env={**os.environ, "BOOTSTRAP": bootstrap, "TOPIC": "guarded", "SETTINGS": java_settings(mechanism)},
        capture_output=True,
        timeout=120,
    )
    assert ran.stdout == b"for your eyes only\n", ran.stderr.decode()[-2000:]


def test_the_newest_java_client_with_every_mechanism(cluster: SecuredCluster, tmp_path: Path) -> None:
    with recording(cluster, tmp_path) as proxy:
        for mechanism in _MECHANISMS:
            java_round_trip("4.4.0", proxy.listen, mechanism)
        told = told_over_http(proxy)
    rows = exchanges(captured(tmp_path / "capture"))
    assert [row["principal"] for row in rows if row["api_key"] == ApiKey.Produce] == ["alice"] * len(_MECHANISMS)
    assert {row["api_version"] for row in rows if row["api_key"] == ApiKey.SaslHandshake} == {1}
    assert_no_secret(tmp_path, told)


def test_an_old_java_client_whose_tokens_are_bare(tmp_path: Path) -> None:
    """kafka-clients before 1.0 know no SaslAuthenticate (KIP-152): SaslHandshake v0, then frames without headers."""
    with secured("3.9") as cluster, recording(cluster, tmp_path) as proxy:
        for mechanism in ("PLAIN", *_SCRAM):
            java_round_trip("0.11.0.3", proxy.listen, mechanism)
        told = told_over_http(proxy)
    rows = exchanges(captured(tmp_path / "capture"))
    assert [row["principal"] for row in rows if row["api_key"] == ApiKey.Produce] == ["alice"] * 3
    assert {row["api_version"] for row in rows if row["api_key"] == ApiKey.SaslHandshake} == {0}
    assert not [row for row in rows if row["api_key"] == ApiKey.SaslAuthenticate]
    assert not [row for row in captured(tmp_path / "capture") if row["event"] == "wire_error"]
    assert_no_secret(tmp_path, told)


async def test_a_wrong_password_fails_as_it_does_without_the_proxy(cluster: SecuredCluster, tmp_path: Path) -> None:
    wrong = settings("PLAIN", SECRET + "r")
    with pytest.raises(KafkaError) as direct:
        await send(cluster.secured, **wrong)
    with recording(cluster, tmp_path) as proxy, pytest.raises(KafkaError) as through:
        await send(proxy.listen, **wrong)
    assert type(through.value) is type(direct.value)
    refused = [row for row in captured(tmp_path / "capture") if row["api_key"] == ApiKey.SaslAuthenticate]
    assert {row["error_code"] for row in refused} == {58}
    assert {row["principal"] for row in captured(tmp_path / "capture")} == {None}
    assert_no_secret(tmp_path)


def test_bare_tokens_after_a_handshake_of_version_0(cluster: SecuredCluster, tmp_path: Path) -> None:
    """KIP-43: no header around the tokens, neither on the way there nor back."""
    with recording(cluster, tmp_path) as proxy:
        for _ in range(2):
            with connected(proxy.listen) as raw:
                assert raw.call(ApiKey.SaslHandshake, 0, {"mechanism": "PLAIN"})["error_code"] == 0
                raw.send(b"\0alice\0" + SECRET.encode())
                assert raw.receive() == b""
                body = raw.call(
                    ApiKey.Metadata, 4, {"topics": [{"name": "guarded"}], "allow_auto_topic_creation": False}
                )
                assert [f"{broker['host']}:{broker['port']}" for broker in body["brokers"]] != [cluster.secured]
                assert body["topics"][0]["error_code"] == 0
    rows = exchanges(captured(tmp_path / "capture"))
    assert [(row["api_name"], row["exchange_seq"]) for row in rows] == [("SaslHandshake", 1), ("Metadata", 2)] * 2
    assert [row["principal"] for row in rows if row["api_name"] == "Metadata"] == ["alice"] * 2
    assert_no_secret(tmp_path)


def test_bare_tokens_in_one_write_with_what_follows(cluster: SecuredCluster, tmp_path: Path) -> None:
    """An impatient client that doesn't wait for the broker's empty answer."""
    with recording(cluster, tmp_path) as proxy, connected(proxy.listen) as raw:
        assert raw.call(ApiKey.SaslHandshake, 0, {"mechanism": "PLAIN"})["error_code"] == 0
        for byte in len(token := b"\0alice\0" + SECRET.encode()).to_bytes(4, "big") + token:
            raw.socket.sendall(bytes([byte]))
        raw.ask(ApiKey.Metadata, 1, {"topics": []})
        assert raw.receive() == b""
        assert raw.answer()["brokers"]
    assert_no_secret(tmp_path)


def test_credentials_on_their_way_to_the_broker_are_not_recorded(cluster: SecuredCluster, tmp_path: Path) -> None:
    flags = ("--capture-level", "payload", "--verbose")
    capture, log = tmp_path / "capture", tmp_path / "proxy.log"
    with notleader_run(cluster.bootstrap, capture, log, *flags) as proxy, connected(proxy.listen) as raw:
        assert not [result for result in add_alice(raw) if result["error_code"]]
    assert [row["api_name"] for row in exchanges(captured(capture))] == ["AlterUserScramCredentials"] * 2
    assert_no_secret(tmp_path)
