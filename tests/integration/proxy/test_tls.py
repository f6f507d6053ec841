"""TLS on either side: two proxies in a row, TLS between them and to the client, a real broker behind."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from notleader.proxy.config.settings import ConfigError, load
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.dialing import Dialer
from notleader.proxy.net.tls import Tls
from tests.clients.comparison import captured
from tests.integration.proxy.conftest import WORKERS, ProxyFor, told
from tests.proxy.net.test_proxy_protocol import addresses, header


class Files(NamedTuple):
    ca: str
    cert: str
    key: str
    client_cert: str


@pytest.fixture
def files(tmp_path: Path) -> Files:
    authority = trustme.CA()
    paths = Files(*(str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem", "client.pem")))
    authority.cert_pem.write_to_path(paths.ca)
    server = authority.issue_cert("127.0.0.1", "localhost")
    server.cert_chain_pems[0].write_to_path(paths.cert)
    server.private_key_pem.write_to_path(paths.key)
    client = authority.issue_cert("billing", common_name="billing", organization_name="shop")
    client.private_key_and_cert_chain_pem.write_to_path(paths.client_cert)
    return paths


@pytest.mark.kafka
async def test_tls_from_the_client_and_to_the_broker(kafka: KafkaCluster, proxy_for: ProxyFor, files: Files) -> None:
    kafka.create_topic("tls", partitions=1)
    server = {"tls_cert": files.cert, "tls_key": files.key, "tls_client_ca": files.ca}
    client = {"tls_kafka": True, "tls_kafka_ca": files.ca, "tls_kafka_cert": files.client_cert}
    trusting = ssl.create_default_context(cafile=files.ca)
    async with (
        proxy_for(kafka.bootstrap, **server) as inner,
        proxy_for(str(inner.listen), tls_cert=files.cert, tls_key=files.key, **client) as outer,
    ):
        options = {"bootstrap_servers": str(outer.listen), "security_protocol": "SSL", "ssl_context": trusting}
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("tls", b"x" * 100_000)
            principals = {entry["principal"] for entry in (await told(inner)).connections()}
        async with AIOKafkaConsumer("tls", auto_offset_reset="earliest", **options) as consumer:
            assert len((await consumer.getone()).value) == 100_000
        (principal,) = principals
        assert {"CN=billing", "O=shop"} < set(principal.split(","))


@pytest.mark.kafka
async def test_a_client_without_a_certificate_is_turned_away(
    kafka: KafkaCluster, proxy_for: ProxyFor, files: Files
) -> None:
    server = {"tls_cert": files.cert, "tls_key": files.key, "tls_client_ca": files.ca}
    async with proxy_for(kafka.bootstrap, **server) as proxy:
        context = ssl.create_default_context(cafile=files.ca)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            reader, writer = await asyncio.open_connection(*proxy.listen, ssl=context)
            writer.write(b"\0\0\0\x0b\0\x12\0\0\0\0\0\1\0\1c")
            await reader.readexactly(1)


@pytest.mark.parametrize("has_header", [False, True], ids=["alone", "behind a PROXY protocol header"])
async def test_a_handshake_that_fails_is_told(
    proxy_for: ProxyFor, files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture, has_header: bool
) -> None:
    server = {"tls_cert": files.cert, "tls_key": files.key, "proxy_protocol": has_header}
    announced = header(1, 1, addresses("10.0.0.9", 5)) if has_header else b""
    async with proxy_for("127.0.0.1:1", capture=str(tmp_path / "traffic"), **server) as proxy:
        for _ in range(2):
            reader, writer = await asyncio.open_connection(*proxy.listen)
            writer.write(announced + b"\0\0\0\x0b\0\x12\0\0\0\0\0\1\0\1c")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(100)
            writer.close()
        if not has_header:
            with pytest.raises(ssl.SSLError):  # it doesn't trust who issued the certificate
                await asyncio.open_connection(*proxy.listen, ssl=ssl.create_default_context())
            _, writer = await asyncio.open_connection(*proxy.listen)
            writer.close()  # a port that is open is all that it wanted to know
            await asyncio.sleep(0.2)
        assert (await told(proxy)).counters.wire_errors["client"] == (2 if has_header else 3)
    details = [row["detail"] for row in captured(tmp_path / "traffic") if row["event"] == "wire_error"]
    client = "client: 10.0.0.9:5" if has_header else "client: 127.0.0.1:"
    assert len(details) == (2 if has_header else 3)
    assert all(detail.startswith(client) and "the TLS handshake failed: " in detail for detail in details)
    assert "wrong version number" in details[0].lower()
    # A reason that is told of a host is not told again for a while.
    assert WORKERS > 1 or caplog.text.count("the TLS handshake failed") == (1 if has_header else 2)


async def test_certificates_are_read_again_when_they_change(files: Files) -> None:
    settings = load({"kafka": "127.0.0.1:1", "tls_cert": files.cert, "tls_key": files.key})
    tls = Tls(settings)
    assert not tls.reload()
    other = trustme.CA().issue_cert("localhost")
    other.cert_chain_pems[0].write_to_path(files.cert)
    other.private_key_pem.write_to_path(files.key)
    os.utime(files.cert, ns=(1, 1))
    assert tls.reload()
    Path(files.key).write_text("no key")
    assert not tls.reload(), "a file that can't be used changes nothing"


def test_a_certificate_that_cannot_be_used_is_a_problem_of_its_setting(files: Files) -> None:
    with pytest.raises(ConfigError) as refused:
        Tls(load({"kafka": "127.0.0.1:1", "tls_cert": files.ca, "tls_key": files.key}))
    assert refused.value.problems[0].path == "tls_cert"


@pytest.mark.parametrize("setting", ["tls_cert", "tls_kafka_cert"])
def test_a_part_that_is_missing_is_named(files: Files, setting: str) -> None:
    key_setting = setting.removesuffix("cert") + "key"
    flag = "--" + key_setting.replace("_", "-")
    for cert, key, said in (
        (
            files.cert,
            None,
            f"{setting}: {files.cert}: there is no private key in it (PEM); {flag} FILE takes one of its own",
        ),
        (files.cert, files.ca, f"{key_setting}: {files.ca}: there is no private key in it (PEM)"),
        (files.key, files.key, f"{setting}: {files.key}: there is no certificate in it (PEM)"),
        (files.cert, "/nowhere", f"{key_setting}: /nowhere: No such file or directory"),
    ):
        given = (
            {setting: cert} | ({key_setting: key} if key else {}) | ({"tls_kafka": True} if "kafka" in setting else {})
        )
        with pytest.raises(ConfigError) as refused:
            Tls(load({"kafka": "127.0.0.1:1", **given}))
        assert str(refused.value) == said


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shows_one", [False, True])
async def test_a_broker_that_wants_another_certificate_is_said_to_want_it(
    files: Files, tmp_path: Path, version: ssl.TLSVersion, shows_one: bool
) -> None:
    wanting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca)
    wanting.load_cert_chain(files.cert, files.key)
    wanting.verify_mode, wanting.minimum_version, wanting.maximum_version = ssl.CERT_REQUIRED, version, version
    mine = tmp_path / "mine.pem"
    trustme.CA().issue_cert("nobody").private_key_and_cert_chain_pem.write_to_path(str(mine))
    # asyncio hangs up without the alert that a broker sends.
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError), wanting.wrap_socket(connection, server_side=True) as served:
                served.recv(100)

        served = asyncio.create_task(asyncio.to_thread(serve))
        given = {"kafka": f"127.0.0.1:{listening.getsockname()[1]}", "tls_kafka": True, "tls_kafka_ca": files.ca}
        settings = load(given | ({"tls_kafka_cert": str(mine)} if shows_one else {}))
        with pytest.raises(ConnectionError) as refused:
            await Dialer(settings, Tls(settings)).metadata()
        await served
    wants = (
        "does it want a client certificate? --tls-kafka-cert FILE, with --tls-kafka-key FILE where the key is not in it"
    )
    assert ("is it --tls-kafka-cert that it doesn't take?" if shows_one else wants) in str(refused.value)
    assert "is TLS spoken there?" not in str(refused.value)


@pytest.mark.kafka
async def test_tls_towards_a_plaintext_broker_is_said_to_be_that(
    kafka: KafkaCluster, proxy_for: ProxyFor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "notleader"):
        async with proxy_for(kafka.bootstrap, tls_kafka=True):
            pass
    (said,) = {record.getMessage() for record in caplog.records if "no Kafka broker answers" in record.getMessage()}
    assert "is TLS spoken there? Without --tls-kafka it is plaintext" in said
