"""What a capture must not tell: rules that hash or drop, applied before a row reaches a file or a reader. Pure.

A rule is ``field:NAME=hash|drop``, ``topic:GLOB=hash|drop`` or ``header:NAME=hash|drop``. A hash is the beginning of
SHA-256: the same everywhere, so that captures can still be joined; what can be guessed can be checked against it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

from notleader.proxy.record.telling import TOPIC, Leaf, leaves, may_tell
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.records import Allowance, iter_batches, iter_records
from notleader.proxy.wire.schemas import NO_UUID
from notleader.proxy.wire.view import Request, Response

ROW_FIELDS: Final = (
    "client_addr",
    "client_id",
    "client_software_name",
    "client_software_version",
    "principal",
    "transactional_id",
    "group_id",
    "detail",
)
PARTITION_FIELDS: Final = ("topic", "topic_id", "message_ids", "key_hashes")
_HOWS: Final = ("hash", "drop")
_SHOWN_DIGITS: Final = 16
# The member id that a broker gives is the client's id and a random one, and that of a client itself is random alone.
_RANDOM_ID: Final = re.compile("[0-9a-f-]{36}|[A-Za-z0-9_-]{22}")

Hide = Callable[[Any], Any]


class Rule(NamedTuple):
    """One rule: what it is about (field, topic or header), the name or pattern, and what happens to it."""

    about: str
    name: str
    how: str


def parse(text: str) -> Rule:
    """One rule from its text. Raises ValueError, which says what would be right."""
    target, equals, how = text.strip().rpartition("=")
    about, colon, name = target.partition(":")
    if not (equals and colon and name) or about not in ("field", "topic", "header") or how not in _HOWS:
        raise ValueError(f"{text!r} is no rule: field:NAME=hash, topic:GLOB=drop or header:NAME=drop is expected")
    if about == "field" and name not in (*ROW_FIELDS, *PARTITION_FIELDS):
        raise ValueError(f"{text!r}: no field {name!r}; there are {', '.join((*ROW_FIELDS, *PARTITION_FIELDS))}")
    return Rule(about, name, how)


def hashed(value: Any) -> Any:
    """Text, number or list as the beginning of a SHA-256, each of a list for itself; None stays None."""
    if value is None:
        return None
    if isinstance(value, list):
        return [hashed(item) for item in value]
    digest = sha256(str(value).encode("utf-8", "surrogateescape")).hexdigest()
    return int(digest[:15], 16) if isinstance(value, int) else f"sha256:{digest[:_SHOWN_DIGITS]}"


def _dropped(value: Any) -> Any:
    return None


class Redaction:
    """A set of rules; without any, everything stays as it is."""

    def __init__(self, rules: Iterable[str] = (), message_id_header: str = "notleader-id") -> None:
        """Raises ValueError on a rule that is none."""
        parsed = [parse(rule) for rule in rules]
        self._fields: dict[str, Hide] = {rule.name: _hide(rule) for rule in parsed if rule.about == "field"}
        self._topics = [(rule.name, _hide(rule)) for rule in parsed if rule.about == "topic"]
        self._headers = {rule.name for rule in parsed if rule.about == "header"}
        for rule in parsed:
            if rule.about == "header" and rule.name == message_id_header:
                self._fields.setdefault("message_ids", _hide(rule))
        if "message_ids" in self._fields:
            self._headers.add(message_id_header)

    def __bool__(self) -> bool:
        return bool(self._fields or self._topics or self._headers)

    def field(self, name: str, value: Any) -> Any:
        """The value of a row's field, as it may be told."""
        hide = self._fields.get(name)
        return value if hide is None or value is None else hide(value)

    def topic(self, name: str | None) -> Hide | None:
        """How a topic's name has to be hidden; None when it may be told."""
        if name is None:
            return None
        return next((hide for pattern, hide in self._topics if fnmatchcase(name, pattern)), self._fields.get("topic"))

    def partitions(self, parts: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        """The partitions of a row, as they may be told."""
        if not parts or not (self._topics or self._fields.keys() & set(PARTITION_FIELDS)):
            return parts
        return [self.partition(part) for part in parts]

    def partition(self, part: dict[str, Any]) -> dict[str, Any]:
        """One of them."""
        told = {**part, **{name: self.field(name, part[name]) for name in PARTITION_FIELDS}}
        hide = self.topic(part["topic"])
        told["topic"] = part["topic"] if hide is None else hide(part["topic"])
        if hide is not None and self._is_ruled(part["topic"]):
            told["topic_id"] = hide(part["topic_id"]) if part["topic_id"] is not None else None
            told["message_ids"] = told["key_hashes"] = None
        return told

    def _is_ruled(self, name: str | None) -> bool:
        return name is not None and any(fnmatchcase(name, pattern) for pattern, _ in self._topics)

    def frames(
        self,
        request: bytes | None,
        response: bytes | None,
        row: dict[str, Any],
        topic_name: Callable[[UUID], str | None],
    ) -> tuple[bytes | None, bytes | None]:
        """Both frames of an exchange as they may be kept: asterisks for the row's own values of hidden fields.

        ``row`` has the fields before they were hidden. Twice None where more of what is hidden may be inside, or where
        that can't be read.
        """
        if request is None:
            return None, None
        own = {row[name] for name in ROW_FIELDS if row[name]}
        allowance = Allowance(len(request) + len(response or b""))
        try:
            asked = Request(request)
            messages: list[Request | Response] = [asked] if response is None else [asked, Response(response, asked)]
            for message in messages:
                for leaf in leaves(message.codec.fields, message.body):
                    if self._is_told_by(leaf, own, topic_name, allowance):
                        return None, None
            told = [self._blotted(message, row) for message in messages]
        except WireError:
            return None, None
        return told[0], told[1] if response is not None else None

    def _is_told_by(
        self,
        leaf: Leaf,
        own: set[str],
        topic_name: Callable[[UUID], str | None],
        allowance: Allowance,
    ) -> bool:
        """Whether a value may tell something hidden beyond what is the row's own."""
        field, value = leaf.field, leaf.value
        if field.kind == "records":
            return bool(value) and self._is_told_by_records(value, allowance)
        if field.kind == "uuid":
            if value == NO_UUID or field.name != "topic_id":
                return False
            return "topic_id" in self._fields or (bool(self._topics) and self._is_hidden(topic_name(value)))
        if not value:
            return False
        if field.kind == "bytes":
            return bool(self._topics) or not self._fields.keys() <= {"message_ids", "key_hashes"}
        if field.entity == "topicName":
            return self.topic(value) is not None
        if value in own:
            return False
        what = may_tell(field, leaf.beside)
        if TOPIC in what and ("topic" in self._fields or self._is_in(value)):
            return True
        if field.name in ("member_id", "leader") and any(
            _RANDOM_ID.fullmatch(value.removeprefix(mine)) for mine in ("", *(f"{one}-" for one in own))
        ):
            return False
        return not what.isdisjoint(self._fields.keys() - set(PARTITION_FIELDS))

    def _is_told_by_records(self, records: bytes | memoryview, allowance: Allowance) -> bool:
        """Whether records have a hidden header or key, or end in a part of a batch, of which nobody knows."""
        if "key_hashes" in self._fields:
            return True
        if not self._headers:
            return False
        return len(records) != sum(batch.size for batch in iter_batches(records)) or any(
            name in self._headers for record in iter_records(records, allowance=allowance) for name, _ in record.headers
        )

    def _is_hidden(self, name: str | None) -> bool:
        return name is None or self.topic(name) is not None

    def _is_in(self, text: str) -> bool:
        """Whether a text may repeat the name of a hidden topic."""
        return any(fnmatchcase(text, f"*{pattern}*") for pattern, _ in self._topics)

    def _blotted(self, message: Request | Response, row: dict[str, Any]) -> bytes:
        surplus = len(message.surplus)
        frame = bytes(message.frame[: len(message.frame) - surplus]) + b"*" * surplus
        for name in ROW_FIELDS:
            value = row[name]
            if name in self._fields and isinstance(value, str) and value:
                raw = value.encode("utf-8", "surrogateescape")
                frame = frame.replace(raw, b"*" * len(raw))
        return frame


def _hide(rule: Rule) -> Hide:
    return hashed if rule.how == "hash" else _dropped


NOTHING: Final = Redaction()
