"""Text from the wire and from clients, written so that it can't act on whoever reads it."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with everything that isn't printable (escape sequences, line ends, lone surrogates) as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
