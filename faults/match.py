"""Which exchanges a rule means: every key of a match is asked, and all of them have to agree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import Field

from notleader.faults.document import Document
from notleader.faults.selectors import ApiKeys, ConnectionSelector, Names, Numbers
from notleader.proxy.wire.codec import known_versions, request_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.partitions import names_partitions, names_topics

if TYPE_CHECKING:
    from notleader.faults.connection import Connection
    from notleader.proxy.wire.header import RequestHeader

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
_GROUP_FIELDS = frozenset({"group_id", "groups", "groups_names", "group_ids", "key", "coordinator_keys"})
_TRANSACTION_FIELDS = frozenset(
    {
        *("transactional_id", "v3_and_below_transactional_id", "transactions", "transactional_ids"),
        *("key", "coordinator_keys"),
    }
)
NAMING_FIELDS = _GROUP_FIELDS | _TRANSACTION_FIELDS | {"key_type"}
"""All that `groups_named` and `transactional_ids_named` look at, of a request's own fields."""
ABOUT_A_BODY = frozenset({"topic", "partition_index", "group_id", "transactional_id"})
"""The keys of a match that the body of a request answers."""


class Match(Document):
    """Every key is optional; a value is one pattern or a list, names take globs, `!` means all but."""

    api_key: ApiKeys | None = Field(None, description="API by name, glob or number.")
    api_version: Numbers | None = Field(None, description="Version of the request: 7, '3-9', '>=9', '<=4'.")
    topic: Names | None = Field(None, description="Topic named in the request (by id too, once seen).")
    partition_index: Numbers | None = Field(None, description="Partition named in the request.")
    client_id: Names | None = Field(None, description="The client's own name, from the request header.")
    group_id: Names | None = Field(None, description="Group named in the request.")
    transactional_id: Names | None = Field(None, description="Transactional id named in the request.")
    node_id: Numbers | None = Field(None, description="Broker whose listener the client is connected to.")
    listener: Names | None = Field(None, description="'bootstrap', 'broker-<node_id>' or a Toxiproxy proxy.")
    connection: ConnectionSelector | None = Field(None, description="Connection by number (from 1) or client address.")
    principal: Names | None = Field(None, description="Authenticated user of the connection.")

    @property
    def selects_partitions(self) -> bool:
        """Whether only some partitions of an exchange may be meant."""
        return self.topic is not None or self.partition_index is not None

    @property
    def needs_body(self) -> bool:
        """Whether the header doesn't suffice to answer."""
        return self.selects_partitions or self.group_id is not None or self.transactional_id is not None

    @property
    def names_an_exchange(self) -> bool:
        """Whether some key can only be answered for a request, not for a connection."""
        return self.needs_body or self.api_key is not None or self.api_version is not None

    def connects(self, connection: Connection) -> bool:
        """Whether the connection itself is meant (client_id is unknown until its first request)."""
        return (
            (self.listener is None or self.listener(connection.listener))
            and (self.node_id is None or self.node_id(connection.node_id))
            and (self.connection is None or self.connection(connection.nth, connection.client_addr))
            and (self.principal is None or self.principal(connection.asking_principal))
        )

    def header(self, connection: Connection, header: RequestHeader) -> bool:
        """Whether everything that connection and request header can answer agrees."""
        return (
            (self.api_key is None or header.api_key in self.api_key.keys)
            and (self.api_version is None or self.api_version(header.api_version))
            and (self.client_id is None or self.client_id(header.client_id))
            and self.connects(connection)
        )

    def names(self, api_key: int, body: dict[str, Any]) -> bool:
        """Whether group and transactional id agree; a request that names none doesn't match a rule that does."""
        if self.group_id is not None and not any(map(self.group_id, groups_named(api_key, body))):
            return False
        return self.transactional_id is None or any(map(self.transactional_id, transactional_ids_named(api_key, body)))

    def partition(self, topic: str | None, partition_index: int) -> bool:
        """Whether the partition is meant; a negative index is an entry that stands for the topic as a whole."""
        if self.topic is not None and (topic is None or not self.topic(topic)):
            return False
        return self.partition_index is None or partition_index < 0 or self.partition_index(partition_index)


@cache
def keys_answered(api_key: int) -> frozenset[str]:
    """Those of the keys about a request's body that a request of this API can answer in some version."""
    found = set()
    for version in known_versions(api_key):
        codec = request_codec(api_key, version)
        names = {field.name for field in codec.fields}
        if names & _GROUP_FIELDS:
            found.add("group_id")
        if names & _TRANSACTION_FIELDS:
            found.add("transactional_id")
        if names_topics(codec):
            found.add("topic")
        if names_partitions(codec) or api_key == ApiKey.Metadata:
            found.add("partition_index")
    return frozenset(found)


def groups_named(api_key: int, body: dict[str, Any]) -> Iterator[str]:
    """The group ids a request names, over all versions of its API."""
    if api_key == ApiKey.FindCoordinator:
        yield from _coordinator_keys(body, GROUP_KEY_TYPE)
        return
    if isinstance(body.get("group_id"), str):
        yield body["group_id"]
    for group in body.get("groups") or ():  # DescribeGroups: names; OffsetFetch from version 8 on: structs
        yield group["group_id"] if isinstance(group, dict) else group
    yield from body.get("groups_names") or ()
    yield from body.get("group_ids") or ()


def transactional_ids_named(api_key: int, body: dict[str, Any]) -> Iterator[str]:
    """The transactional ids a request names, over all versions of its API."""
    if api_key == ApiKey.FindCoordinator:
        yield from _coordinator_keys(body, TRANSACTION_KEY_TYPE)
        return
    for key in ("transactional_id", "v3_and_below_transactional_id"):
        if body.get(key):
            yield body[key]
    for transaction in body.get("transactions") or ():
        yield transaction["transactional_id"]
    yield from body.get("transactional_ids") or ()


def _coordinator_keys(body: dict[str, Any], key_type: int) -> Iterator[str]:
    if body.get("key_type", GROUP_KEY_TYPE) != key_type:
        return
    if body.get("key"):
        yield body["key"]
    yield from body.get("coordinator_keys") or ()
