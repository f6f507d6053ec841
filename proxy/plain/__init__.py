"""What is counted and recorded of every finished exchange, compiled where that could be done; else in Python."""

from importlib import import_module
from typing import TYPE_CHECKING

from notleader.proxy.pump import IS_NATIVE

if TYPE_CHECKING or not IS_NATIVE:
    from notleader.proxy.plain.pure import ExchangeSink, Taker, Tally
else:
    native = import_module("notleader.proxy.plain.native")
    ExchangeSink, Taker, Tally = native.ExchangeSink, native.Taker, native.Tally

__all__ = ["IS_NATIVE", "ExchangeSink", "Taker", "Tally"]
