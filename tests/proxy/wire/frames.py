"""The frames of real clients that tests read, and random bodies for every codec."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from notleader.proxy.wire.codec import Codec, known_versions, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.schemas import NO_UUID, Field
from notleader.proxy.wire.view import Request, Response

FRAMES = Path(__file__).resolve().parents[2] / "golden" / "frames"

_BOUNDS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


class Exchange(NamedTuple):
    """A request and its response as a client and a broker sent them, and who that client was."""

    client: str
    request: bytes
    response: bytes | None

    def __repr__(self) -> str:
        request = Request(self.request)
        return f"{self.client}-{ApiKey(request.header.api_key).name}-v{request.header.api_version}"


@cache
def recorded() -> tuple[Exchange, ...]:
    """Every exchange under tests/golden/frames."""
    found = []
    for path in sorted(FRAMES.glob("*.jsonl")):
        _head, *lines = map(json.loads, path.read_text().splitlines())
        for line in lines:
            response = None if line["response"] is None else base64.b64decode(line["response"])
            found.append(Exchange(path.stem, base64.b64decode(line["request"]), response))
    return tuple(found)


def views() -> Iterator[Request | Response]:
    """Every recorded frame, requests and responses."""
    for exchange in recorded():
        request = Request(exchange.request)
        yield request
        if exchange.response is not None:
            yield Response(exchange.response, request)


def all_codecs() -> Iterator[Codec]:
    """The codecs of every API, version and direction."""
    for api_key in ApiKey:
        for version in known_versions(api_key):
            yield request_codec(api_key, version)
            yield response_codec(api_key, version)


def random_body(codec: Codec, rng: Random) -> dict[str, Any]:
    """A body of a codec as decoding would give it, unknown tagged fields included."""
    return _struct(codec.fields, codec.flexible, rng)


def _struct(fields: tuple[Field, ...], flexible: bool, rng: Random) -> dict[str, Any]:
    body = {field.name: _value(field, flexible, rng) for field in fields}
    if flexible and rng.random() < 0.2:
        body["_tags"] = {rng.randrange(100, 1 << 20): rng.randbytes(rng.randrange(5))}
    return body


def _value(field: Field, flexible: bool, rng: Random) -> Any:
    if field.nullable and rng.random() < 0.2:
        return None
    if field.is_array:
        # Long enough now and then for a compact length of two bytes.
        count = rng.choice((0, 1, 2, 2)) if field.kind == "struct" else rng.choice((0, 1, 3, 130))
        return [_single(field, flexible, rng) for _ in range(count)]
    return _single(field, flexible, rng)


def _single(field: Field, flexible: bool, rng: Random) -> Any:
    kind = field.kind
    if kind == "struct":
        return _struct(field.fields, flexible, rng)
    if kind in _BOUNDS:
        low, high = _BOUNDS[kind]
        return rng.choice((low, high, max(low, -1), 0, rng.randint(low, high)))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice((0.0, -1.5, 1e300, rng.random()))
    if kind == "uuid":
        return UUID(bytes=rng.randbytes(16)) if rng.random() < 0.8 else NO_UUID
    size = rng.choice((0, 1, 7, 126, 127, 128, 300))
    if kind == "string":
        return "".join(rng.choices("aZ0._- /äß€𝄞\x00", k=size))
    return rng.randbytes(size)
