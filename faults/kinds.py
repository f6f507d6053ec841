"""The kinds of faults that there are."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TypeVar

from notleader.faults import catalog

_Fault = TypeVar("_Fault")


class Kinds(Mapping[str, type[_Fault]]):
    """Each kind's class by its name: those of the catalog, imported when first asked for, and whoever was added."""

    def __init__(self) -> None:
        self._known: dict[str, type[_Fault]] = {}

    def __getitem__(self, kind: str) -> type[_Fault]:
        if kind in catalog.KINDS:
            # Each time: where another thread is at it, this one waits until the module is whole.
            importlib.import_module(f"{catalog.__name__}.{kind}")
        return self._known[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*catalog.KINDS, *self._known)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, kind: str, fault: type[_Fault]) -> None:
        """Take a class in. Raises TypeError when there is one of that name."""
        taken = self.get(kind)
        if taken is not None:
            raise TypeError(f"fault kind {kind!r} is defined twice: {taken.__qualname__} and {fault.__qualname__}")
        self._known[kind] = fault
