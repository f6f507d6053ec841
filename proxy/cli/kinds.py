"""The kinds of fault as data, for `notleader fault kinds` and `show`: read off the fault models themselves."""

from __future__ import annotations

import inspect
import json
from typing import Any

from notleader.faults.base import Fault, StandingFault
from notleader.faults.schema import meaningless_keys
from notleader.faults.trigger import OF_TIME, Trigger
from notleader.proxy.wire.names import did_you_mean

_HIDDEN = frozenset({"kind", "match", "trigger"})


def summaries() -> list[dict[str, str]]:
    """Every kind with the first sentence of its description, by name."""
    return [
        {"kind": kind, "summary": _description(model).partition("\n")[0]} for kind, model in sorted(Fault.kinds.items())
    ]


def describe(kind: str) -> dict[str, Any]:
    """One kind: description, fields (its own first, then those of match and trigger), and its JSON schema.

    Raises LookupError with a line that suggests the nearest name.
    """
    model = Fault.kinds.get(kind)
    if model is None:
        near = did_you_mean(kind, Fault.kinds)
        raise LookupError(f"there is no fault kind {kind!r}{near or ': see notleader fault kinds'}")
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    fields = _fields(schema, definitions, "", _HIDDEN)
    # Where a kind knows one phase alone, its field's default is that one.
    refused, _ = meaningless_keys(model, str(model.model_fields["phase"].default))
    idle = frozenset(Trigger.model_fields).difference(OF_TIME) if issubclass(model, StandingFault) else frozenset()
    for part, left_out in (("match", refused), ("trigger", idle)):
        nested = _resolve(schema["properties"][part], definitions)
        fields += _fields(nested, definitions, f"{part}.", left_out)
    return {"kind": kind, "description": _description(model), "fields": fields, "schema": schema}


def _fields(
    schema: dict[str, Any], definitions: dict[str, Any], prefix: str, hidden: frozenset[str]
) -> list[dict[str, str]]:
    required = schema.get("required", ())
    return [
        {
            "name": prefix + name,
            "type": _type(field, definitions),
            "default": "required" if name in required else _default(field),
            "description": str(field.get("description") or _common(prefix + name)),
        }
        for name, field in schema.get("properties", {}).items()
        if name not in hidden
    ]


def _common(name: str) -> str:
    """What the base of all faults says of a field that a kind narrows without describing it again."""
    field = Fault.model_fields.get(name)
    return field.description or "" if field is not None else ""


def _type(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """A field's type in a few words: `integer ≥ 0`, `string`, `fixed | uniform`, `list of string`."""
    field = _resolve(field, definitions)
    if "const" in field:
        return str(field["const"])
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    for union in ("anyOf", "oneOf"):
        if union in field:
            names = (_type(option, definitions) for option in field[union])
            return " | ".join(dict.fromkeys(name for name in names if name != "null"))
    kind = field.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(kind)
    if kind == "array":
        return f"list of {_type(field.get('items', {}), definitions)}"
    bounds = [
        f"{sign} {field[key]:g}"
        for sign, key in (
            ("≥", "minimum"),
            (">", "exclusiveMinimum"),
            ("≤", "maximum"),
            ("<", "exclusiveMaximum"),
        )
        # The bounds of Kafka's widest integer bound nothing that anybody would write.
        if key in field and abs(field[key]) < 2**63 - 1
    ]
    return " ".join([str(kind), *bounds])


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    return "" if default in (None, "") else json.dumps(default)


def _resolve(field: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = field.get("$ref")
    if reference is None:
        return field
    found: dict[str, Any] = definitions[reference.rpartition("/")[2]]
    return found


def _description(model: type[Fault]) -> str:
    return inspect.cleandoc(model.__doc__ or "")
