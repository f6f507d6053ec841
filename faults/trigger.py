"""Which of the matching exchanges are hit: time window, skip, every, probability and times, all of which must agree."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import Field

from notleader.faults.document import LARGEST_INT64, Document, Milliseconds, SomeMilliseconds
from notleader.faults.random_source import RandomSource

Count = Annotated[int, Field(ge=1, le=LARGEST_INT64)]
Scope = Literal["rule", "connection", "client", "partition"]
_MOST_SCOPES = 65_536


class Trigger(Document):
    """Counted once per matching exchange: window first, then skip, every, probability and times."""

    times: Count | Literal["forever"] = Field(1, description="How often to hit; 'forever' sets no limit.")
    skip: int = Field(0, ge=0, le=LARGEST_INT64, description="How many matching ones pass before the first may be hit.")
    every: Count = Field(1, description="Hit each n-th matching one after the skipped ones.")
    probability: float = Field(1.0, gt=0.0, le=1.0, description="Chance of a hit, drawn from the seeded source.")
    after_ms: Milliseconds = Field(
        0.0,
        description="Starts this long after the rule was added, or, if it was there before, the proxy began to listen.",
    )
    for_ms: SomeMilliseconds | None = Field(
        None, description="Ends this long after it started; `times` counts all the same."
    )
    after_fault: str | None = Field(
        None,
        min_length=1,
        description="Starts when the rule of that name first strikes an exchange, not when this one was added.",
    )
    per: Scope = Field("rule", description="What skip, every and times are counted for, each on its own.")


OF_TIME: Final = ("after_ms", "for_ms", "after_fault")
"""What has a meaning for a fault that stands."""


@lru_cache(maxsize=256)
def _shared(trigger: Trigger, named: frozenset[str]) -> Trigger:
    """One trigger for rules that say the same of it, down to what they leave out."""
    return trigger


def shared(trigger: Trigger) -> Trigger:
    """The same trigger, of which a thousand rules that say the same keep one."""
    return _shared(trigger, frozenset(trigger.model_fields_set))


class TriggerState:
    """The counters of one rule; `started_us` is when the rule was added, or the one that it waits for struck."""

    __slots__ = ("_counts", "_random", "_trigger", "followed_node_id", "started_us", "waits_for")

    def __init__(self, trigger: Trigger, random: RandomSource, started_us: int | None = None) -> None:
        self._trigger = trigger
        self._random = random
        self.waits_for = trigger.after_fault
        self.started_us = started_us if self.waits_for is None else None
        self.followed_node_id: int | None = None
        """The broker of the exchange that the rule it waited for struck; None where that is not known."""
        self._counts: OrderedDict[object, list[int]] | None = None  # until something is counted

    def fires(self, scope: object, now_us: int) -> bool:
        """Count one matching exchange of `scope` and say whether it is hit."""
        trigger = self._trigger
        self.start(now_us)
        if not self.is_open(now_us):
            return False
        if self._counts is None:
            self._counts = OrderedDict()
        seen_and_hits = self._counts.get(scope)
        if seen_and_hits is None:
            seen_and_hits = self._counts[scope] = [0, 0]
            if len(self._counts) > _MOST_SCOPES:
                self._counts.popitem(last=False)
        if trigger.times != "forever" and seen_and_hits[1] >= trigger.times:
            return False
        seen_and_hits[0] += 1
        after_skip = seen_and_hits[0] - trigger.skip
        if after_skip <= 0 or after_skip % trigger.every:
            return False
        if trigger.probability < 1.0 and self._random.random() >= trigger.probability:
            return False
        seen_and_hits[1] += 1
        return True

    def take_back(self, scope: object) -> None:
        """A hit that was counted for `scope` came to nothing: the next matching exchange may be hit in its place."""
        counted = None if self._counts is None else self._counts.get(scope)
        if counted is not None and counted[1]:
            counted[1] -= 1

    def start(self, now_us: int) -> None:
        """Start the clock of the time window, if nothing has yet and no other rule has to strike first."""
        if self.started_us is None and self.waits_for is None:
            self.started_us = now_us

    def follow(self, now_us: int, node_id: int | None) -> None:
        """The rule that this one waits for has struck an exchange with that broker: the clock starts."""
        self.waits_for = None
        self.followed_node_id = node_id
        self.start(now_us)

    def next_change_us(self, now_us: int) -> int | None:
        """When the window opens or closes next; None when it never will."""
        if self.started_us is None:
            return None
        opens_us = self.started_us + round(self._trigger.after_ms * 1000)
        if now_us < opens_us:
            return opens_us
        if self._trigger.for_ms is None or self.is_over(now_us):
            return None
        return opens_us + round(self._trigger.for_ms * 1000)

    def is_open(self, now_us: int) -> bool:
        """Whether the time window is open; without an end it is from its begin on."""
        if self.started_us is None:
            return not self._trigger.after_ms and self.waits_for is None
        return now_us >= self.started_us + self._trigger.after_ms * 1000 and not self.is_over(now_us)

    def is_over(self, now_us: int) -> bool:
        """Whether the time window has closed for good."""
        trigger = self._trigger
        if trigger.for_ms is None or self.started_us is None:
            return False
        return now_us >= self.started_us + (trigger.after_ms + trigger.for_ms) * 1000

    def is_exhausted(self, now_us: int) -> bool:
        """Whether nothing can be hit any more, whatever comes."""
        if self.is_over(now_us):
            return True
        if self._trigger.per != "rule" or self._trigger.times == "forever" or self._counts is None:
            return False
        counted = self._counts.get(None)
        return counted is not None and counted[1] >= self._trigger.times
