"""Every kind of fault, one file each: a module put here is offered and documented by being here, under its name."""

from __future__ import annotations

import pkgutil
from typing import Final

KINDS: Final = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
