"""What the OpenAPI document says of faults, reduced to what a builder needs: objects, fields, and their types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_REFERENCE = "#/components/schemas/"
_DISTRIBUTION = "distribution"


@dataclass(frozen=True)
class Field:
    """One field: its types without null (`string`, `integer`, `number`, `boolean`, `object`, or a schema's name)."""

    name: str
    types: tuple[str, ...]
    many: bool
    required: bool
    description: str


@dataclass(frozen=True)
class Object:
    """One schema: a kind of fault, a distribution (both with the constant that tells them), or a part of a fault."""

    name: str
    description: str
    constant: tuple[str, str] | None
    fields: tuple[Field, ...]

    @property
    def is_fault(self) -> bool:
        return self.constant is not None and self.constant[0] == "kind"

    @property
    def required(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.required)


def objects(document: dict[str, Any]) -> list[Object]:
    """The parts of a fault, then every kind, each after what it refers to, by name."""
    schemas = document["components"]["schemas"]
    kinds = {reference.removeprefix(_REFERENCE) for reference in schemas["Fault"]["discriminator"]["mapping"].values()}
    parts = {name for kind in kinds for name in _references(schemas[kind])}
    return [_object(name, schemas[name]) for names in (parts, kinds) for name in sorted(names)]


def words(name: str) -> list[str]:
    """`node_id` and `LeaderMove` as their words, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+", name)]


def camel(name: str) -> str:
    """`leader_move` as `LeaderMove`."""
    return "".join(word.capitalize() for word in words(name))


def _object(name: str, schema: dict[str, Any]) -> Object:
    constant = None
    for key in ("kind", _DISTRIBUTION):
        if "const" in (told := schema["properties"].get(key, {})):
            constant = key, told["const"]
    fields = tuple(
        _field(field, told, field in schema.get("required", []))
        for field, told in schema["properties"].items()
        if "const" not in told
    )
    return Object(name, _one_paragraph(schema.get("description", "")), constant, fields)


def _field(name: str, schema: dict[str, Any], required: bool) -> Field:
    types: list[str] = []
    many = False
    for choice in _flat(schema):
        is_list = choice.get("type") == "array"
        many = many or is_list
        for told in _flat(choice["items"]) if is_list else [choice]:
            if (found := _type(told)) not in ("null", *types):
                types.append(found)
    description = _one_paragraph(schema.get("description", ""))
    choices = [value for value in schema.get("enum", []) if isinstance(value, str)]
    if choices and len(choices) <= 6:
        description += f" One of {', '.join(choices)}."
    return Field(name, tuple(types), many, required, description.strip())


def _flat(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices that a schema leaves, however deep they are nested."""
    choices = schema.get("anyOf", schema.get("oneOf"))
    return [schema] if choices is None else [told for choice in choices for told in _flat(choice)]


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].removeprefix(_REFERENCE))
    return str(schema.get("type", "string"))


def _references(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        own = {schema["$ref"].removeprefix(_REFERENCE)} if isinstance(schema.get("$ref"), str) else set()
        return own.union(*map(_references, schema.values()))
    return set().union(*map(_references, schema)) if isinstance(schema, list) else set()


def _one_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split()).replace("`", "")
