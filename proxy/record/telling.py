"""What the fields of Kafka's messages may tell of clients, groups and topics, from their definitions. Pure.

A field of which nobody has said what it tells may tell anything, and so may bytes that are the client's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.schemas import Field

TOPIC: Final = "topic"
_KAFKAS_OWN: Final = ""
_TELLS: Final = {
    "client_addr": "client_host host host_filter entity_name match",
    "client_id": "client_id entity_name leader match member_id",
    "client_software_name": "client_software_name",
    "client_software_version": "client_software_version",
    "principal": """entity_name match owner_principal_name principal principal_filter principal_name
        token_requester_principal_name user""",
    "group_id": "coordinator_keys group_id group_ids groups groups_names key resource_name resource_name_filter",
    "transactional_id": """coordinator_keys key resource_name resource_name_filter transactional_id
        transactional_id_pattern transactional_ids v3_and_below_transactional_id""",
    "detail": "reason",
    TOPIC: """acknowledge_error_message batch_index_error_message error_message resource_name resource_name_filter
        source_topic_regex subscribed_topic_names subscribed_topic_regex""",
    _KAFKAS_OWN: """assignor_name cluster_id configuration_keys documentation entity_type feature group_state group_type
        host_name listener log_dir mechanism mechanisms owner_principal_type path principal_type process_id
        protocol_name protocol_type rack rack_id requested_metrics server_assignor state_filters states_filter token_id
        token_requester_principal_type transaction_state types_filter unknown_state_filters v0_host""",
}
"""What may be told, and by the strings of which names."""
_ANYTHING: Final = frozenset(_TELLS)
_BY_ENTITY: Final = {"topicName": TOPIC, "groupId": "group_id", "transactionalId": "transactional_id"}
# A name is a user's in SCRAM's messages alone; else it is that of a feature, a listener or a configuration.
_BESIDE_A_USER: Final = ({"name"}, {"name", "mechanism"})
_UNKNOWN_TAG: Final = Field("_tags", "bytes", False, False, None, b"", None, ())


class Leaf(NamedTuple):
    """A value of a body, its field, and the fields of the struct that it stands in."""

    field: Field
    beside: tuple[Field, ...]
    value: Any


def leaves(fields: tuple[Field, ...], body: Body) -> Iterator[Leaf]:
    """Every value of a body that is text, bytes, records or an id, each of an array for itself.

    A tagged field that the definitions don't know is bytes.
    """
    for field in fields:
        value = body.get(field.name)
        for one in value or () if field.is_array else (value,):
            if one is None:
                continue
            if field.kind == "struct":
                yield from leaves(field.fields, one)
            elif field.kind in ("string", "bytes", "records", "uuid"):
                yield Leaf(field, fields, one)
    for content in body.get("_tags", {}).values():
        yield Leaf(_UNKNOWN_TAG, fields, content)


def may_tell(field: Field, beside: tuple[Field, ...]) -> frozenset[str]:
    """Which of a row's fields, or TOPIC, the text of a field may tell."""
    if field.entity in _BY_ENTITY:
        return frozenset((_BY_ENTITY[field.entity],))
    if field.name == "host" and any(other.entity == "brokerId" for other in beside):
        return frozenset((_KAFKAS_OWN,))
    if field.name == "name":
        names = {other.name for other in beside}
        return frozenset(("principal" if names in _BESIDE_A_USER or "salt" in names else _KAFKAS_OWN,))
    return _by_name(field.name)


@cache
def _by_name(name: str) -> frozenset[str]:
    return frozenset(what for what, names in _TELLS.items() if name in names.split()) or _ANYTHING
