"""One Ctrl-C, SIGTERM or SIGHUP ends a run in order; no second one breaks the clean-up."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.2


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first of the signals into a KeyboardInterrupt with its number in the body and ignore the later ones.

    Main thread only, as Python's signal handlers are.
    """

    heard = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not heard.is_set():
            heard.set()
            raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        with _insisting(heard):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _insisting(heard: threading.Event) -> Iterator[None]:
    """Send a signal to this thread again until its handler has run.

    What comes just before a thread begins to wait for a lock is noted and doesn't end the wait: Python runs the handler
    when the lock is there, which may be a minute later.
    """
    waiting = threading.get_ident()
    noted, noting = socket.socketpair()
    noting.setblocking(False)

    def insist() -> None:
        with noted:
            while number := noted.recv(1):
                while number[0] in _SIGNALS and not heard.wait(_AGAIN_S):
                    signal.pthread_kill(waiting, number[0])

    threading.Thread(target=insist, name="interrupts", daemon=True).start()
    before = signal.set_wakeup_fd(noting.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        heard.set()
        noting.close()
