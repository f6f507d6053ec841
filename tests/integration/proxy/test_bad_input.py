"""What is not Kafka costs its own connection and no other; what can't work is said in one line."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.names import ApiKey
from tests.integration.proxy.conftest import ProxyFor, told
from tests.proxy.session.conversation import request

NOTLEADER = [sys.executable, "-m", "notleader"]


async def exchange(address: Endpoint, sent: bytes) -> bytes:
    """What comes back for these bytes until the other side closes, or half a minute."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(sent)
        async with asyncio.timeout(30):
            return await reader.read(1000)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP"),
        (bytes.fromhex("16030100c2010000be0303") + b"x" * 200, "looks like a TLS handshake"),
        (pack(">i", 2**31 - 1) + b"x" * 100, "frame length of 2147483647"),
        (pack(">i", -5) + b"x" * 100, "frame length of -5"),
    ],
)
async def test_it_closes_that_connection_and_the_others_go_on(
    kafka: KafkaCluster, proxy_for: ProxyFor, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    versions = request(ApiKey.ApiVersions, 0, 1)
    async with proxy_for(kafka.bootstrap) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.listen)
        writer.write(versions)
        assert await reader.readexactly(8)
        with caplog.at_level(logging.WARNING, "notleader"):
            assert await exchange(proxy.listen, sent) == b""
        assert [reason in record.message for record in caplog.records] == [True]
        assert (await told(proxy)).counters.wire_errors == {"client": 1}
        await reader.read(100_000)
        writer.write(versions)
        assert await reader.readexactly(8)
        writer.close()


@pytest.mark.kafka
async def test_a_client_that_ends_before_its_broker_was_reached_is_gone_at_once(
    kafka: KafkaCluster, proxy_for: ProxyFor
) -> None:
    async with proxy_for(kafka.bootstrap) as proxy:
        for _ in range(20):
            socket.create_connection(proxy.listen).close()  # what a port's health check does
        half_closed = socket.create_connection(proxy.listen, timeout=10)
        half_closed.shutdown(socket.SHUT_WR)
        assert await asyncio.to_thread(half_closed.recv, 1) == b""
        half_closed.close()
        async with asyncio.timeout(10):
            while (await told(proxy)).connections():
                await asyncio.sleep(0.05)
        assert proxy.counters.connections_opened["bootstrap"] == 21


async def test_without_a_broker_connections_are_closed_with_one_line(
    proxy_for: ProxyFor, caplog: pytest.LogCaptureFixture, unused_tcp_port: int
) -> None:
    with caplog.at_level(logging.WARNING, "notleader"):
        async with proxy_for(f"127.0.0.1:{unused_tcp_port}") as proxy:
            assert not proxy.ready
            for _ in range(10):
                assert await exchange(proxy.listen, request(ApiKey.ApiVersions, 0, 1)) == b""
    told = [record.message for record in caplog.records]
    assert "no Kafka broker answers yet" in told[0]
    assert ["no broker could be reached for bootstrap" in line for line in told].count(True) == 1, told


def run(*arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NOTLEADER, *arguments], capture_output=True, text=True, timeout=timeout, check=False)


def test_a_port_in_use_is_one_line_and_exit_1() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("run", "--kafka", "127.0.0.1:1", "--listen", f"127.0.0.1:{port}", "--admin", "none")
    assert done.returncode == 1
    advice = "another program has that port: stop it, or name another one (0: any that is free)"
    told = f"notleader run: can't listen on 127.0.0.1:{port}: Address already in use; {advice}"
    assert done.stderr.strip() == told


def test_a_proxy_in_front_of_itself_is_refused() -> None:
    """It would connect to itself without end; so would `--kafka localhost:9092` alone, as 9092 is where it listens."""
    done = run("run", "--kafka", "localhost:9092")
    assert done.returncode == 2
    advice = "the proxy itself would listen, and be its own client: --listen HOST:PORT takes another port"
    assert done.stderr.strip() == f"notleader run: kafka: at localhost:9092 {advice}"


def test_a_capture_folder_that_cannot_be_written_is_one_line_and_exit_1(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "capture"
    done = run("run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "none", "--capture", str(folder))
    assert done.returncode == 1
    told = f"notleader run: can't write the capture folder {folder}: Not a directory"
    assert done.stderr.strip() == f"{told}; a file is in its way: name another folder"


@pytest.mark.parametrize(
    ("rule", "path", "message"),
    [
        ("{kind: errror}", "faults[0].kind", "error"),
        ("{kind: error, error_code: NOT_LEDER}", "faults[0].error_code", "NOT_LEADER"),
        ("{kind: delay, delay_ms: 5, match: {api_key: Produze}}", "faults[0].match.api_key", "Produce"),
    ],
)
def test_a_bad_rule_is_refused_with_its_path_and_exit_2(tmp_path: Path, rule: str, path: str, message: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"kafka: 127.0.0.1:1\nlisten: 127.0.0.1:0\nfaults:\n  - {rule}\n")
    done = run("run", "--config", str(config))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert path in line
    assert message in line
    checked = run("check", str(config), "--json")
    assert checked.returncode == 1
    assert json.loads(checked.stdout)["problems"][0]["path"] == path


_EVERYTHING_WRONG = """\
listen: nonsense
seeed: 4
faults:
  - {kind: errror}
  - {kind: delay, delay_ms: "5", match: {api_key: Produze}, trigger: {times: 0}}
steps:
  - {at: soon, add: {kind: close, phase: never}}
  - {after: {fault: x, hits: 0}, remove: 5}
"""
_INCIDENT_WRONG = """\
name: x
title: t
story: s
topics: [{name: a, partitons: 3}]
clients: [{name: a, program: p}]
proxy: {listen: nonsense}
faults: [{kind: errror}]
runs:
  - {name: one, faults: [{kind: close}, {kind: delay}]}
  - {name: two, version: 4, steps: [{at: soon, clear: true}]}
"""


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (
            _EVERYTHING_WRONG,
            "listen seeed faults[0].kind faults[1].match.api_key faults[1].trigger.times faults[1].delay_ms"
            " steps[0].at steps[0].add.phase steps[1].after.fault steps[1].after.hits steps[1].remove",
        ),
        (
            _INCIDENT_WRONG,
            "topics[0].partitons clients[0].role runs[1].version proxy.listen faults[0].kind runs[0].faults[1].delay_ms"
            " runs[1].steps[0].at",
        ),
    ],
    ids=["config", "incident"],
)
def test_check_tells_every_problem_with_its_path(tmp_path: Path, text: str, paths: str) -> None:
    config = tmp_path / "document.yaml"
    config.write_text(text)
    checked = run("check", str(config), "--json")
    assert checked.returncode == 1
    told = {problem["path"]: problem["message"] for problem in json.loads(checked.stdout)["problems"]}
    assert sorted(told) == sorted(paths.split())
    assert all(told.values())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--tls-cert", "/nowhere/cert.pem"], "tls_cert: /nowhere/cert.pem: No such file or directory"),
        (
            ["--tls-client-ca", "/nowhere/ca.pem"],
            "tls_client_ca: needs tls_cert: without it clients are served in plaintext; give --tls-cert FILE too",
        ),
        (["--relay-sasl-mechanism", "PLAIN"], "relay_sasl_password_file: is needed with relay_sasl_mechanism"),
        (
            [
                *("--relay-sasl-mechanism", "PLAIN", "--relay-sasl-username", "a"),
                *("--relay-sasl-password-file", "/nowhere/password"),
            ],
            "relay_sasl_password_file: /nowhere/password: No such file or directory",
        ),
    ],
)
def test_a_file_that_can_not_be_used_is_one_line_and_exit_2(flags: list[str], said: str) -> None:
    done = run("run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", *flags)
    assert (done.returncode, done.stderr.strip()) == (2, f"notleader run: {said}")


def test_what_was_never_hit_is_told_at_the_end(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        """\
kafka: 127.0.0.1:1
listen: 127.0.0.1:0
admin: null
faults:
  - {name: nobody, kind: close}
steps:
  - {at: 0, add: {name: early, kind: refuse, match: {listener: nowhere}}}
  - {at: 100ms, remove: early, add: {name: late, kind: refuse, match: {listener: nowhere}}}
  - {after: {fault: nobody, hits: 1}, clear: true}
"""
    )
    command = [sys.executable, "-m", "notleader", "run", "--config", str(config), "--verbose"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "still trying" in line and said.count("still trying") == 2:
            process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    process.stderr.close()
    for name in ("nobody (close)", "early (refuse)", "late (refuse)"):
        assert f"fault {name} was never hit" in said
    assert "1 of 3 steps were never due" in said


def test_of_many_rules_that_were_never_hit_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"faults": [{"name": f"rule-{number}", "kind": "close"} for number in range(1000)]}))
    command = [sys.executable, "-m", "notleader", "run", "--kafka=127.0.0.1:1", "--listen=127.0.0.1:0", "--json"]
    command += [f"--config={config}", "--admin=none"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said.count("was never hit") == 20
    assert "fault rule-0 (close) was never hit" in said
    assert "nor were 980 others" in said


def test_wrong_use_is_exit_2() -> None:
    assert run("run", "--no-such-flag").returncode == 2
    missing = run("run")
    assert missing.returncode == 2
    assert "--kafka HOST:PORT" in missing.stderr


@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_with_the_capture_on_disk(
    kafka: KafkaCluster, tmp_path: Path, number: signal.Signals
) -> None:
    capture = tmp_path / "capture"
    process = subprocess.Popen(
        [*NOTLEADER, "run", "--kafka", kafka.bootstrap, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
         "--capture", str(capture), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        assert set(ready["brokers"]) == {"1"}
        host, port = ready["listen"].split(":")
        asyncio.run(exchange(Endpoint(host, int(port)), request(ApiKey.ApiVersions, 0, 1)))
        process.send_signal(number)
        assert process.wait(10) == 0
    segments = [path for path in capture.rglob("*") if path.is_file()]
    assert [path.suffix for path in segments] == [".parquet"]
