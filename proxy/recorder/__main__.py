"""``python -m notleader.proxy.recorder FD``: started by a proxy, which is at the other end of that descriptor."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import sys
from typing import Final

_NICE: Final = 10


def main() -> None:
    """Do the job that the proxy says, at a low priority; only it says when that ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # sent to everybody by a terminal, or whoever ends a service
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    sock = socket.socket(fileno=int(sys.argv[1]))
    heard = b""
    while b"\n" not in heard:
        got = sock.recv(1 << 16)
        if not got:
            return
        heard += got
    line, _, rest = heard.partition(b"\n")
    from notleader.proxy.record.limits import CaptureError
    from notleader.proxy.record.memory import give_back
    from notleader.proxy.recorder.service import SaidToProxy, Service

    try:
        service = Service(json.loads(line), sock, rest)
    except CaptureError as error:
        sock.sendall(json.dumps({"refused": str(error)}).encode() + b"\n")
        return
    logging.basicConfig(level=logging.INFO, handlers=[SaidToProxy(service.say)], format="%(message)s")
    give_back()  # half of Arrow's pages
    service.run()
    os._exit(0)  # an upload that hangs is nothing to wait for: its rows are in a journal


if __name__ == "__main__":
    main()
