"""What settings say together: one that means nothing without another is refused, wherever it was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.config.settings import ConfigError, load

KAFKA = {"kafka": "127.0.0.1:1"}
# A setting of no use, what it needs, and a value of that.
ALONE: list[tuple[str, Any, str, Any]] = [
    ("tls_key", "key.pem", "tls_cert", "cert.pem"),
    ("tls_client_ca", "ca.pem", "tls_cert", "cert.pem"),
    ("tls_kafka_ca", "ca.pem", "tls_kafka", True),
    ("tls_kafka_cert", "cert.pem", "tls_kafka", True),
    ("tls_kafka_key", "key.pem", "tls_kafka_cert", "cert.pem"),
    ("tls_kafka_server_name", "broker", "tls_kafka", True),
    ("tls_kafka_verify", False, "tls_kafka", True),
]


@pytest.mark.parametrize(("name", "value", "needed", "other"), ALONE)
def test_tls_that_would_not_be_spoken_is_refused(
    name: str, value: Any, needed: str, other: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(KAFKA | {name: value})
    (problem,) = refused.value.problems
    assert problem.path == name
    assert problem.message.startswith(f"needs {needed}: without it ")
    assert f"give --{needed.replace('_', '-')}" in problem.message
    file = tmp_path / "config.yaml"
    file.write_text(f"{name}: {str(value).lower()}\n")
    with pytest.raises(ConfigError) as refused:
        load(KAFKA, file)
    assert refused.value.problems == [problem]
    assert load(KAFKA | {"tls_kafka": True, needed: other}, file)
    monkeypatch.setenv("NOTLEADER_" + name.upper(), str(value).lower())
    with pytest.raises(ConfigError):
        load(KAFKA)


def test_a_setting_at_its_default_needs_nothing() -> None:
    assert load(KAFKA | {"tls_kafka_verify": True, "tls_kafka_ca": None})


def test_plaintext_that_was_asked_for_is_spoken(tmp_path: Path) -> None:
    """A file for many runs, and a flag that turns TLS off for one."""
    file = tmp_path / "config.yaml"
    file.write_text("tls_kafka: true\ntls_kafka_ca: ca.pem\n")
    assert not load(KAFKA | {"tls_kafka": False}, file).tls_kafka


@pytest.mark.parametrize("name", ["kafka", "listen", "admin"])
def test_a_port_alone_is_told_how_it_is_written(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{name}: 9093\n")
    with pytest.raises(ConfigError) as refused:
        load(KAFKA if name != "kafka" else {}, file)
    (problem,) = refused.value.problems
    assert (problem.path, problem.message) == (name, "9093 is not HOST:PORT; a port of the loopback address is ':9093'")


@pytest.mark.parametrize("variable", ["NOTLEADER_TOKEN", "NOTLEADER_ADMIN_TOKEN"])
def test_the_token_is_taken_from_either_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "secret")
    assert load(KAFKA).admin_token == "secret"


@pytest.mark.parametrize("name", ["workers", "seed", "broker_ports", "capture_stop_s"])
def test_a_truth_value_is_no_number(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: a number expected, got true"):
        load(KAFKA | {name: True})


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_that_no_capture_could_name_is_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match="seed"):
        load(KAFKA | {"seed": seed})
    assert load(KAFKA | {"seed": 2**63 - 1}).seed == 2**63 - 1


@pytest.mark.parametrize("name", ["capture_stop_s", "capture_rotate_s", "capture_keep_s"])
def test_a_time_beyond_all_clocks_is_refused(name: str) -> None:
    for seconds in (1e10, float("inf")):
        with pytest.raises(ConfigError, match=name):
            load(KAFKA | {name: seconds})


def test_an_empty_variable_says_nothing_but_that_there_is_no_http_api(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CAPTURE", "SEED", "ADMIN"):
        monkeypatch.setenv(f"NOTLEADER_{name}", "")
    settings = load(KAFKA)
    assert (settings.capture, settings.admin) == (None, None)
