"""The bounds a user may move, in one value that every check receives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Thresholds of one analysis; all times in ms."""

    blocked_ms: int = 1000
    """A call that holds its caller this long or longer is blocked."""
    late_ms: int | None = None
    """A bound on called → completed; passing it is a negative verdict. None: slow sends are reported only."""
    slow_ms: int = 1000
    """From here on a send is mentioned as slow when no bound was given."""
    hang_ms: int = 0
    """A pending operation younger than this when the recording ends is not judged."""
    stuck_ms: int = 1000
    """How long after a fault's last hit failures are still the fault's, before the client counts as stuck."""
    skew_ms: int = 1000
    """How far the clocks of clients and proxies may differ."""
    storm_per_s: int = 100
    """Requests of one kind (metadata, reconnects, retries) in one second, from one client, that make a storm."""
    by_run: bool = False
    """Treat each run as a cluster of its own: the same topic and offset in two runs are then not the same place."""
    runs_are_told: bool = False
    """Every outcome line names its run, so that none has to be guessed by its time."""
    groups_per_check: int = 40
    """More findings than this of one check (thousands of partitions) read better as one line than as a thousand."""

    @property
    def told_ms(self) -> int:
        """From here on some check speaks of how long an operation took, or held its caller."""
        return min(self.slow_ms, self.blocked_ms, self.slow_ms if self.late_ms is None else self.late_ms)
