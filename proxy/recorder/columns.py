"""Numbers of a journal as columns: in Python here, and compiled in `pages` where that is."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any, Final

from notleader.proxy.pump import IS_NATIVE
from notleader.proxy.record.block import Packing, exchanges_of

IS_COMPILED: Final = IS_NATIVE and find_spec("notleader.proxy.recorder.pages") is not None
if IS_COMPILED:
    from notleader.proxy.recorder.pages import Numbers

Packed = tuple[Packing, int, int]
"""Numbers, how many rows are in them, and how many partitions of their own."""


def columns_of(packings: list[Packed]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The places of `block.Row`, and those of `block.Part`, each as 64-bit integers of this machine."""
    return Numbers(packings, {}).columns() if IS_COMPILED else columns_in_python(packings)


def columns_in_python(packings: list[Packed]) -> tuple[Sequence[Any], Sequence[Any]]:
    """`columns_of`, where nothing is compiled."""
    rows, parts = [], []
    for packed, *_ in packings:
        for row, own in exchanges_of(packed):
            rows.append(row)
            parts += own
    return _turned(rows, 11), _turned(parts, 5)


def whats_among(packed: Packed) -> dict[int, int]:
    """How many rows point to each *what*."""
    return Numbers([packed], {}).whats() if IS_COMPILED else Counter(row[1] for row, _ in exchanges_of(packed[0]))


def _turned(rows: Iterable[tuple[int, ...]], places: int) -> list[Any]:
    return [array("q", column) for column in zip(*rows, strict=True)] or [array("q")] * places
