"""In no frame that is kept, of any API and version, is what a rule hides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from notleader.proxy.record.redaction import Redaction
from notleader.proxy.record.rows import COLUMNS
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.schemas import Field
from tests.proxy.record.batches import built
from tests.proxy.wire.frames import random_body

SECRET, TOLD = "payroll-2", "orders"
SECRET_ID, TOLD_ID = UUID(int=77 << 64), UUID(int=88 << 64)
HIDDEN_HEADER = built([(b"key", b"value", [("authorization", b"Bearer x")])])
PLAIN = built([(b"key", b"value", [("trace", b"1")])])
Value = Callable[[Field], Any]


def frames(api_key: int, version: int, asked: dict[str, Any], answered: dict[str, Any]) -> tuple[bytes, bytes]:
    return (
        encode_request_header(api_key, version, 1, "c") + request_codec(api_key, version).encode(asked),
        encode_response_header(api_key, version, 1) + response_codec(api_key, version).encode(answered),
    )


def kept(redaction: Redaction, whole: tuple[bytes, bytes], **row: Any) -> tuple[bytes | None, bytes | None]:
    names = {SECRET_ID: SECRET, TOLD_ID: TOLD}
    return redaction.frames(*whole, dict.fromkeys(COLUMNS) | row, names.get)


def filled(fields: tuple[Field, ...], body: Any, value: Value) -> Any:
    """The body with all text, bytes, records and ids as `value` has them, and without unknown tags."""
    if isinstance(body, list):
        return [filled(fields, one, value) for one in body]
    if body is None:
        return None
    told = {}
    for field in fields:
        if field.kind == "struct":
            told[field.name] = filled(field.fields, body[field.name], value)
        elif field.kind in ("string", "bytes", "records", "uuid"):
            told[field.name] = [value(field) for _ in body[field.name] or ()] if field.is_array else value(field)
        else:
            told[field.name] = body[field.name]
    return told


def plain(field: Field) -> Any:
    """What no rule of these tests is about."""
    if field.kind == "uuid":
        return TOLD_ID if field.name == "topic_id" else UUID(int=0)
    if field.kind == "records":
        return PLAIN
    if field.kind == "bytes":
        return b""
    return TOLD if field.entity == "topicName" else ""


def exchanges(value: Callable[[Random], Value]) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """Random exchanges of every API and version, with what `value` plants at random."""
    rng = Random(31)
    for api_key in ApiKey:
        for version in known_versions(api_key):
            for _ in range(4):
                made = (
                    filled(codec.fields, random_body(codec, rng), value(rng))
                    for codec in (request_codec(api_key, version), response_codec(api_key, version))
                )
                yield f"{api_key.name} v{version}", frames(api_key, version, *made)


def sown(is_meant: Callable[[Field], bool], secret: Callable[[Field, Random], Any]) -> Callable[[Random], Value]:
    """A secret in some of the fields that are meant, and nothing of interest in all others."""
    return lambda rng: lambda field: secret(field, rng) if is_meant(field) and rng.random() < 0.2 else plain(field)


def names_a_topic(field: Field) -> bool:
    return (
        field.entity == "topicName"
        or field.name == "topic_id"
        or field.kind == "bytes"
        or (field.kind == "string" and ("topic" in field.name or field.name in ("resource_name", "error_message")))
    )


def topic_secret(field: Field, rng: Random) -> Any:
    if field.kind == "uuid":
        return rng.choice((SECRET_ID, UUID(int=99)))  # nobody knows whose the last one is
    if field.entity == "topicName":
        return SECRET
    return f"of {SECRET}: no" if field.kind == "string" else f"\x00{SECRET}".encode()


TELLING_CLIENTS = {"client_id", "client_host", "member_id", "host_filter", "entity_name"}
TELLING_GROUPS = {"group_id", "group_ids", "groups", "groups_names", "coordinator_keys"}
TELLING_TRANSACTIONS = {"transactional_id", "transactional_ids", "v3_and_below_transactional_id", "coordinator_keys"}
CASES = [
    (["topic:payroll*=drop"], names_a_topic, topic_secret, (SECRET.encode(), SECRET_ID.bytes, UUID(int=99).bytes)),
    (["topic:*=hash"], names_a_topic, topic_secret, (SECRET.encode(), SECRET_ID.bytes, UUID(int=99).bytes)),
    (["field:topic=hash"], lambda f: f.entity == "topicName", topic_secret, (SECRET.encode(), TOLD.encode())),
    (["field:topic_id=drop"], lambda _: False, topic_secret, (TOLD_ID.bytes,)),
    *(
        (rules, lambda f, n=names: f.name in n and f.kind == "string", lambda *_: "alien-1", (b"alien-1",))
        for rules, names in (
            (["field:client_id=drop", "field:client_addr=drop"], TELLING_CLIENTS),
            (["field:group_id=hash"], TELLING_GROUPS),
            (["field:transactional_id=hash"], TELLING_TRANSACTIONS),
            (["field:principal=drop"], {"principal", "principal_name", "owner_principal_name", "user", "entity_name"}),
        )
    ),
    (["header:authorization=drop"], lambda f: f.kind == "records", lambda *_: HIDDEN_HEADER, (b"Bearer x",)),
    (["field:key_hashes=drop"], lambda _: False, topic_secret, (b"\x06key",)),
]


@pytest.mark.parametrize(("rules", "is_meant", "secret", "hidden"), CASES, ids=lambda value: repr(value)[:40])
def test_what_is_hidden_is_in_no_frame(
    rules: list[str],
    is_meant: Callable[[Field], bool],
    secret: Callable[[Field, Random], Any],
    hidden: tuple[bytes, ...],
) -> None:
    redaction = Redaction(rules)
    planted = left = 0
    for name, whole in exchanges(sown(is_meant, secret)):
        told = kept(redaction, whole)
        planted += any(word in frame for frame in whole for word in hidden)
        left += told[0] is not None
        for frame in told:
            assert not any(word in (frame or b"") for word in hidden), name
    assert planted > 20
    assert left > 300, "what has nothing of it is kept"


@pytest.mark.parametrize(
    "rule",
    ["topic:payroll*=drop", "field:client_id=drop", "header:authorization=drop", "header:notleader-id=drop"],
)
def test_a_frame_without_any_of_it_is_kept(rule: str) -> None:
    for _, whole in exchanges(lambda _: plain):
        assert kept(Redaction([rule]), whole) == whole


@pytest.mark.parametrize("name", ["ours-6f1b0a52-6b5e-4d6f-9a43-1f2d0c1b7a10", "Qd1oYb3jRVy7cZyH5n2w0A"])
def test_the_member_id_of_the_client_itself_is_kept_without_its_name(name: str) -> None:
    asked = {"group_id": "g", "generation_id": 1, "member_id": name}
    request, _ = kept(Redaction(["field:client_id=drop"]), frames(12, 3, asked, {}), client_id="ours", group_id="g")
    assert request is not None
    assert b"ours" not in request
    theirs = frames(12, 3, asked | {"member_id": f"theirs-{name[-36:]}"}, {})
    assert kept(Redaction(["field:client_id=drop"]), theirs, client_id="ours", group_id="g") == (None, None)


def test_a_batch_cut_off_at_the_end_of_a_fetch_may_hold_any_header() -> None:
    answer = {
        "responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": PLAIN + HIDDEN_HEADER[:-3]}]}]
    }
    assert kept(Redaction(["header:authorization=drop"]), frames(1, 12, {}, answer)) == (None, None)


def test_a_tagged_field_that_nobody_knows_may_tell_anything() -> None:
    tagged = frames(12, 4, {"group_id": "g", "_tags": {900: b"payroll"}}, {})
    assert kept(Redaction(["topic:payroll*=drop"]), tagged) == (None, None)
    assert kept(Redaction(["header:authorization=drop"]), tagged) == tagged


def test_what_cannot_be_read_is_not_kept() -> None:
    redaction = Redaction(["field:client_id=drop"])
    assert kept(redaction, (encode_request_header(0, 9, 1, "c") + b"\x00", b"\x00\x00\x00\x01")) == (None, None)
    assert kept(redaction, (encode_request_header(0, 9, 1, "c")[:2] + b"\x7f\xff" + bytes(9), b"")) == (None, None)
