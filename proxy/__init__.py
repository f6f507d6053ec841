"""A Kafka-aware TCP proxy that lies on purpose and writes down every lie.

The way of a frame, left to right; each name is a module of this package or of ``faults``::

    server (accept) → transport → wire.frame → wire.header → faults.match → faults.plan
        → transport (broker) → inflight → rewrite → capture → transport (client)

``session`` steers it: bytes and the time go in, commands come out, and it never touches a socket.
``transport`` is the only place that does. ``server`` owns the listeners, one for bootstrap and one per
broker, and what they share: the fault plan, the broker directory, the capture.
"""

TYPE_CHECKING = False  # as mypy knows it; `typing` itself takes as long to import as Python takes to start
if TYPE_CHECKING:
    from notleader.proxy.server import Proxy as Proxy

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Give ``notleader.proxy.Proxy`` without making ``import notleader.proxy.wire`` pay for an event loop."""
    if name == "Proxy":
        from notleader.proxy.server import Proxy

        return Proxy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
