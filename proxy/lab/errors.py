"""What the lab raises for conditions that the user can understand and act on."""

from notleader.proxy.config.extras import Extra, missing


class LabError(Exception):
    """One clear sentence for the user; commands print it and exit, without a traceback."""


def need(who: str, extra: Extra) -> None:
    """Raise LabError, which says what to install, where an extra is missing."""
    if (line := missing(who, extra)) is not None:
        raise LabError(line)
