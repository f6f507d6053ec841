"""Two rules and more in one run, of which one is guilty; or each of its own client's trouble."""

from __future__ import annotations

from dataclasses import replace

from tests.truth.planted_sends import SENDS
from tests.truth.rules import TRIFLE, rule
from tests.truth.scenario import Effect, Phase, Producer, Scenario

_STRANGERS = rule(
    "theirs", "stall", for_ms=1600, phase="after_broker", match={"client_id": "q"}, trigger={"skip": 3, "times": 1}
)
_LOUD = rule(
    "loud", "error", error_code="TOPIC_AUTHORIZATION_FAILED", match={"client_id": "q"}, trigger={"skip": 2, "times": 3}
)


def _beside(scenario: Scenario) -> Phase:
    (p,) = scenario.phases[0].clients
    assert isinstance(p, Producer)
    q = Producer(name="q", lib=p.lib, messages=20, timeout_ms=6000)
    return Phase(clients=(p, q))


def with_trifle(scenario: Scenario) -> Scenario:
    """Every Produce besides held for a moment, before and after."""
    after = {**TRIFLE, "name": "trifle-after", "phase": "after_broker"}
    return replace(scenario, name=f"{scenario.name}-trifles", faults=(*scenario.faults, TRIFLE, after), fast=False)


def with_stranger(scenario: Scenario) -> Scenario:
    """Another client of the same topic beside it, to which another rule does as much."""
    own = tuple({**fault, "match": {**fault["match"], "client_id": "p"}} for fault in scenario.faults)
    phases = (_beside(scenario), *scenario.phases[1:])
    effects = (*scenario.effects, Effect("late", "q", ("theirs",)))
    return replace(
        scenario,
        name=f"{scenario.name}-stranger",
        faults=(*own, _STRANGERS),
        phases=phases,
        effects=effects,
        fast=False,
    )


def with_loud_stranger(scenario: Scenario) -> Scenario:
    """Two other rules: a refusal of another client's sends, and a trifle on everybody's."""
    own = tuple({**fault, "match": {**fault["match"], "client_id": "p"}} for fault in scenario.faults)
    phases = (_beside(scenario), *scenario.phases[1:])
    effects = (*scenario.effects, Effect("failed", "q", ("loud",)))
    return replace(
        scenario, name=f"{scenario.name}-loud", faults=(TRIFLE, *own, _LOUD), phases=phases, effects=effects, fast=False
    )


_BY_NAME = {scenario.name: scenario for scenario in SENDS}


def _some(*names: str) -> list[Scenario]:
    return [_BY_NAME[name] for name in names]


SEVERAL = (
    *map(
        with_trifle,
        _some(
            "swallowed-answer-resent-aiokafka",
            "swallowed-answer-retried-confluent-kafka-acks-all",
            "swallowed-answer-no-retry-kafka-python",
            "not-after-aiokafka",
            "not-before-confluent-kafka",
            "held-stall-after-kafka-python",
            "held-delay-before-aiokafka",
            "held-delay-after-confluent-kafka",
            "close-after-confluent-kafka",
            "reset-after-kafka-python",
            "copied-aiokafka",
            "refused-for-good-aiokafka",
            "acknowledged-and-gone-confluent-kafka",
            "acks-0-swallowed-aiokafka",
        ),
    ),
    *map(
        with_stranger,
        _some(
            "swallowed-answer-resent-kafka-python",
            "swallowed-answer-retried-confluent-kafka-acks-1",
            "not-after-confluent-kafka",
            "request-before-aiokafka",
            "close-before-kafka-python",
            "truncate-after-confluent-kafka",
            "copied-kafka-python",
            "refused-for-good-confluent-kafka",
            "acknowledged-and-gone-aiokafka",
            "swallowed-answer-no-retry-aiokafka",
        ),
    ),
    *map(
        with_loud_stranger,
        _some(
            "swallowed-answer-resent-aiokafka",
            "swallowed-request-confluent-kafka",
            "not-before-kafka-python",
            "held-stall-before-aiokafka",
            "held-delay-after-aiokafka",
            "reset-before-confluent-kafka",
            "copied-confluent-kafka",
            "swallowed-answer-no-retry-confluent-kafka",
        ),
    ),
)
