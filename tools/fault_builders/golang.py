"""Go: a type for each kind, a function that begins one with what it can't be without, a method for each other field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tools.fault_builders.shapes import Field, Object, camel, words

_TYPES = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool", "object": "map[string]any"}
_INITIALS = {"id": "ID", "api": "API", "ms": "MS"}
_KEYWORDS = {"new"}
_HEAD = """\
// Code generated from notleader's OpenAPI document by tools/fault_builders; DO NOT EDIT.

package notleader

// Fault is a fault of any kind: what the functions named after the kinds make.
type Fault interface{ fault() document }
"""


def source(objects: Iterable[Object]) -> str:
    """The whole file, as gofmt has it."""
    return "\n".join([_HEAD, *("\n".join(_type(made)) for made in objects)])


def _type(made: Object) -> Iterator[str]:
    name = _type_name(made)
    yield f"// {name}: {made.description or 'a part of a fault.'}"
    yield f"type {name} struct{{ document }}"
    yield ""
    if made.constant:
        parameters = ", ".join(f"{_parameter(field)} {_go_type(field)}" for field in made.required)
        told = ", ".join(
            [f'"{made.constant[0]}": "{made.constant[1]}"']
            + [f'"{field.name}": {_parameter(field)}' for field in made.required]
        )
        function = camel(made.constant[1]) if made.is_fault else made.name
        yield f"// {function}: {made.description or 'a distribution.'}"
        yield f"func {function}({parameters}) {name} {{"
        yield f"\treturn {name}{{document{{{told}}}}}"
        yield "}"
        yield ""
    if made.is_fault:
        yield f"func (f {name}) fault() document {{ return f.document }}"
        yield ""
    for field in made.fields:
        if not field.required:
            yield from _setter(name, field)


def _setter(name: str, field: Field) -> Iterator[str]:
    method, parameter = _exported(field.name), _parameter(field)
    yield f"// {method}: {field.description or f'the field {field.name}.'}"
    if field.many:
        yield f"func (f {name}) {method}({parameter} ...{_go_type(field)}) {name} {{"
        yield f'\treturn {name}{{f.with("{field.name}", one({parameter}))}}'
    else:
        yield f"func (f {name}) {method}({parameter} {_go_type(field)}) {name} {{"
        yield f'\treturn {name}{{f.with("{field.name}", {parameter})}}'
    yield "}"
    yield ""


def _type_name(made: Object) -> str:
    if not made.constant:
        return made.name
    return f"{camel(made.constant[1])}Fault" if made.is_fault else f"{made.name}Distribution"


def _go_type(field: Field) -> str:
    if len(field.types) > 1:
        return "any"
    return _TYPES.get(field.types[0], field.types[0])


def _exported(name: str) -> str:
    return "".join(_INITIALS.get(word, word.capitalize()) for word in words(name))


def _parameter(field: Field) -> str:
    first, *rest = words(field.name)
    made = first + "".join(_INITIALS.get(word, word.capitalize()) for word in rest)
    return f"{made}_" if made in _KEYWORDS else made
