"""Plain frames: those that nobody has to see. They are counted, paired with their answers, and passed on as they came.

Nearly all traffic is plain, so this is what a request costs. `native` is the compiled form, which takes whole chunks of
frames; `pure` is the same in Python for where nothing could be compiled, and takes the commonest case of it, one frame
a chunk. What is not plain both leave to the rest of the session, so that they can't differ in what they do, only in how
fast: a test holds their conversations side by side. ``NOTLEADER_PURE=1`` in the environment leaves `native` out.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from notleader.proxy.plain.flags import INTERFACE

IS_NATIVE = not os.environ.get("NOTLEADER_PURE") and find_spec("notleader.proxy.plain.native") is not None

if TYPE_CHECKING or not IS_NATIVE:
    from notleader.proxy.plain.pure import BrokerEnd, Ends, Exchange, Noting, Plain, Taker, Tally
else:
    native = import_module("notleader.proxy.plain.native")
    if getattr(native, "INTERFACE", None) != INTERFACE:
        raise ImportError(
            "notleader's compiled part is of other sources than the rest: install it again (pip install -e .)"
        )
    Exchange, Plain = native.Exchange, native.Plain
    Ends, BrokerEnd, Noting, Taker, Tally = native.Ends, native.BrokerEnd, native.Noting, native.Taker, native.Tally

__all__ = ["IS_NATIVE", "BrokerEnd", "Ends", "Exchange", "Noting", "Plain", "Taker", "Tally"]
