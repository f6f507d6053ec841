"""A rule of every kind, in each of its phases, that can hit nothing: what is armed so must change nothing.

They are made from the registry of kinds, so that a new kind is among them by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from notleader.faults.base import Fault
from notleader.faults.schema import FaultDocumentError, parse_fault_document

NOBODY: Final = "nobody's"
# Each is a match that no exchange and no connection agrees with, and one a trigger that no test lives to see.
_NEVER: Final[tuple[dict[str, Any], ...]] = (
    {"match": {"topic": NOBODY}},
    {"match": {"topic": NOBODY, "partition_index": 0}},
    {"match": {"partition_index": 99_999}},
    {"match": {"group_id": NOBODY}},
    {"match": {"transactional_id": NOBODY}},
    {"match": {"client_id": NOBODY}},
    {"match": {"principal": NOBODY}},
    {"match": {"listener": "broker-99999"}},
    {"match": {"node_id": 99_999}},
    {"match": {"connection": 99_999}},
    {"trigger": {"after_ms": 1e9}},
)
# What a kind may ask for that has no default; a broker that isn't there can't go down either.
_VALUES: Final[tuple[Any, ...]] = (99_999, 6, 1, 1.0, {"Produce": 7}, "other", True, "x", [1])


def unhittable() -> list[dict[str, Any]]:
    """The documents of all those rules."""
    return [document for kind in sorted(Fault.kinds) for document in of_kind(kind)]


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Those of one kind; at least one, or this build can't arm it so that it can't hit."""
    found = []
    for least in _least(kind):
        for phase in ("before_broker", "after_broker", "connection"):
            for never in _NEVER:
                document = {**least, "phase": phase, **never}
                if _parses(document):
                    found.append(document)
        if found:
            return found
    raise AssertionError(f"no rule of kind {kind} was found that can't hit: give it the values that it needs")


def _least(kind: str) -> Iterator[dict[str, Any]]:
    """Documents that have all that the kind requires, in some way or other."""
    documents: list[dict[str, Any]] = [{"kind": kind}]
    for name, field in Fault.kinds[kind].model_fields.items():
        if field.is_required() and name != "kind":
            documents = [{**document, name: value} for document in documents for value in _VALUES]
    yield from documents


def _parses(document: dict[str, Any]) -> bool:
    try:
        parse_fault_document(document)
    except FaultDocumentError:
        return False
    return True
