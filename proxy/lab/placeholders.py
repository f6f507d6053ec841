"""What a command of the user's has in it for the lab to fill in."""

from __future__ import annotations

import re

from notleader.proxy.lab.errors import LabError
from notleader.proxy.wire.names import did_you_mean

PLACEHOLDERS = ("bootstrap", "topic", "group", "messages")
_ONE = re.compile(r"\{([A-Za-z_]+)\}")


def checked(command: list[str]) -> None:
    """Raise LabError when the command can't reach the proxy, or means a placeholder that it spells otherwise.

    What resembles none of them is the command's own, such as JSON.
    """
    for word in _ONE.findall(" ".join(command)):
        if word not in PLACEHOLDERS and (near := did_you_mean(word, [f"{{{name}}}" for name in PLACEHOLDERS])):
            raise LabError(f"the command has {{{word}}} in it, which is nothing{near}")
    if not any("{bootstrap}" in word for word in command):
        raise LabError("the command has to take {bootstrap} somewhere, as its bootstrap server")
