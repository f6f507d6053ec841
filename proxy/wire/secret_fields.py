"""Which fields of Kafka's messages hold secrets, from the definitions, and frames with asterisks in their place. Pure.

A field is shown only when its name stands in a list here. Whatever a newer Kafka adds is hidden, and a test fails,
until somebody has said which it is. Values of configurations are judged one by one, by the configuration's name, by
what the broker says of it (``is_sensitive``) and by the look of the value.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from notleader.proxy.wire.codec import Body, Codec, is_known, known_versions, request_codec, response_codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import UnknownVersion, WireError
from notleader.proxy.wire.schemas import Field
from notleader.proxy.wire.view import Request, Response

SHOWN_BYTES: Final = frozenset({"assignment", "member_assignment", "member_metadata", "metadata", "metrics"})
"""Fields of type bytes that are no secrets: what group members tell each other, and a client's metrics."""

SHOWN_RECORDS: Final = frozenset({"records"})
"""Records of Produce, Fetch and ShareFetch, which who asks for whole frames has asked for."""

SECRET: Final = {
    "auth_bytes": "what a client proves itself with",
    "hmac": "a delegation token's HMAC is its password (KIP-48)",
    "salt": "with the next, all that SCRAM keeps of a password (KIP-554)",
    "salted_password": "as good as the password for whoever speaks SCRAM",
    "request_data": "any other request, secrets included (KIP-590)",
    "response_data": "any other answer (KIP-590)",
    "request_principal": "a serialized principal, with whatever a plugin put there (KIP-590)",
    "client_host_address": "travels with it",
    "unaligned_records": "the cluster's metadata log: SCRAM credentials, tokens, configurations (KIP-630)",
}
"""Fields that are hidden wherever they stand, and why."""

WHOLLY_SECRET: Final = frozenset({ApiKey.SaslAuthenticate, ApiKey.Envelope, ApiKey.FetchSnapshot})
"""APIs whose frames carry little else: they are kept at no level, for even the length of a password is told by none."""

CONFIG_VALUE: Final = "value"
"""A configuration's value where it stands beside ``name`` or ``key``: shown unless something says that it is secret."""

SHOWN_STRINGS: Final = frozenset(
    """
    acknowledge_error_message assignor_name batch_index_error_message client_host client_id client_software_name
    client_software_version cluster_id committed_metadata configuration_keys coordinator_keys documentation entity_name
    entity_type error_message feature group_id group_ids group_instance_id group_state group_type groups groups_names
    host host_filter host_name instance_id key leader listener log_dir match mechanism mechanisms member_id metadata
    name owner_principal_name owner_principal_type path principal principal_filter principal_name principal_type
    process_id protocol_data protocol_name protocol_type rack rack_id reason repartition_sink_topics requested_metrics
    resource_name resource_name_filter server_assignor sink_topic source_topic_regex source_topics state_filters
    states_filter status_detail stores subscribed_topic_names subscribed_topic_regex subtopology_id successors token_id
    token_requester_principal_name token_requester_principal_type topic topic_name topic_names transaction_state
    transactional_id transactional_id_pattern transactional_ids types_filter unknown_state_filters user v0_host
    v3_and_below_transactional_id
    """.split()  # noqa: SIM905 (one to a line they would fill two pages)
)
"""Strings that are no secrets. A token's id is its user name."""

_SECRET_NAME: Final = re.compile(
    r"passw|passphrase|secret|credential|jaas|token|private|certificate|auth\.user|user\.info|pem$|keys?$|sas$"
)
_SECRET_VALUE: Final = re.compile(
    r"passw[a-z]*[\"']?\s?[=:]|passphrase|secret|credential|loginmodule|token[\"']?\s?[=:]|key[\"']?\s?="
    r"|-----begin|://[^/\s:@]*:[^/\s@]+@"
)
_SHORTEST_ECHO: Final = 4
"""Shorter secrets are not looked for in error messages: every other word would be hidden."""


def is_secret_config(name: str, value: str | None) -> bool:
    """Whether a configuration's value is hidden: by its name, as Kafka's own are called, or by its look."""
    return bool(_SECRET_NAME.search(name.lower()) or (value and _SECRET_VALUE.search(value.lower())))


@cache
def may_hold_secrets(codec: Codec) -> bool:
    """Whether a field of this message is, or may be, a secret."""
    return _any_hidden(codec.fields)


def _any_hidden(fields: tuple[Field, ...]) -> bool:
    return any(is_hidden(field) or field.name == CONFIG_VALUE or _any_hidden(field.fields) for field in fields)


def is_hidden(field: Field) -> bool:
    """Whether a field is hidden wherever it stands: it is a secret, or nobody has said that it is none."""
    if field.kind == "bytes":
        return field.name not in SHOWN_BYTES
    if field.kind == "records":
        return field.name not in SHOWN_RECORDS
    return field.kind == "string" and field.name not in SHOWN_STRINGS and field.name != CONFIG_VALUE


@cache
def _could_hold_secrets(api_key: int, api_version: int) -> bool:
    """As `may_hold_secrets` for both directions; True for an API, or a version of one with secrets, that is new."""
    try:
        codecs = request_codec(api_key, api_version), response_codec(api_key, api_version)
    except UnknownVersion:
        versions = known_versions(api_key)
        return not versions or any(_could_hold_secrets(api_key, version) for version in versions)
    return any(map(may_hold_secrets, codecs))


def without_secrets(
    api_key: int, api_version: int, request: bytes | None, response: bytes | None
) -> tuple[bytes | None, bytes | None]:
    """Both frames of an exchange (without their lengths) with as many asterisks as a secret has bytes in its place.

    None where a message with secrets can't be read, wouldn't be the same length again, or is nothing but a secret.
    """
    if not _could_hold_secrets(api_key, api_version):
        return request, response
    if request is None or api_key in WHOLLY_SECRET or not is_known(api_key, api_version):
        return None, None
    secrets: set[str] = set()
    try:
        asked = Request(request)
    except WireError:
        return None, None
    return _blotted(asked, secrets), None if response is None else _blotted(Response(response, asked), secrets)


def _blotted(message: Request | Response, secrets: set[str]) -> bytes | None:
    """The frame with secrets hidden; those that are text are added to ``secrets``, and hidden in all other text."""
    try:
        hidden = _hide(message.codec.fields, message.body, secrets)
        told = bytes(message.encode(hidden))
        surplus = message.surplus
    except WireError:
        return None
    if len(told) != len(message.frame):
        return None  # written in another way than Kafka writes it: who knows what would be where
    return told[: len(told) - len(surplus)] + b"*" * len(surplus)


def _hide(fields: tuple[Field, ...], body: Body, secrets: set[str]) -> Body:
    """A copy of a struct without its secrets."""
    told = dict(body)
    for field in fields:
        value = body[field.name]
        if value is None:
            continue
        if is_hidden(field):
            told[field.name] = (
                [_asterisks(one, secrets) for one in value] if field.is_array else _asterisks(value, secrets)
            )
        elif field.name == CONFIG_VALUE and field.kind == "string":
            if body.get("is_sensitive") or is_secret_config(body.get("name") or body.get("key") or "", value):
                told[field.name] = _asterisks(value, secrets)
        elif field.kind == "struct":
            told[field.name] = (
                [_hide(field.fields, one, secrets) for one in value]
                if field.is_array
                else _hide(field.fields, value, secrets)
            )
    for field in fields:
        # What a broker doesn't like of a value it may repeat in its error.
        if secrets and field.kind == "string" and not field.is_array and told[field.name]:
            told[field.name] = _without(told[field.name], secrets)
    if "_tags" in body:
        told["_tags"] = {tag: b"*" * len(content) for tag, content in body["_tags"].items()}
    return told


def _asterisks(value: Any, secrets: set[str]) -> Any:
    if not isinstance(value, str):
        return b"*" * len(value)
    if len(value) >= _SHORTEST_ECHO:
        secrets.add(value)
    return "*" * _size(value)


def _without(text: str, secrets: set[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "*" * _size(secret))
    return text


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
