"""Thrift's compact protocol, as far as Parquet's footers and page headers need it. Pure.

A struct is a dict of field id → (type, value), so that what is read can be changed and written again without knowing
what it means; one that is only to be written may stand there as its bytes.
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_NUMBERS: Final = frozenset((I16, I32, I64))
_DOUBLE_BYTES: Final = 8
Value = Any
Struct = dict[int, tuple[int, Value]]
"""Lists are pairs of their elements' type and a Python list."""


def i32(number: int) -> tuple[int, Value]:
    """A field of 32 bits."""
    return I32, number


def i64(number: int) -> tuple[int, Value]:
    """A field of 64 bits."""
    return I64, number


def binary(data: bytes) -> tuple[int, Value]:
    """A field of bytes, or of text."""
    return BINARY, data


def struct(fields: Struct | bytes) -> tuple[int, Value]:
    """A field that has fields."""
    return STRUCT, fields


def many(kind: int, values: Iterable[Value]) -> tuple[int, Value]:
    """A field of many values of a type."""
    return LIST, (kind, list(values))


def written(fields: Struct) -> bytes:
    """A struct as bytes."""
    made = bytearray()
    _write_struct(made, fields)
    return bytes(made)


def read(data: bytes | memoryview) -> Struct:
    """The struct at the beginning of these bytes. Raises IndexError or ValueError where there is none."""
    found, _ = _read_struct(bytes(data), 0)
    return found


def number(value: int) -> bytes:
    """One number as it is written."""
    made = bytearray()
    _write_varint(made, _zigzag(value))
    return bytes(made)


def _write_struct(to: bytearray, fields: Struct) -> None:
    last = 0
    for number in sorted(fields):
        kind, value = fields[number]
        if 0 < number - last < 16:
            to.append((number - last) << 4 | kind)
        else:
            to.append(kind)
            _write_varint(to, _zigzag(number))
        last = number
        if kind not in (TRUE, FALSE):
            _write(to, kind, value)
    to.append(0)


def _write(to: bytearray, kind: int, value: Value) -> None:
    if kind in _NUMBERS:
        _write_varint(to, _zigzag(value))
    elif kind == BINARY:
        _write_varint(to, len(value))
        to += value
    elif kind == STRUCT:
        if isinstance(value, bytes):
            to += value
        else:
            _write_struct(to, value)
    elif kind in (LIST, SET):
        inner, values = value
        if len(values) < 15:
            to.append(len(values) << 4 | inner)
        else:
            to.append(0xF0 | inner)
            _write_varint(to, len(values))
        for one in values:
            _write(to, inner, one)
    elif kind in (TRUE, FALSE, BYTE):
        to.append(value)
    elif kind == DOUBLE:
        to += value
    else:
        raise ValueError(f"a value of type {kind}")


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _write_varint(to: bytearray, number: int) -> None:
    while number > 0x7F:
        to.append(number & 0x7F | 0x80)
        number >>= 7
    to.append(number)


def _read_struct(data: bytes, at: int) -> tuple[Struct, int]:
    found: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            zigzag, at = _read_varint(data, at)
            number = zigzag >> 1 ^ -(zigzag & 1)
        value = None
        if kind not in (TRUE, FALSE):
            value, at = _read(data, at, kind)
        found[number] = (kind, value)
    return found, at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in _NUMBERS:
        zigzag, at = _read_varint(data, at)
        return zigzag >> 1 ^ -(zigzag & 1), at
    if kind == BINARY:
        size, at = _read_varint(data, at)
        return data[at : at + size], at + size
    if kind == STRUCT:
        return _read_struct(data, at)
    if kind in (LIST, SET):
        inner, count = data[at] & 15, data[at] >> 4
        at += 1
        if count == 15:
            count, at = _read_varint(data, at)
        values = []
        for _ in range(count):
            value, at = _read(data, at, inner)
            values.append(value)
        return (inner, values), at
    if kind in (TRUE, FALSE, BYTE):
        return data[at], at + 1
    if kind == DOUBLE:
        return data[at : at + _DOUBLE_BYTES], at + _DOUBLE_BYTES
    raise ValueError(f"a value of type {kind}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
