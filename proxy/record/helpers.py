"""How notleader starts Python for itself: what lies in the user's folder is no module of such a process.

`python -m` looks for modules in the working folder first, and a `queue.py` there would be run in the place of Python's.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping
from typing import Final

_PYTHONS_OWN: Final = os.path.dirname(os.__file__)


def command(module: str, *words: str) -> list[str]:
    """Run a module by this Python, and none that lies in the working folder; goes with `environment`."""
    return [sys.executable, "-P", "-m", module, *words]


def environment(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """This process's environment, or the one given, in which the Pythons that are started can import what it can.

    Where that is more than what is installed (a source tree, a test's folder), Python's own modules and the installed
    ones are looked for first.
    """
    told = {**given, "PYTHONSAFEPATH": "1"}
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    here = [path for path in sys.path if path and os.path.exists(path) and path != os.path.dirname(sys.executable)]
    own = [path for path in here if path in installed or path.startswith(_PYTHONS_OWN)]
    if len(own) < len(here):
        told["PYTHONPATH"] = os.pathsep.join([*own, *(path for path in here if path not in own)])
    return told
