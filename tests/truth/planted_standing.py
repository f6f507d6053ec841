"""Rules that stand for a while: elections, silence, dead brokers, lies about who leads, slow lines, lost metadata."""

from __future__ import annotations

from typing import Any

from tests.truth.rules import rule, standing
from tests.truth.scenario import IN_WORKERS, Effect, Phase, Producer, Rule, Scenario, reader

_FIRST = {"topic": "orders", "partition_index": 0}


def during(
    name: str,
    fault: Rule,
    *effects: Effect,
    beside: tuple[Rule, ...] = (),
    lift_ms: int = 0,
    fast: bool = False,
    alone: bool = False,
    **producer: Any,
) -> Scenario:
    """A producer at work; the rule comes when it had its first success, and with `lift_ms` it goes again.

    Rules `beside` it are there from the beginning to the end.
    """
    topics = {"orders": producer.get("partitions", 1)}
    bounds = producer.pop("bounds", {})
    given = {"messages": 60, "interval_ms": 50, "delivery_ms": 8000, **producer}
    phases = (
        Phase(clients=(Producer(name="p", **given),), background=True),
        Phase(after_first_of="p", add=(fault,), pause_ms=lift_ms),
        Phase(remove=(fault["name"],) if lift_ms else (), until_done=True),
        reader(),
    )
    return Scenario(
        name=name,
        faults=beside,
        phases=phases,
        effects=effects,
        topics=topics,
        fast=fast,
        alone=alone,
        options=bounds,
    )


def _leaders() -> list[Scenario]:
    made = []
    for lib in IN_WORKERS:
        made.append(
            during(
                f"election-{lib}",
                rule(
                    "no-leader",
                    "leader_election",
                    None,
                    for_ms=1500,
                    match={"topic": "orders", "partition_index": 0},
                    trigger={},
                ),
                Effect("late", "p", ("no-leader",), at_least=3),
                lib=lib,
                timeout_ms=6000,
                partitions=2,  # not of the fast cut: how unfair the two were to each other is the machine's doing too
            )
        )
        made.append(
            during(
                f"refused-for-two-seconds-{lib}",
                rule("refusal", "error", error_code="NOT_LEADER_OR_FOLLOWER", trigger={"times": "forever"}),
                Effect("retried", "p", ("refusal",)),
                Effect("late", "p", ("refusal",)),
                Effect("wrong_broker", "p", ("refusal",)),
                Effect("recovery", "p", ("refusal",)),
                lib=lib,
                lift_ms=1800,
                timeout_ms=6000,
            )
        )
    made.append(
        during(
            "metadata-storm",
            rule("no-leader", "leader_election", None, for_ms=2500, match={"topic": "orders"}, trigger={}),
            Effect("metadata_storm", "p", ("no-leader",)),
            timeout_ms=6000,
            alone=True,
            bounds={"storm_per_s": 25},
        )
    )
    made.append(
        during(
            "retry-storm",
            rule("refusal", "error", error_code="NOT_ENOUGH_REPLICAS", trigger={"times": "forever"}),
            Effect("retry_storm", "p", ("refusal",)),
            Effect("late", "p", ("refusal",)),
            options={"retry_backoff_ms": 1},
            timeout_ms=6000,
            lift_ms=2200,
            alone=True,
            bounds={"storm_per_s": 25},
        )
    )
    made.append(
        during(
            "wrong-broker-for-long",
            rule("refusal", "error", error_code="NOT_LEADER_OR_FOLLOWER", trigger={"times": "forever"}),
            Effect("wrong_broker", "p", ("refusal",)),
            Effect("failed", "p", ("refusal",)),
            options={"retry_backoff_ms": 100},
            timeout_ms=3000,
            lift_ms=6500,
            messages=40,
        )
    )
    return made


def _silent() -> list[Scenario]:
    made = []
    for lib in IN_WORKERS:
        made.append(
            during(
                f"blackhole-{lib}",
                standing("silence", "blackhole"),
                Effect("late", "p", ("silence",), at_least=3),
                lib=lib,
                lift_ms=1700,
                timeout_ms=6000,
                messages=40,
            )
        )
        made.append(
            during(
                f"hangs-{lib}",
                rule("eat", "drop_request", trigger={"times": "forever"}),
                Effect("hang", "p", ("eat",)),
                lib=lib,
                timeout_ms=40_000,
                delivery_ms=40_000,
                own_process=True,
                wait_ms=2500,
                messages=20,
            )
        )
    for lib in ("aiokafka", "confluent-kafka"):
        made.append(
            during(
                f"broker-down-{lib}",
                standing("gone", "broker_down", node_id=1),
                Effect("late", "p", ("gone",)),
                lib=lib,
                lift_ms=1800,
                timeout_ms=6000,
                messages=40,
            )
        )
    made.append(
        during(
            "rolling-restart-confluent-kafka",
            standing("rolling", "rolling_restart", down_ms=1800, pause_ms=500),
            Effect("late", "p", ("rolling",)),
            lib="confluent-kafka",
            timeout_ms=6000,
        )
    )
    return made


def _given_up() -> list[Scenario]:
    """What keeps requests from their answers for longer than their client waits."""
    given: dict[str, Any] = {"lib": "confluent-kafka", "timeout_ms": 1200, "messages": 300, "interval_ms": 10}
    return [
        during(
            "silenced-until-its-client-has-left-confluent-kafka",
            # What lay in the connection is read at the end, when its client has sent it elsewhere.
            standing("silence", "blackhole"),
            Effect("duplicate", "p", ("silence",)),
            Effect("late", "p", ("silence",)),
            lift_ms=4000,
            delivery_ms=15_000,
            **given,
        ),
        during(
            "answers-slower-than-their-client-waits-confluent-kafka",
            standing("narrow", "bandwidth", rate_bytes_per_s=20, direction="response"),
            Effect("duplicate", "p", ("narrow",)),
            Effect("late", "p", ("narrow",)),
            lift_ms=5000,
            delivery_ms=20_000,
            **given,
        ),
    ]


def _lines() -> list[Scenario]:
    made = []
    for lib in IN_WORKERS:
        # librdkafka asks for its brokers first, and for the topic when the first message is there.
        narrower = {"trigger": {"times": 2}} if lib == "confluent-kafka" else {"match": {"topic": "orders"}}
        hold = rule("hold", "stall", "Metadata", **{"for_ms": 1600, "phase": "after_broker", "trigger": {}, **narrower})
        made.append(
            Scenario(
                name=f"metadata-held-{lib}",
                faults=(hold,),
                phases=(Phase(clients=(Producer(name="p", lib=lib, messages=5, timeout_ms=6000),)), reader()),
                effects=(Effect("blocked_call" if lib == "kafka-python" else "late", "p", ("hold",)),),
            )
        )
    made.append(
        during(
            "slow-line",
            standing("narrow", "bandwidth", rate_bytes_per_s=150),
            Effect("late", "p", ("narrow",)),
            timeout_ms=20_000,
            messages=12,
            lift_ms=3500,
        )
    )
    made.append(
        during(
            "sliced-line",
            standing("pieces", "slice", average_bytes=20, delay_us=150_000),
            Effect("late", "p", ("pieces",)),
            timeout_ms=20_000,
            messages=12,
            lift_ms=4000,
        )
    )
    wide = standing("wide", "bandwidth", rate_bytes_per_s=100_000)
    narrow = standing("narrow", "bandwidth", rate_bytes_per_s=150)
    made += [
        during(
            f"slow-line-beside-a-wide-one-{lib}",
            narrow,
            Effect("late", "p", ("narrow",)),
            beside=(wide, standing("pieces", "slice", average_bytes=50, delay_us=20)),
            lib=lib,
            timeout_ms=20_000,
            messages=12,
            lift_ms=3500,
        )
        for lib in ("aiokafka", "confluent-kafka")
    ]
    made += [
        Scenario(
            # The client waits for the answer on a connection that is closed already.
            name=f"closed-and-told-late-{lib}",
            faults=(rule("cut", "close"), standing("later", "slow_close", delay_ms=2500)),
            phases=(Phase(clients=(Producer(name="p", lib=lib, messages=12, timeout_ms=6000),)), reader()),
            effects=(Effect("late", "p", ("cut", "later")), Effect("retried", "p", ("cut",))),
        )
        for lib in IN_WORKERS
    ]
    for lib in ("confluent-kafka", "kafka-python"):
        made += [
            during(
                f"closed-after-so-many-bytes-{lib}",
                standing("few", "limit", limit_bytes=2500),
                Effect("retried", "p", ("few",)),
                lib=lib,
                lift_ms=1500,
                messages=40,
                interval_ms=20,
                timeout_ms=3000,
            ),
            Scenario(
                name=f"no-length-of-a-frame-{lib}",
                faults=(rule("nonsense", "oversized_frame", phase="after_broker", close=True),),
                phases=(Phase(clients=(Producer(name="p", lib=lib, messages=12),)), reader()),
                effects=(Effect("duplicate", "p", ("nonsense",)), Effect("retried", "p", ("nonsense",))),
            ),
        ]
    made.append(
        during(
            "one-slow-partition",
            rule("slow", "delay", delay_ms=500, match={"partition_index": 1}, trigger={"times": "forever"}),
            Effect("unfair_acks", "p", ("slow",)),
            partitions=2,
            messages=46,
            interval_ms=1,
            sync=True,
        )
    )
    return made


STANDING = (*_leaders(), *_silent(), *_given_up(), *_lines())
