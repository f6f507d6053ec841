"""Known incidents, recognised by their pattern. Each is a check like any other; importing this registers them all."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
