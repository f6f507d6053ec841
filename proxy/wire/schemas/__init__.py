"""Kafka's message definitions as data, read for one API at a time.

`definitions.jsonl` comes from the `common/message/*.json` of Kafka's own jars (tools/definitions writes it):
one line per message, of each version the newest release's definition that covers it.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

from notleader.proxy.wire.errors import UnknownVersion

Direction = Literal["request", "response"]

_NEVER = 1 << 16
NO_UUID = UUID(int=0)
_LINE = re.compile(
    r'\{"api_key":(\d+),"direction":"(\w+)","first":(\d+),"last":(\d+),"flexible":"([^"]+)","kafka":"([^"]+)"'
    r',"name":"\w+"(?:,"unstable":(\d+))?'
)


class Definition(NamedTuple):
    """One line of the definitions: what it covers, and its text until somebody needs the fields."""

    api_key: int
    direction: str
    first: int
    last: int
    first_flexible: int
    kafka: str
    unstable: int | None
    text: str


class Field(NamedTuple):
    """A field as one version of a message has it. `kind` is a Kafka type name, or "struct"."""

    name: str
    kind: str
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any
    entity: str | None
    fields: tuple[Field, ...]


class Message(NamedTuple):
    """The fields of one (api_key, api_version, direction), in wire order, tagged ones included.

    `is_whole` is false for the leading fields of a message, which end before its tagged fields.
    """

    api_key: int
    api_version: int
    direction: Direction
    flexible: bool
    fields: tuple[Field, ...]
    is_whole: bool = True


def _span(text: str | None) -> range:
    """The versions that "3+", "0-4", "7" or "none" names."""
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), _NEVER)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@cache
def definitions() -> dict[tuple[int, str], tuple[Definition, ...]]:
    """Every definition by (api_key, direction), oldest versions first; fields are not parsed yet."""
    table: dict[tuple[int, str], tuple[Definition, ...]] = {}
    for line in Path(__file__).with_name("definitions.jsonl").read_text("utf-8").splitlines():
        head = _LINE.match(line)
        if head is None:
            raise ValueError(f"definitions.jsonl: a line that the regeneration did not write: {line[:60]}")
        api_key, direction, first, last, flexible, kafka, unstable = head.groups()
        span = _span(flexible)
        row = Definition(
            int(api_key),
            direction,
            int(first),
            int(last),
            span.start if span else _NEVER,
            kafka,
            int(unstable) if unstable else None,
            line,
        )
        key = (row.api_key, row.direction)
        table[key] = (*table.get(key, ()), row)
    return table


@cache
def version_ranges() -> dict[int, range]:
    """The known versions of every known API."""
    return {
        key: range(rows[0].first, rows[-1].last + 1)
        for (key, direction), rows in definitions().items()
        if direction == "request"
    }


@cache
def first_flexible(api_key: int, direction: Direction) -> int:
    """The first version with compact fields and tagged fields; a version never reached when there is none."""
    return definitions()[api_key, direction][-1].first_flexible


@cache
def _parsed(text: str) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(text)["fields"]
    return fields


def message(api_key: int, api_version: int, direction: Direction) -> Message:
    """One message as one version has it; UnknownVersion when nothing defines it."""
    row = definition(api_key, api_version, direction)
    fields = _resolve(_parsed(row.text), api_version)
    return Message(api_key, api_version, direction, api_version >= row.first_flexible, fields)


def definition(api_key: int, api_version: int, direction: Direction) -> Definition:
    """The definition that covers one version of a message; UnknownVersion when there is none."""
    for row in definitions().get((api_key, direction), ()):
        if row.first <= api_version <= row.last:
            return row
    raise UnknownVersion(f"no definition of API key {api_key} version {api_version} ({direction})")


def _resolve(rows: list[dict[str, Any]], version: int) -> tuple[Field, ...]:
    fields = []
    for row in rows:
        if version not in _span(row["versions"]):
            continue
        kind = row["type"]
        is_array = kind.startswith("[]")
        inner = _resolve(row["fields"], version) if "fields" in row else ()
        tagged = version in _span(row.get("taggedVersions"))
        nullable = version in _span(row.get("nullableVersions"))
        fields.append(
            Field(
                snake_case(row["name"]),
                "struct" if "fields" in row else kind.removeprefix("[]"),
                is_array,
                nullable,
                row["tag"] if tagged else None,
                _default(row, is_array, nullable),
                row.get("entityType"),
                inner,
            )
        )
    return tuple(fields)


def snake_case(name: str) -> str:
    """Kafka's CamelCase field name as the key that decoded bodies use."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _default(row: dict[str, Any], is_array: bool, nullable: bool) -> Any:
    """What a missing field stands for: () for an empty array, {} for a struct of its fields' defaults."""
    given = row.get("default")
    kind = row["type"]
    if given == "null":
        # A version in which the field is not yet nullable falls back to the empty value.
        if nullable:
            return None
        given = None
    if is_array:
        return ()
    if "fields" in row:
        return {}
    if kind == "string":
        return given or ""
    if kind in ("bytes", "records"):
        return b""
    if kind == "uuid":
        return NO_UUID
    if kind == "bool":
        return given in (True, "true")
    if kind == "float64":
        return float(given or 0)
    return int(str(given), 0) if given not in (None, "") else 0
