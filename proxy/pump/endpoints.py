"""Whether a Produce or Fetch answer carries `node_endpoints` (KIP-951), told by a probe without decoding it.

The field is a tagged one at the very end of the body, and all but absent: a broker adds it only beside
NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from notleader.proxy.pump import Probe
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.primitives import Buffer
from notleader.proxy.wire.probe import ENDPOINTS, NOTHING, Frame, program


def surely_absent(api_key: int, api_version: int, frame: Buffer, start: int, stop: int) -> bool:
    """Whether the answer in `frame[start:stop]` (from its correlation id on) has none; False also for a broken one."""
    probe = Probe(program(api_key, api_version, "response", ENDPOINTS), stop - start)
    probe.feed(frame, start, stop)
    return probe.is_good and probe.frame[Frame.ENDPOINTS] == NOTHING


class FetchWalk:
    """Walks over a Fetch answer of ``total`` bytes (from its correlation id on) as it passes, chunk by chunk.

    Records are never touched. `feed` raises a WireError of the broker for what can't be such an answer.
    """

    __slots__ = ("_probe", "hide_at")

    def __init__(self, api_version: int, total: int) -> None:
        self._probe = Probe(program(ApiKey.Fetch, api_version, "response", ENDPOINTS), total)
        self.hide_at = -1
        """Where in the chunk that was fed last the tag number of node_endpoints is."""

    @property
    def ended(self) -> bool:
        """Whether all of the answer was read."""
        return self._probe.ended

    @property
    def skip(self) -> int:
        """How many bytes from here on tell nothing: so much may pass unseen (`pass_over`)."""
        return self._probe.skip

    def pass_over(self, size: int) -> None:
        """Take note of so many bytes of what `skip` says."""
        self._probe.pass_over(size)

    def feed(self, chunk: Buffer, start: int, stop: int) -> None:
        """Take `chunk[start:stop]`."""
        probe = self._probe
        before, known = probe.fed - start, probe.frame[Frame.ENDPOINTS]
        probe.feed(chunk, start, stop)
        if probe.broken is not None:
            raise WireError(f"a Fetch answer: {probe.broken}", "broker")
        found = probe.frame[Frame.ENDPOINTS]
        self.hide_at = found - before if known == NOTHING != found else -1
