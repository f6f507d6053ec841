"""How the proxy itself authenticates, as a script: a broker's side of PLAIN and SCRAM answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.config.relay_login import relay_password
from notleader.proxy.config.settings import ConfigError, load
from notleader.proxy.session.login import Login, LoginError
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request
from tests.proxy.session.conversation import response

_SALT, _ITERATIONS = b"salt", 4096


def asked(data: bytes) -> Request:
    request = Request(data[4:])
    assert len(data) == 4 + int.from_bytes(data[:4], "big")
    return request


def token(data: bytes) -> bytes:
    request = asked(data)
    assert request.header.api_key == ApiKey.SaslAuthenticate
    return bytes(request.body["auth_bytes"])


def handshake(error_code: int = 0) -> bytes:
    return response(ApiKey.SaslHandshake, 1, 0, {"error_code": error_code, "mechanisms": ["PLAIN"]})


def answer(auth_bytes: bytes = b"", **other: Any) -> bytes:
    return response(ApiKey.SaslAuthenticate, 1, 0, {"error_code": 0, "auth_bytes": auth_bytes, **other})


def test_plain_in_two_steps_and_in_crumbs() -> None:
    login = Login("PLAIN", "relay", "secret")
    assert asked(login.start()).body == {"mechanism": "PLAIN"}
    sent = b"".join(login.received(bytes([byte])) for byte in handshake())
    assert token(sent) == b"relay\0relay\0secret"
    assert not login.is_done
    assert login.received(answer()) == b""
    assert login.is_done


@pytest.mark.parametrize("honest", [True, False])
def test_scram_proves_the_password_and_asks_the_broker_for_a_proof(honest: bool) -> None:
    login = Login("SCRAM-SHA-256", "re,lay", "secret")
    login.start()
    first = token(login.received(handshake())).decode()
    assert first.startswith("n,,n=re=2Clay,r=")
    nonce = first.partition(",r=")[2] + "broker"
    server_first = f"r={nonce},s={base64.b64encode(_SALT).decode()},i={_ITERATIONS}"
    final = token(login.received(answer(server_first.encode()))).decode()
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", _SALT, _ITERATIONS)
    message = f"{first[3:]},{server_first},{final.rpartition(',p=')[0]}".encode()
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = base64.b64decode(final.rpartition(",p=")[2])
    assert bytes(a ^ b for a, b in zip(proof, signature, strict=True)) == client_key
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message if honest else b"", "sha256")
    last = answer(b"v=" + base64.b64encode(verifier))
    if honest:
        assert login.received(last) == b""
    else:
        with pytest.raises(LoginError, match="failed to prove who it is"):
            login.received(last)
    assert login.is_done is honest


def test_a_refusal_says_why_and_never_with_what() -> None:
    login = Login("SCRAM-SHA-512", "relay", "secret")
    login.start()
    with pytest.raises(LoginError, match=r"^UNSUPPORTED_SASL_MECHANISM: it takes PLAIN$"):
        login.received(handshake(33))
    login = Login("PLAIN", "relay", "secret")
    login.start()
    login.received(handshake())
    with pytest.raises(LoginError, match=r"^SASL_AUTHENTICATION_FAILED: wrong$") as refused:
        login.received(answer(error_code=58, error_message="wrong"))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("data", [b"\x7f\0\0\0", b"\0\0\0\x01", handshake() + b"more", b"\0\0\0\x05\0\0\0\0\0"])
def test_an_answer_that_is_none_ends_it(data: bytes) -> None:
    login = Login("PLAIN", "relay", "secret")
    login.start()
    with pytest.raises(LoginError):
        login.received(data)


def test_the_settings_go_together(tmp_path: Path) -> None:
    password = tmp_path / "password"
    whole = {
        "kafka": "k:1",
        "relay_sasl_mechanism": "PLAIN",
        "relay_sasl_username": "relay",
        "relay_sasl_password_file": str(password),
    }
    assert relay_password(load({"kafka": "k:1"})) is None
    for missing in ("relay_sasl_username", "relay_sasl_password_file"):
        with pytest.raises(ConfigError, match=missing):
            relay_password(load({key: value for key, value in whole.items() if key != missing}))
    with pytest.raises(ConfigError, match="No such file"):
        relay_password(load(whole))
    password.write_text("secret\n")
    assert relay_password(load(whole)) == "secret"
