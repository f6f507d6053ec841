"""Text from the wire, written so that it can't act: no escape sequence, no line of its own, nothing invisible."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with every character that isn't printable (str.isprintable) written as its escape: `\\x1b`, `\\n`.

    A client chooses its own id and its topics' names, and an operator's terminal or log must not obey them.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
