"""What the lab raises for conditions that the user can understand and act on."""


class LabError(Exception):
    """One clear sentence for the user; commands print it and exit, without a traceback."""
