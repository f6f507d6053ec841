"""Where the samples of a ``perf script`` fell: in which system call, or in which library's own code."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

CALLS: Final = {
    "sending": re.compile(r"\b(ksys_write|do_writev|__sys_sendto|__sys_sendmsg)\b"),
    "receiving": re.compile(r"\b(ksys_read|do_readv|__sys_recvfrom|__sys_recvmsg)\b"),
    "waiting": re.compile(r"\b(do_epoll_wait|do_epoll_pwait|__x64_sys_epoll_p?wait2?)\b"),
}
"""Heading → the functions of Linux under which its samples lie."""
ELSEWHERE: Final = "other kernel"
_FRAME = re.compile(r"\s*[0-9a-f]+ (?P<symbol>.*) \((?P<where>[^()]*|\[[^()]*\])\)\s*")
_VERSION = re.compile(r"([.-]?(cpython-.*|so([.][0-9.]+)?|v?[0-9.]+))+$")


def places(script: str) -> Counter[str]:
    """Samples by place: a heading of `CALLS`, `ELSEWHERE`, or the name of the library that ran, without its version.

    ``script`` is what ``perf script -F ip,sym,dso`` prints: a sample's frames, innermost first, and an empty line.
    """
    found: Counter[str] = Counter()
    for sample in script.split("\n\n"):
        frames = [frame for line in sample.splitlines() if (frame := _FRAME.fullmatch(line))]
        if frames:
            found[_place(frames)] += 1
    return found


def _place(frames: list[re.Match[str]]) -> str:
    innermost = frames[0]["where"]
    if not innermost.startswith("[kernel"):
        return _VERSION.sub("", innermost.rsplit("/", 1)[-1])
    symbols = " ".join(frame["symbol"] for frame in frames)
    return next((heading for heading, functions in CALLS.items() if functions.search(symbols)), ELSEWHERE)
