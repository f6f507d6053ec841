"""What a capture must not tell: rules that hash or drop, applied before a row reaches a file or a reader. Pure.

A rule is ``field:NAME=hash|drop``, ``topic:GLOB=hash|drop`` or ``header:NAME=hash|drop``. A hash is the beginning of
SHA-256: the same everywhere, so that captures can still be joined; what can be guessed can be checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final, NamedTuple

from notleader.proxy.wire.names import ApiKey

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
# Their frames name no topic.
_WITHOUT_TOPICS: Final = {
    ApiKey.ApiVersions,
    ApiKey.Heartbeat,
    ApiKey.LeaveGroup,
    ApiKey.FindCoordinator,
    ApiKey.InitProducerId,
    ApiKey.EndTxn,
}

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
        self.headers = frozenset(rule.name for rule in parsed if rule.about == "header")
        for rule in parsed:
            if rule.about == "header" and rule.name == message_id_header:
                self._fields.setdefault("message_ids", _hide(rule))

    def __bool__(self) -> bool:
        return bool(self._fields or self._topics or self.headers)

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

    def frame(self, frame: bytes | None, api_key: int, row: dict[str, Any], *, headers_seen: bool) -> bytes | None:
        """A frame as it may be kept: with asterisks for the values of hidden fields, or not at all.

        ``row`` has the fields before they were hidden. With rules about topics or headers, frames are kept only
        where it is certain that nothing of theirs is inside.
        """
        if frame is None:
            return None
        if self.headers and (headers_seen or (api_key in (ApiKey.Produce, ApiKey.Fetch) and row["detail"])):
            return None
        if "topic_id" in self._fields or "message_ids" in self._fields or "key_hashes" in self._fields:
            return None
        if self._topics or "topic" in self._fields:
            names = [part["topic"] for part in row["partitions"] or ()]
            if not names and api_key not in _WITHOUT_TOPICS:
                return None
            if any(name is None or self.topic(name) is not None for name in names):
                return None
        for name in ROW_FIELDS:
            value = row[name]
            if name in self._fields and isinstance(value, str) and value:
                raw = value.encode("utf-8", "surrogateescape")
                frame = frame.replace(raw, b"*" * len(raw))
        return frame


def _hide(rule: Rule) -> Hide:
    return hashed if rule.how == "hash" else _dropped


NOTHING: Final = Redaction()
