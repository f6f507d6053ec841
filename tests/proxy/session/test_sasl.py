"""Who authenticated is known once the broker has said so; what it was proved with is kept nowhere."""

from __future__ import annotations

import base64
import json

import pytest

from notleader.proxy.pump import Exchange
from notleader.proxy.record.frames import pack_exchange
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.wire.codec import known_versions
from notleader.proxy.wire.names import ApiKey
from tests.proxy.record.made import table_of_block
from tests.proxy.session.conversation import Conversation, framed, request, response
from tests.proxy.session.test_session import heart_answer, heartbeat

_CLAIMS = base64.urlsafe_b64encode(json.dumps({"sub": "alice"}).encode()).rstrip(b"=")
# Of each mechanism what the client says, and what the broker answers that lets it in.
LOGINS = {
    "PLAIN": [(b"\0alice\0secret", b"")],
    "SCRAM-SHA-512": [(b"n,,n=alice,r=secret", b"r=secret1,s=x,i=4096"), (b"c=biws,r=secret1,p=secret", b"v=x")],
    "OAUTHBEARER": [(b"n,,\x01auth=Bearer x." + _CLAIMS + b".secret\x01\x01", b"")],
}
_REFUSED = 58  # SASL_AUTHENTICATION_FAILED


def authenticate(number: int, token: bytes) -> bytes:
    return request(ApiKey.SaslAuthenticate, 2, number, {"auth_bytes": token})


def authenticated(number: int, token: bytes, error_code: int = 0) -> bytes:
    said = "Authentication failed" if error_code else None
    return response(
        ApiKey.SaslAuthenticate, 2, number, {"error_code": error_code, "error_message": said, "auth_bytes": token}
    )


def talk_of(mechanism: str, *faults: dict[str, object], version: int = 1) -> Conversation:
    """A client that may authenticate now."""
    talk = Conversation(*faults, level=Level.PARTITION)
    talk.client(request(ApiKey.SaslHandshake, version, 1, {"mechanism": mechanism}))
    talk.broker(response(ApiKey.SaslHandshake, version, 1, {"mechanisms": [mechanism]}))
    return talk


def row(talk: Conversation, exchange: Exchange, level: Level = Level.PARTITION) -> dict[str, object]:
    """The row of an exchange, by way of a journal too."""
    rows = Rows("run", "proxy", 7, level)
    made = dict(zip(COLUMNS, rows.of(exchange), strict=True))
    (journalled,) = table_of_block(None, rows, [exchange]).to_pylist()
    assert {name: journalled[name] for name in ("error_code", "principal", "partitions", "detail")} == {
        name: made[name] for name in ("error_code", "principal", "partitions", "detail")
    }
    assert b"secret" not in pack_exchange(exchange, Level.PAYLOAD)
    return made


@pytest.mark.parametrize("mechanism", LOGINS)
def test_who_authenticated_is_known_when_the_broker_lets_it_in(mechanism: str) -> None:
    talk = talk_of(mechanism)
    for number, (token, answer) in enumerate(LOGINS[mechanism], 2):
        assert talk.session.connection.principal is None
        assert talk.client(authenticate(number, token)) == [("to_broker", authenticate(number, token))]
        assert talk.session.connection.principal is None
        assert talk.broker(authenticated(number, answer)) == [("to_client", authenticated(number, answer))]
    last = row(talk, talk.exchanges[-1])
    assert (last["principal"], last["error_code"]) == ("alice", 0)


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("level", list(Level))
def test_a_login_that_is_refused_is_nobodys_and_its_row_has_the_error(mechanism: str, level: Level) -> None:
    talk = talk_of(mechanism)
    *before, (token, _) = LOGINS[mechanism]
    for one, answer in before:
        talk.client(authenticate(2, one))
        talk.broker(authenticated(2, answer))
    talk.client(authenticate(3, token))
    talk.broker(authenticated(3, b"", _REFUSED))
    talk.session.broker_eof(talk.now_us)
    assert talk.session.connection.principal is None
    assert talk.session.connection.asking_principal is None
    refused = row(talk, talk.exchanges[-1], level)
    assert refused["principal"] is None
    assert refused["error_code"] == (None if level is Level.HEADER else _REFUSED)
    assert refused["detail"] is refused["request_frame"] is refused["response_frame"] is None


def test_what_oauthbearer_is_refused_for_comes_as_a_token_first() -> None:
    talk = talk_of("OAUTHBEARER")
    talk.client(authenticate(2, LOGINS["OAUTHBEARER"][0][0]))
    talk.broker(authenticated(2, b'{"status":"invalid_token"}'))
    assert talk.session.connection.principal is None


def test_an_answer_that_never_came_has_no_error() -> None:
    talk = talk_of("PLAIN")
    talk.client(authenticate(2, b"\0alice\0secret"))
    talk.session.broker_eof(talk.now_us)
    talk.commands()
    assert talk.exchanges[-1].outcome == "no_response"
    assert row(talk, talk.exchanges[-1])["error_code"] is None


def test_a_login_refused_in_the_brokers_place_has_its_error() -> None:
    talk = talk_of("PLAIN", {"kind": "error", "error_code": _REFUSED, "match": {"api_key": "SaslAuthenticate"}})
    talk.client(authenticate(2, b"\0alice\0secret"))
    assert row(talk, talk.exchanges[-1])["error_code"] == _REFUSED
    assert talk.session.connection.principal is None


def test_an_answer_to_a_login_that_can_not_be_read_passes() -> None:
    talk = talk_of("PLAIN")
    talk.client(authenticate(2, b"\0alice\0secret"))
    torn = framed(authenticated(2, b"")[4:10])
    assert talk.broker(torn) == [("to_client", torn)]
    newest = known_versions(ApiKey.SaslAuthenticate)[-1] + 1
    unknown = bytearray(authenticate(3, b"\0bob\0secret"))
    unknown[6:8] = newest.to_bytes(2, "big")
    talk.client(bytes(unknown))
    answer = framed((3).to_bytes(4, "big") + b"?")
    assert talk.broker(answer) == [("to_client", answer)]
    assert talk.events == []


@pytest.mark.parametrize("version", [0, 1])
def test_a_rule_knows_whose_a_request_is_that_follows_a_login_at_once(version: int) -> None:
    rule = {"name": "hers", "kind": "delay", "delay_ms": 50, "trigger": {"times": "forever"}}
    rule["match"] = {"principal": "alice", "api_key": "Heartbeat"}
    talk = talk_of("PLAIN", rule, version=version)
    token = b"\0alice\0secret"
    talk.client((framed(token) if version == 0 else authenticate(2, token)) + heartbeat(3))
    assert talk.plan.get("hers").hits == 1
    talk.broker(framed(b"") if version == 0 else authenticated(2, b""))
    assert ("to_broker", heartbeat(3)) in talk.at(50)
    talk.broker(heart_answer(3))
    talk.client(heartbeat(4))
    assert talk.plan.get("hers").hits == 2
    assert talk.exchanges[-1].connection.principal == "alice"


def test_who_is_refused_when_it_authenticates_again_is_who_it_was() -> None:
    talk = talk_of("PLAIN")
    for number, name, error_code in ((2, b"alice", 0), (3, b"bob", _REFUSED)):
        talk.client(authenticate(number, b"\0%s\0secret" % name))
        talk.broker(authenticated(number, b"", error_code))
    assert talk.session.connection.asking_principal == "alice"
