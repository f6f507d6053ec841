"""Names as people write them, and what is said when they mistype."""

from __future__ import annotations

import pytest

from notleader.proxy.wire.names import RETRIABLE_CODES, ApiKey, ErrorCode, parse_api_key, parse_error_code


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NOT_LEADER_OR_FOLLOWER", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("NOT_LEADER_FOR_PARTITION", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("not-leader-or-follower", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("NotLeaderOrFollower", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("6", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("-1", ErrorCode.UNKNOWN_SERVER_ERROR),
        ("UNKNOWN", ErrorCode.UNKNOWN_SERVER_ERROR),
        ("GROUP_COORDINATOR_NOT_AVAILABLE", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_error_codes(written: str | int, meant: ErrorCode) -> None:
    assert parse_error_code(written) is meant


@pytest.mark.parametrize("key", list(ApiKey))
def test_every_api_key_by_name_and_number(key: ApiKey) -> None:
    assert parse_api_key(key.name) is parse_api_key(key.name.upper()) is parse_api_key(int(key)) is key


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_by_name_and_number(code: ErrorCode) -> None:
    assert parse_error_code(code.name) is parse_error_code(str(int(code))) is code


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("NOT_LEADR_FOR_PARTITON", "did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        ("TOPIC_AUTHORISATION_FAILED", "did you mean 'TOPIC_AUTHORIZATION_FAILED'?"),
        ("4711", "4711 is no error code"),
        ("", "is no error code"),
    ],
)
def test_a_typo_gets_the_nearest_name(written: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        parse_error_code(written)


def test_an_api_that_is_none() -> None:
    with pytest.raises(ValueError, match="did you mean 'Produce'"):
        parse_api_key("Prodcue")
    with pytest.raises(ValueError, match="999 is no API key"):
        parse_api_key(999)


def test_old_api_names() -> None:
    assert parse_api_key("ListClientMetricsResources") is ApiKey.ListConfigResources


def test_what_clients_retry() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in RETRIABLE_CODES
    assert ErrorCode.MESSAGE_TOO_LARGE not in RETRIABLE_CODES
