"""One question per file. Importing this package imports them all, which is what registers them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from notleader.spark_analysis.checks.base import REGISTRY, Check, Group, HistoryCheck, Tables

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")


def all_checks() -> list[Check]:
    """Every check, known incidents included, in the order in which a report tells them."""
    import_module("notleader.spark_analysis.signatures")
    return sorted(REGISTRY.values(), key=lambda check: (check.order, check.name))


__all__ = ["Check", "Group", "HistoryCheck", "Tables", "all_checks"]
