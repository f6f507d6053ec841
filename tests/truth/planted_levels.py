"""The same, recorded at level `partition`, which is the default and names no messages."""

from __future__ import annotations

from dataclasses import replace

from tests.truth.planted_sends import SENDS
from tests.truth.scenario import Scenario

_BY_MESSAGE = ("retried",)
"""What the oracle counts by the ids in the capture."""


def at_partition(scenario: Scenario) -> Scenario:
    """Recorded without message ids."""
    effects = tuple(effect for effect in scenario.effects if effect.check not in _BY_MESSAGE)
    return replace(scenario, name=f"{scenario.name}-at-partition", level="partition", effects=effects, fast=False)


_BY_NAME = {scenario.name: scenario for scenario in SENDS}

LEVELS = tuple(
    at_partition(_BY_NAME[name])
    for name in (
        "not-after-aiokafka",
        "not-after-kafka-python",
        "swallowed-answer-resent-aiokafka",
        "swallowed-answer-retried-kafka-python-acks-1",
        "swallowed-answer-no-retry-confluent-kafka",
        "held-stall-after-kafka-python",
        "held-delay-before-aiokafka",
        "copied-confluent-kafka",
        "refused-for-good-aiokafka",
        "acknowledged-and-gone-aiokafka",
    )
)
