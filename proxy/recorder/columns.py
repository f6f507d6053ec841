"""Numbers of a journal as columns: in Python here, and compiled in `pages` where that is."""

from __future__ import annotations

from array import array
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from notleader.proxy.pump import IS_NATIVE
from notleader.proxy.record.block import Packing, numbers_of, parts_of

_ROW_PLACES: Final = 11
_PART_PLACES: Final = 5
IS_COMPILED: Final = IS_NATIVE and find_spec("notleader.proxy.recorder.pages") is not None


def rows_in_python(packings: list[Packing]) -> list[Any]:
    """The places of `block.Row` each as an array of 64-bit integers of this machine."""
    rows = [row for packed in packings for row in numbers_of(packed)]
    return [array("q", [row[place] for row in rows]) for place in range(_ROW_PLACES)]


def parts_in_python(packings: list[Packing]) -> list[Any]:
    """Those of `block.Part`."""
    parts = [part for packed in packings for part in parts_of(packed)]
    return [array("q", [part[place] for part in parts]) for place in range(_PART_PLACES)]


row_columns, part_columns = rows_in_python, parts_in_python
if not TYPE_CHECKING and IS_COMPILED:
    pages = import_module("notleader.proxy.recorder.pages")
    row_columns, part_columns = pages.row_columns, pages.part_columns
