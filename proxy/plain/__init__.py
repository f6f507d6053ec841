"""Plain frames: those that nobody has to see. They are counted, paired with their answers, and passed on as they came.

Nearly all traffic is plain, so this is what a request costs. `native` is the compiled form, which takes whole chunks of
frames; `pure` is the same in Python for where nothing could be compiled, and takes the commonest case of it, one frame
a chunk. What is not plain both leave to the rest of the session, so that they can't differ in what they do, only in how
fast: a test holds their conversations side by side. ``NOTLEADER_PURE=1`` in the environment leaves `native` out.
"""

import os
from typing import TYPE_CHECKING

from proxy.plain import pure

if TYPE_CHECKING or os.environ.get("NOTLEADER_PURE"):
    from proxy.plain.pure import Clock, Exchange, Plain
else:
    try:
        from proxy.plain.native import Clock, Exchange, Plain
    except ImportError:
        from proxy.plain.pure import Clock, Exchange, Plain

IS_NATIVE = Plain is not pure.Plain

__all__ = ["IS_NATIVE", "Clock", "Exchange", "Plain"]
