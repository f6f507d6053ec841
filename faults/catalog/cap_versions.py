"""`cap_versions`: an older broker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from notleader.faults.actions import Action, RewriteResponse
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.faults.selectors import ApiKeys, pattern_schema, spelled_api
from notleader.proxy.wire.names import ApiKey

_SPAN = re.compile(r"[0-9]+(-[0-9]+)?")


def _versions(value: Any) -> dict[int, tuple[int, int]]:
    if not isinstance(value, dict) or not value:
        raise ValueError("a mapping of APIs to versions expected, such as {Produce: '3-7', Fetch: 11}")
    found: dict[int, tuple[int, int]] = {}
    wrong = []
    for name, span in value.items():
        try:
            found[int(spelled_api(name))] = _span(name, span)
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    return found


def _written(versions: dict[int, tuple[int, int]]) -> dict[str, str]:
    return {ApiKey(api_key).name: f"{low}-{high}" for api_key, (low, high) in versions.items()}


def _span(name: str, value: Any) -> tuple[int, int]:
    text = str(value)
    first, dash, last = text.partition("-")
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not _SPAN.fullmatch(text):
        raise ValueError(f"{name}: {value!r} is neither the highest version nor a range such as '3-7'")
    span = (int(first), int(last)) if dash else (0, int(first))
    if span[0] > span[1]:
        raise ValueError(f"{name}: the range {text!r} is empty")
    return span


class CapVersions(Fault):
    """ApiVersions answers offer fewer versions than the broker speaks, or leave an API out: one of whose versions it
    speaks none, as with `DeleteRecords: 99-99`.

    Clients ask once for each connection, so this shapes what is spoken on it; `trigger: {times: forever}` for all.
    """

    kind: Literal["cap_versions"] = "cap_versions"
    phase: Literal["after_broker"] = "after_broker"
    default_api_keys = frozenset((ApiKey.ApiVersions,))

    versions: Annotated[
        dict[int, tuple[int, int]],
        BeforeValidator(_versions),
        PlainSerializer(_written),
        WithJsonSchema(
            {
                "type": "object",
                "properties": {},
                "minProperties": 1,
                "examples": [{"Produce": "3-7", "Fetch": 11}],
                "propertyNames": ApiKeys.one,
                "additionalProperties": {"anyOf": [{"type": "integer", "minimum": 0}, pattern_schema(_SPAN)]},
            }
        ),
    ] = Field(description="API → its highest version, or a range; what the broker doesn't speak is never offered.")

    def on_response(self, context: Context) -> Iterable[Action]:
        if context.answer["error_code"]:
            raise NotApplicableError("the broker refused the request itself")
        offered = []
        for entry in context.answer["api_keys"]:
            low, high = self.versions.get(entry["api_key"], (entry["min_version"], entry["max_version"]))
            low, high = max(low, entry["min_version"]), min(high, entry["max_version"])
            if low <= high:
                offered.append({**entry, "min_version": low, "max_version": high})
        yield RewriteResponse({**context.answer, "api_keys": offered})
