"""No secret of any message is left in a frame that is kept, and all else of the frame is."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.schemas import Field
from notleader.proxy.wire.secret_fields import (
    CONFIG_VALUE,
    SECRET,
    SHOWN_BYTES,
    SHOWN_RECORDS,
    SHOWN_STRINGS,
    is_secret_config,
    without_secrets,
)
from notleader.proxy.wire.view import Request, Response
from tests.proxy.wire.frames import all_codecs, random_body, recorded

PLANTED = "hunter2-planted"
# What Kafka's documentation calls a secret, written down here and not read from the code under test.
HOLDS = {
    (ApiKey.RenewDelegationToken, "request", "hmac"),
    (ApiKey.ExpireDelegationToken, "request", "hmac"),
    (ApiKey.CreateDelegationToken, "response", "hmac"),
    (ApiKey.DescribeDelegationToken, "response", "hmac"),
    (ApiKey.AlterUserScramCredentials, "request", "salt"),
    (ApiKey.AlterUserScramCredentials, "request", "salted_password"),
    (ApiKey.SaslAuthenticate, "request", "auth_bytes"),
    (ApiKey.SaslAuthenticate, "response", "auth_bytes"),
    (ApiKey.Envelope, "request", "request_data"),
    (ApiKey.Envelope, "response", "response_data"),
    (ApiKey.FetchSnapshot, "response", "unaligned_records"),
    (ApiKey.AlterConfigs, "request", "value"),
    (ApiKey.IncrementalAlterConfigs, "request", "value"),
    (ApiKey.CreateTopics, "request", "value"),
    (ApiKey.CreateTopics, "response", "value"),
    (ApiKey.DescribeConfigs, "response", "value"),
    (ApiKey.StreamsGroupHeartbeat, "request", "value"),
}


def fields_of(fields: tuple[Field, ...], beside: tuple[Field, ...] = ()) -> Iterator[tuple[Field, tuple[Field, ...]]]:
    for field in fields:
        yield field, fields
        yield from fields_of(field.fields)


def test_somebody_has_said_of_every_field_whether_it_is_a_secret() -> None:
    unsaid = set()
    for codec in all_codecs():
        for field, siblings in fields_of(codec.fields):
            shown = {"bytes": SHOWN_BYTES, "string": SHOWN_STRINGS, "records": SHOWN_RECORDS}.get(field.kind)
            if shown is None or field.name in shown or field.name in SECRET:
                continue
            if field.name == CONFIG_VALUE and {"name", "key"} & {one.name for one in siblings}:
                continue
            unsaid.add((ApiKey(codec.api_key).name, codec.direction, field.name, field.kind))
    assert not unsaid, "secret or not? notleader.proxy.wire.secret_fields has to say"


def test_no_name_is_listed_that_kafka_has_not() -> None:
    names = {field.name for codec in all_codecs() for field, _ in fields_of(codec.fields)}
    assert set(SECRET) | SHOWN_BYTES | SHOWN_RECORDS | SHOWN_STRINGS <= names
    assert not set(SECRET) & (SHOWN_BYTES | SHOWN_RECORDS | SHOWN_STRINGS)


def planted(value: Any, fields: tuple[Field, ...], secret: set[str]) -> Any:
    """The body with a secret in each field of these names, and in each configuration a name that says so."""
    if isinstance(value, list):
        return [planted(one, fields, secret) for one in value]
    if value is None:
        return None
    body = dict(value)
    for field in fields:
        if field.name in secret:
            body[field.name] = PLANTED if field.kind == "string" else PLANTED.encode()
            for name in {"name", "key"} & body.keys():
                body[name] = "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"
        elif field.kind == "struct":
            body[field.name] = planted(body[field.name], field.fields, secret)
    return body


def frames(api_key: ApiKey, version: int, asked: dict[str, Any], answered: dict[str, Any]) -> tuple[bytes, bytes]:
    return (
        encode_request_header(api_key, version, 1, "c") + request_codec(api_key, version).encode(asked),
        encode_response_header(api_key, version, 1) + response_codec(api_key, version).encode(answered),
    )


@pytest.mark.parametrize("api_key", sorted({key for key, _, _ in HOLDS}), ids=lambda key: ApiKey(key).name)
def test_what_is_secret_is_asterisks_and_the_rest_is_as_it_was(api_key: ApiKey) -> None:
    rng = Random(25)
    hidden = 0
    whole_only = api_key in (ApiKey.SaslAuthenticate, ApiKey.Envelope, ApiKey.FetchSnapshot)
    secrets = {
        way: {name for key, one, name in HOLDS if (key, one) == (api_key, way)} for way in ("request", "response")
    }
    for version in known_versions(api_key):
        ask, answer = request_codec(api_key, version), response_codec(api_key, version)
        for _ in range(20):
            asked = planted(random_body(ask, rng), ask.fields, secrets["request"])
            answered = planted(random_body(answer, rng), answer.fields, secrets["response"])
            whole = frames(api_key, version, asked, answered)
            kept = without_secrets(api_key, version, *whole)
            if whole_only:
                assert kept == (None, None)
                hidden += 1
                continue
            for before, after in zip(whole, kept, strict=True):
                assert after is not None
                assert len(after) == len(before)
                hidden += before.count(PLANTED.encode())
                assert PLANTED.encode() not in after
            blotted = Request(kept[0] or b"")
            assert same(Request(whole[0]).body, blotted.body)
            assert same(Response(whole[1], blotted).body, Response(kept[1] or b"", blotted).body)
    assert hidden > 5


def same(before: Any, after: Any) -> bool:
    """Whether two bodies differ in nothing but asterisks of the same length."""
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(same(before[name], after[name]) for name in before)
    if isinstance(before, list):
        return len(before) == len(after) and all(map(same, before, after))
    if isinstance(before, (str, bytes, memoryview)) and before != after:
        raw = [
            one.encode("utf-8", "surrogateescape") if isinstance(one, str) else bytes(one) for one in (before, after)
        ]
        return len(raw[0]) == len(raw[1]) and bool(set(raw[1]) <= set(b"*"))
    return bool(before == after)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.password", "x"),
        ("ssl.key.password", "x"),
        ("ssl.keystore.key", "x"),
        ("listener.name.internal.plain.sasl.jaas.config", "x"),
        ("delegation.token.secret.key", "x"),
        ("password.encoder.old.secret", "x"),
        ("sasl.oauthbearer.client.credentials.client.secret", "x"),
        ("remote.storage.s3.access.key", "x"),
        ("my.plugin.apiKey", "x"),
        ("confluent.basic.auth.user.info", "x"),
        ("reporter.url", "https://bob:hunter2@metrics.example"),
        ("plugin.options", 'x PlainLoginModule required username="a" password="b";'),
        ("plugin.pem", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_a_configuration_is_known_as_secret_by_its_name_or_its_look(name: str, value: str) -> None:
    assert is_secret_config(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("min.insync.replicas", "2"),
        ("compression.type", "zstd"),
        ("advertised.listeners", "PLAINTEXT://broker-1:9092"),
        ("ssl.keystore.location", "/etc/kafka/keystore.jks"),
        ("message.timestamp.type", "CreateTime"),
    ],
)
def test_a_configuration_that_is_none_is_shown(name: str, value: str) -> None:
    assert not is_secret_config(name, value)


def test_what_the_broker_calls_sensitive_is_hidden_whatever_its_name() -> None:
    config = {"name": "custom", "value": PLANTED, "is_sensitive": True}
    told = {"results": [{"resource_type": 4, "resource_name": "1", "configs": [config]}]}
    _, kept = without_secrets(ApiKey.DescribeConfigs, 4, *frames(ApiKey.DescribeConfigs, 4, {"resources": []}, told))
    assert kept is not None
    assert PLANTED.encode() not in kept
    assert b"custom" in kept


def test_an_error_that_repeats_a_secret_is_told_without_it() -> None:
    config = {"name": "ssl.key.password", "config_operation": 0, "value": PLANTED}
    asked = {"resources": [{"resource_type": 4, "resource_name": "1", "configs": [config]}]}
    refused = {"error_code": 40, "error_message": f"Invalid value {PLANTED} for ssl.key.password"}
    told = {"responses": [refused | {"resource_type": 4, "resource_name": "1"}]}
    whole = frames(ApiKey.IncrementalAlterConfigs, 1, asked, told)
    _, kept = without_secrets(ApiKey.IncrementalAlterConfigs, 1, *whole)
    assert kept is not None
    assert PLANTED.encode() not in kept
    assert b"Invalid value *" in kept


def test_what_cannot_be_read_is_left_out_where_secrets_may_be() -> None:
    whole = frames(ApiKey.RenewDelegationToken, 2, {"hmac": PLANTED.encode()}, {})
    assert without_secrets(ApiKey.RenewDelegationToken, 2, whole[0][:-3], None) == (None, None)
    assert without_secrets(ApiKey.RenewDelegationToken, 99, *whole) == (None, None)
    assert without_secrets(31_000, 0, *whole) == (None, None)
    assert without_secrets(ApiKey.RenewDelegationToken, 2, None, whole[1]) == (None, None)
    surplus, _ = without_secrets(ApiKey.RenewDelegationToken, 2, whole[0] + PLANTED.encode(), None)
    assert surplus is not None
    assert PLANTED.encode() not in surplus
    assert len(surplus) == len(whole[0]) + len(PLANTED)


def test_what_real_clients_say_stays_as_it_is_but_for_secrets() -> None:
    held = {ApiKey(key) for key, _, _ in HOLDS}
    kept = 0
    for exchange in recorded():
        header = Request(exchange.request).header
        told = without_secrets(header.api_key, header.api_version, exchange.request, exchange.response)
        if header.api_key not in held:
            assert told == (exchange.request, exchange.response)
            kept += 1
    assert kept > 100
