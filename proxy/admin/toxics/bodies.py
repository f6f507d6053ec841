"""Bodies as Toxiproxy reads them: JSON by the rules of Go's `encoding/json`, and its complaints in the same words.

PURE. The first value counts, and what follows it is ignored. A key is its field's in any case, null leaves a field as
it was, a later key wins over an earlier one, unknown ones are passed over. Broken UTF-8 and lone surrogates become
U+FFFD.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

_BLANK: Final = " \t\r\n"
_INT64: Final = 1 << 63
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}


class BodyError(ValueError):
    """The body is not what is wanted; the text is Go's."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object as it stands in the body: every key, in order."""


class _Literal(str):
    """A JSON number as it is written."""


class Field(NamedTuple):
    """What a field takes (`string`, `bool`, `int64`, `int`, `float32`, or `object` for a type of its own)."""

    takes: str
    place: str
    """What Go calls it in a complaint: `Proxy.name`."""
    go_type: str = ""
    """What Go calls its type, where that is not what it takes."""


def first_value(body: bytes) -> Any:
    """The first JSON value, its objects as `Pairs`. BodyError."""
    text = body.decode("utf-8", "replace")
    start = len(text) - len(text.lstrip(_BLANK))
    if start == len(text):
        raise BodyError("EOF")
    try:
        return _DECODER.raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        raise BodyError(_complaint(text, error.msg, error.pos)) from error
    except RecursionError as error:
        raise BodyError("exceeded max depth") from error


def take(value: Any, fields: Mapping[str, Field], go_type: str) -> dict[str, Any]:
    """What an object gives for these fields, by their names; null is an object that gives nothing. BodyError."""
    if value is None:
        return {}
    if not isinstance(value, Pairs):
        raise BodyError(f"json: cannot unmarshal {_kind(value)} into Go value of type {go_type}")
    taken: dict[str, Any] = {}
    for key, item in value:
        name = key if key in fields else key.lower()
        if name in fields and item is not None:
            taken[name] = _fitting(item, fields[name])
    return taken


def items(value: Any, go_type: str) -> list[Any]:
    """The items of an array; null is an empty one. BodyError."""
    if value is None:
        return []
    if isinstance(value, Pairs) or not isinstance(value, list):
        raise BodyError(f"json: cannot unmarshal {_kind(value)} into Go value of type {go_type}")
    return value


def plain(value: Any) -> Any:
    """A value of `first_value` as Python's own, objects as dicts."""
    if isinstance(value, Pairs):
        return {_sound(key): plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, _Literal):
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    return _sound(value) if isinstance(value, str) else value


def as_float32(value: float) -> float | int:
    """The number that a 32-bit float shows, written as Go writes it: 0.1 stays 0.1, and a whole number is one."""
    (single,) = struct.unpack("f", struct.pack("f", value))
    if single == int(single) and abs(single) < 1e21:
        return int(single)
    # As few digits as tell it from its neighbours.
    shown = (float(f"{single:.{digits}g}") for digits in range(1, 10))
    return next(number for number in shown if struct.pack("f", number) == struct.pack("f", single))


def _fitting(item: Any, field: Field) -> Any:
    takes = field.takes
    if isinstance(item, _Literal):
        number = _number(item, takes)
        if number is not None:
            return number
        text = f" {item}" if takes in ("int", "int64", "float32") else ""
        raise _refusal(f"number{text}", field)
    if takes == "string" and isinstance(item, str):
        return _sound(item)
    if (takes == "bool" and isinstance(item, bool)) or (takes == "object" and isinstance(item, Pairs)):
        return item
    raise _refusal(_kind(item), field)


def _number(literal: _Literal, takes: str) -> int | float | None:
    if takes in ("int", "int64") and literal.lstrip("-").isdecimal() and len(literal) < 21:
        number = int(literal)
        return number if -_INT64 <= number < _INT64 else None
    if takes == "float32":
        try:
            return as_float32(float(literal))
        except OverflowError:
            return None
    return None


def _refusal(what: str, field: Field) -> BodyError:
    go_type = field.go_type or field.takes
    return BodyError(f"json: cannot unmarshal {what} into Go struct field {field.place} of type {go_type}")


def _kind(value: Any) -> str:
    if isinstance(value, Pairs):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, _Literal) else "string"


def _sound(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _no_constant(name: str) -> NoReturn:
    # NaN, Infinity, -Infinity: Python's reader knows them, JSON doesn't.
    place = _IN_NUMBER if name.startswith("-") else _AT_VALUE
    raise BodyError(f"invalid character '{name.lstrip('-')[0]}' {place}")


_AT_VALUE: Final = "looking for beginning of value"
_AT_KEY: Final = "looking for beginning of object key string"
_IN_NUMBER: Final = "in numeric literal"
# What Python's reader says, and what Go's says of the same place.
_PLACES: Final = {
    "Expecting property name enclosed in double quotes": _AT_KEY,
    "Illegal trailing comma before end of object": _AT_KEY,
    "Illegal trailing comma before end of array": _AT_VALUE,
    "Expecting ':' delimiter": "after object key",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=_Literal, parse_float=_Literal, parse_constant=_no_constant
)


def _complaint(text: str, said: str, at: int) -> str:
    """Go's words for the place where Python's reader stopped."""
    said = said.partition(":")[0] if said.startswith("Invalid") else said
    if said.startswith(("Unterminated string", "Invalid \\uXXXX")) and _ends_within_string(text, at):
        return "unexpected EOF"
    if said.startswith("Illegal trailing comma"):
        at += 1
    while at < len(text) and text[at] in _BLANK and "control character" not in said:
        at += 1
    if said == "Invalid \\escape":
        at += 1
    if said == "Invalid \\uXXXX escape":
        at += next(offset for offset, digit in enumerate(text[at:]) if digit not in "0123456789abcdefABCDEFu\\")
    if at >= len(text):
        return "unexpected EOF"
    place = _PLACES.get(said)
    if said == "Expecting ',' delimiter":
        if text[at] in ".eE" and text[at - 1].isdecimal():
            return _bad_number(text, at)
        place = f"after {'array element' if _in_array(text, at) else 'object key:value pair'}"
    if place is None:
        return _bad_value(text, at)
    return f"invalid character {_quoted(text[at])} {place}"


def _bad_value(text: str, at: int) -> str:
    first = text[at]
    if first in _WORDS or first == "-":
        word = _WORDS.get(first, "-")
        for number, letter in enumerate(word):
            if text[at + number : at + number + 1] == letter:
                continue
            if at + number >= len(text):
                return "unexpected EOF"
            return f"invalid character {_quoted(text[at + number])} in literal {word} (expecting '{letter}')"
        if at + len(word) >= len(text):
            return "unexpected EOF"
        return f"invalid character {_quoted(text[at + len(word)])} {_IN_NUMBER}"
    return f"invalid character {_quoted(first)} {_AT_VALUE}"


def _bad_number(text: str, at: int) -> str:
    part = "after decimal point in" if text[at] == "." else "in exponent of"
    at += 1 + (text[at] != "." and text[at + 1 : at + 2] in ("+", "-"))
    return f"invalid character {_quoted(text[at])} {part} numeric literal" if at < len(text) else "unexpected EOF"


def _in_array(text: str, at: int) -> bool:
    """Whether the innermost thing that is open at `at` is an array."""
    opened: list[str] = []
    within = escaped = False
    for character in text[:at]:
        if within:
            within, escaped = escaped or character != '"', character == "\\" and not escaped
        elif character == '"':
            within = True
        elif character in "[{":
            opened.append(character)
        elif character in "]}":
            opened.pop()
    return opened[-1:] == ["["]


def _ends_within_string(text: str, at: int) -> bool:
    """Whether the string that is open at `at` has no end."""
    return '"' not in text[at + 1 :]


def _quoted(character: str) -> str:
    first = character.encode("utf-8", "surrogatepass")[0]
    shown = {"'": "\\'", '"': '"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
    if character in shown:
        return f"'{shown[character]}'"
    return f"'{chr(first)}'" if first >= 0xA0 or 0x20 <= first < 0x7F else f"'\\x{first:02x}'"
