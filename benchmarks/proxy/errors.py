"""Why something can't be measured here, in one sentence."""


class UnavailableError(Exception):
    """A peer, or a part of the bench, can't be had on this machine; the text says why."""
