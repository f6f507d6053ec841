"""A Kafka-aware TCP proxy that lies on purpose and writes down every lie.

Its rooms, from the outside in; imports go this way alone (ARCHITECTURE.md has the drawing)::

    cli        the ``notleader`` command          lab        a real Kafka, clients, incidents, the search for faults
    brokerlog  what is in the brokers' log        control    what ``notleader run`` does, in one process or several
    admin      HTTP API, dashboard, metrics       capture    looking at what was recorded
    recorder   the process that writes Parquet    net        sockets, TLS, clock: the shell around the sessions
    session    one conversation, pure             record     what a finished exchange leaves: facts, journal, losses
    config     the settings                       plain      frames that nobody has to see
    pump       a few fields out of passing frames  wire      Kafka's protocol, from Kafka's own definitions

Beside them the entry points ``__main__`` and ``pytest_plugin``. ``notleader.faults`` is between ``pump`` and ``wire``.
"""

TYPE_CHECKING = False  # as mypy knows it; `typing` itself takes as long to import as Python takes to start
if TYPE_CHECKING:
    from notleader.proxy.net.server import Proxy as Proxy

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Give ``notleader.proxy.Proxy`` without making ``import notleader.proxy.wire`` pay for an event loop."""
    if name == "Proxy":
        from notleader.proxy.net.server import Proxy

        return Proxy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
