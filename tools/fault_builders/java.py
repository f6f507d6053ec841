"""Java: one class `Faults` with a nested class for each kind, a method for each field, an overload for each type."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator

from tools.fault_builders.shapes import Field, Object, camel

_TYPES = {
    "string": "String",
    "integer": "long",
    "number": "double",
    "boolean": "boolean",
    "object": "Map<String, ?>",
}
_KEYWORDS = {"new"}


_HEAD = """\
package notleader.client;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Every kind of fault, with what can be said of it. A value that is wrong is refused by the server, which names its
 * place. Generated from notleader's OpenAPI document: python -m tools.fault_builders
 */
public final class Faults {
  private Faults() {}

  /** A document under construction, as the HTTP API takes it. */
  public abstract static class Document {
    final Map<String, Object> fields = new LinkedHashMap<>();

    /** The fields that were set, by their names in the HTTP API. */
    public Map<String, Object> asMap() {
      Map<String, Object> made = new LinkedHashMap<>();
      fields.forEach((field, value) -> made.put(field, plain(value)));
      return made;
    }

    private static Object plain(Object value) {
      return value instanceof Document ? ((Document) value).asMap() : value;
    }

    final void set(String field, Object value) {
      fields.put(field, value);
    }

    final void setAll(String field, List<?> values) {
      fields.put(field, values.size() == 1 ? values.get(0) : values);
    }
  }

  /** A fault of any kind. */
  public abstract static class Fault extends Document {}
"""


def source(objects: Iterable[Object]) -> str:
    """The whole file."""
    return "\n".join([_HEAD, *("\n".join(_class(made)) for made in objects)]) + "}\n"


def class_name(made: Object) -> str:
    return f"{camel(made.constant[1])}Fault" if made.is_fault and made.constant else made.name


def _class(made: Object) -> Iterator[str]:
    name = class_name(made)
    yield f"  /** {_doc(made.description or 'What a fault of this kind is made of.')} */"
    yield f"  public static final class {name} extends {'Fault' if made.is_fault else 'Document'} {{"
    if made.constant:
        yield f"    private {name}() {{"
        yield f'      set("{made.constant[0]}", "{made.constant[1]}");'
        yield "    }"
    for field in made.fields:
        if not field.required:
            yield from _setters(name, field)
    yield "  }"
    yield ""
    if made.constant:
        yield from _factories(made, name, _method(made.constant[1]))


def _setters(name: str, field: Field) -> Iterator[str]:
    for parameter, statement in _overloads(field):
        yield ""
        yield f"    /** {_doc(field.description or f'The field {field.name}.')} */"
        yield f"    public {name} {_method(field.name)}({parameter}) {{"
        yield f"      {statement}"
        yield "      return this;"
        yield "    }"


def _factories(made: Object, name: str, method: str) -> Iterator[str]:
    """One for each choice of types of what is required."""
    ways: list[list[tuple[str, str]]] = [[]]
    for field in made.required:
        ways = [[*way, overload] for way in ways for overload in _overloads(field)]
    for way in ways:
        yield f"  /** {_doc(made.description)} */"
        yield f"  public static {name} {method}({', '.join(parameter for parameter, _ in way)}) {{"
        yield f"    {name} made = new {name}();"
        yield from (f"    made.{statement}" for _, statement in way)
        yield "    return made;"
        yield "  }"
        yield ""


def _overloads(field: Field) -> Iterator[tuple[str, str]]:
    """Parameter and statement, for each type."""
    argument = _method(field.name)
    for told in field.types:
        kind = _TYPES.get(told, told)
        if field.many:
            values = (
                f"Arrays.asList({argument})"
                if kind == "String"
                else f"Arrays.stream({argument}).boxed().collect(Collectors.toList())"
            )
            yield f"{kind}... {argument}", f'setAll("{field.name}", {values});'
        else:
            yield f"{kind} {argument}", f'set("{field.name}", {argument});'


def _method(name: str) -> str:
    made = camel(name)
    made = made[0].lower() + made[1:]
    return f"{made}_" if made in _KEYWORDS else made


def _doc(text: str) -> str:
    return html.escape(text, quote=False).replace("*/", "*&#47;")
