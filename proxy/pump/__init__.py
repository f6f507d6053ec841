"""What runs over the bytes of every connection, compiled where that could be done and the same in Python elsewhere.

``NOTLEADER_PURE=1`` in the environment leaves the compiled form out; a test holds the two side by side.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

IS_NATIVE = not os.environ.get("NOTLEADER_PURE") and find_spec("notleader.proxy.pump.probe") is not None

if TYPE_CHECKING or not IS_NATIVE:
    from notleader.proxy.pump.interpreter import Probe
else:
    Probe = import_module("notleader.proxy.pump.probe").Probe

__all__ = ["IS_NATIVE", "Probe"]
