"""Bodies of one version as those of another: fields that it lacks are left out, others get their defaults.

Four APIs changed their shape and not only their fields: where one key, group or member was, there are now several
(KIP-699, KIP-709, KIP-345), and ListOffsets v0 gave several offsets. Recorded bodies are held in the newer shape.
"""

from __future__ import annotations

from typing import Any, Final

from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.schemas import Field

_COORDINATORS: Final = 4
_GROUPS: Final = 8
_MEMBERS: Final = 3


def fitted(fields: tuple[Field, ...], body: Body) -> Body:
    """A body with these fields and no others: its own values where it has some that fit, else the defaults."""
    return {field.name: _value(field, body.get(field.name)) for field in fields}


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None if field.nullable and (field.default is None or field.is_array) else _default(field)
    if field.kind != "struct":
        return value
    if field.is_array:
        return [fitted(field.fields, element) for element in value]
    return fitted(field.fields, value)


def _default(field: Field) -> Any:
    if field.is_array:
        return []
    return fitted(field.fields, {}) if field.kind == "struct" else field.default


def newer_request(api_key: int, api_version: int, body: Body) -> Body:
    """A request in the newer shape."""
    if api_key == ApiKey.FindCoordinator and api_version < _COORDINATORS:
        return {**body, "coordinator_keys": [body["key"]]}
    if api_key == ApiKey.OffsetFetch and api_version < _GROUPS:
        return {**body, "groups": [{"group_id": body["group_id"], "topics": body["topics"]}]}
    if api_key == ApiKey.LeaveGroup and api_version < _MEMBERS:
        return {**body, "members": [{"member_id": body["member_id"], "group_instance_id": None}]}
    return body


def newer_answer(api_key: int, api_version: int, request: Body, body: Body) -> Body:
    """An answer in the newer shape; ``request`` is in it too."""
    if api_key == ApiKey.FindCoordinator and api_version < _COORDINATORS:
        return {**body, "coordinators": [{**body, "key": request["coordinator_keys"][0]}]}
    if api_key == ApiKey.OffsetFetch and api_version < _GROUPS:
        return {**body, "groups": [{**body, "group_id": request["groups"][0]["group_id"]}]}
    if api_key == ApiKey.LeaveGroup and api_version < _MEMBERS:
        return {**body, "members": [{**member, "error_code": 0} for member in request["members"]]}
    return body


def older_answer(api_key: int, api_version: int, body: Body) -> Body:
    """An answer as this version has it, from the newer shape."""
    if api_key == ApiKey.FindCoordinator and api_version < _COORDINATORS:
        return {**body, **body["coordinators"][0]}
    if api_key == ApiKey.OffsetFetch and api_version < _GROUPS:
        return {**body, **body["groups"][0]}
    if api_key == ApiKey.LeaveGroup and api_version < _MEMBERS and not body.get("error_code"):
        return {**body, "error_code": next((one["error_code"] for one in body["members"]), 0)}
    if api_key == ApiKey.ListOffsets and api_version == 0:
        topics = [{**topic, "partitions": [_offsets(one) for one in topic["partitions"]]} for topic in body["topics"]]
        return {**body, "topics": topics}
    return body


def _offsets(partition: Body) -> Body:
    return {**partition, "old_style_offsets": [partition["offset"]] if partition["offset"] >= 0 else []}
