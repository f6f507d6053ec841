"""What runs over the bytes of every connection: compiled where that could be done, the same in Python elsewhere.

A `Pump` takes what client and broker send and says what becomes of it: frames are split, requests and their answers
paired (Kafka answers in request order), and what nobody has to see goes through chunk by chunk, as it came. Probes
(`notleader.proxy.wire.probe`) read the few facts that are wanted while it does. It knows frames and their order; what
they mean to a conversation is its owner's business.

``NOTLEADER_PURE=1`` in the environment leaves the compiled form out; a test holds the two side by side.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from notleader.proxy.pump.flags import INTERFACE

IS_NATIVE = not os.environ.get("NOTLEADER_PURE") and find_spec("notleader.proxy.pump.pump") is not None

if TYPE_CHECKING or not IS_NATIVE:
    from notleader.proxy.pump.carrier import Carrier
    from notleader.proxy.pump.exchange import Broken, Done, Exchange, Pass, Passing, Stop, Turn, passing
    from notleader.proxy.pump.interpreter import Probe
    from notleader.proxy.pump.pure import Pump
else:
    native = import_module("notleader.proxy.pump.pump")
    if getattr(native, "INTERFACE", None) != INTERFACE:
        raise ImportError(
            "notleader's compiled part is of other sources than the rest: install it again (pip install -e .)"
        )
    Probe = import_module("notleader.proxy.pump.probe").Probe
    Carrier, Exchange, Passing = native.Carrier, native.Exchange, native.Passing
    Pump, passing = native.Pump, native.passing
    Pass, Stop, Turn, Done, Broken = native.Pass, native.Stop, native.Turn, native.Done, native.Broken

# A frame as it came, in one piece or several, or what is told of it while it passes.
Kept = bytes | memoryview | list[bytes | memoryview] | Passing | None

__all__ = [
    "IS_NATIVE",
    "Broken",
    "Carrier",
    "Done",
    "Exchange",
    "Kept",
    "Pass",
    "Passing",
    "Probe",
    "Pump",
    "Stop",
    "Turn",
    "passing",
]
