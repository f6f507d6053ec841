"""Every kind of fault, one file each: a module put here is imported, registered and documented by being here."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
