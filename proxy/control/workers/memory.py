"""What has changed, in memory that all processes of one proxy see at once."""

from __future__ import annotations

import mmap
import os
from typing import Final

PLAN: Final = 0
"""Counts the changes of the plan: rules, elections, what is exhausted."""
CLUSTER: Final = 1
"""Counts the Metadata answers that the cluster was learned from."""
DIRECTORY: Final = 2
"""Counts the brokers that moved."""

_BYTES: Final = mmap.PAGESIZE


class Changes:
    """Counters of eight bytes each, written by the control plane and read by its workers.

    A worker reads a counter for every request, for some tens of nanoseconds; where it differs from the one before,
    what it remembers of the plan is out of date. It is written before the change can be answered for, so whoever was
    told of a change finds it in force on every worker.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.counts = memoryview(mmap.mmap(descriptor, _BYTES)).cast("Q")

    @classmethod
    def made(cls) -> Changes:
        """New ones, all zero. Linux."""
        descriptor = os.memfd_create("notleader")
        os.ftruncate(descriptor, _BYTES)
        return cls(descriptor)
