"""How Ctrl-C ends a command of the lab."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from notleader.proxy.lab.interrupts import interruptible


def test_a_signal_that_does_not_end_the_wait_is_sent_again() -> None:
    """As one that comes just before the wait begins: here another thread is given it."""
    given_up = threading.Event()
    main = threading.get_ident()

    def send() -> None:
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        if not given_up.wait(20):
            signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interruptible():
        threading.Event().wait()
    given_up.set()
    assert time.monotonic() - began < 15


def test_what_was_before_is_there_again_and_the_thread_is_gone() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
    deadline = time.monotonic() + 5
    while any(thread.name == "interrupts" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
