"""Stories of several rules and clients at once, which nobody thought of when the causes were written."""

from __future__ import annotations

from typing import Any

from tests.truth.planted_standing import during
from tests.truth.rules import TRIFLE, rule, standing
from tests.truth.scenario import Consumer, Effect, Phase, Producer, Rule, Scenario, reader

_AFTER: Rule = {**TRIFLE, "name": "trifle-after", "phase": "after_broker"}
_FOREVER = {"times": "forever"}


def _sends(
    name: str, *faults: Rule, effects: tuple[Effect, ...], beside: tuple[Producer, ...] = (), **producer: Any
) -> Scenario:
    """A producer `p` and others beside it, several rules, and somebody who reads everything afterwards."""
    topics = {"orders": producer.get("partitions", 1)} | {other.topic: other.partitions for other in beside}
    kafka = producer.pop("kafka", "4")
    phases = (Phase(clients=(Producer(name="p", **producer), *beside)), reader())
    return Scenario(name=name, faults=faults, phases=phases, effects=effects, topics=topics, kafka=kafka)


def _mixed() -> list[Scenario]:
    swallow = rule("swallow", "drop_response")
    return [
        _sends(
            "old-produce-swallowed-kafka-python",
            rule("older", "cap_versions", None, versions={"Produce": 2, "Fetch": 3}, trigger=_FOREVER),
            swallow,
            TRIFLE,
            effects=(Effect("duplicate", "p", ("swallow",)),),
            kafka="3.9",
            lib="kafka-python",
            acks="1",
            messages=12,
        ),
        Scenario(
            name="two-hosts-silent-aiokafka",
            phases=(
                Phase(clients=(Producer(name="p", messages=60, interval_ms=50, timeout_ms=6000),), background=True),
                Phase(
                    after_first_of="p",
                    add=(
                        standing("off", "blackhole", match={"listener": "broker-1"}),
                        standing("also-off", "blackhole", match={"listener": "bootstrap"}),
                    ),
                    pause_ms=2000,
                ),
                Phase(remove=("off", "also-off"), until_done=True),
                reader(),
            ),
            effects=(Effect("late", "p", ("off",)),),
        ),
        during(
            "acks-0-into-silence-kafka-python",
            standing("off", "blackhole", release="discard"),
            Effect("lost", "p", ("off",)),
            beside=(TRIFLE,),
            lift_ms=1500,
            lib="kafka-python",
            acks="0",
            messages=60,
            timeout_ms=1000,
        ),
        _sends(
            "a-java-among-strangers",
            rule("swallow", "drop_response", match={"client_id": "p"}),
            rule("loud", "error", error_code="TOPIC_AUTHORIZATION_FAILED", match={"client_id": "q"}, trigger=_FOREVER),
            _AFTER,
            effects=(Effect("retried", "p", ("swallow",)), Effect("failed", "q", ("loud",))),
            beside=(Producer(name="q", messages=8),),
            lib="java",
            partitions=3,
            messages=20,
            idempotent=True,
            delivery_ms=9000,
        ),
        _sends(
            "four-partitions-swallowed-sarama",
            swallow,
            TRIFLE,
            effects=(Effect("duplicate", "p", ("swallow",)),),
            lib="sarama",
            messages=10,
            options={"messages": 4, "retry_max": 3},
        ),
        _sends(
            "two-clients-of-one-name",
            rule("hold", "stall", for_ms=1600, phase="after_broker", match={"topic": "orders"}),
            rule("refuse", "error", error_code="TOPIC_AUTHORIZATION_FAILED", match={"topic": "bills"}),
            effects=(Effect("late", "p", ("hold",)), Effect("failed", "q", ("refuse",))),
            beside=(Producer(name="q", lib="kafka-python", topic="bills", client_id="svc", messages=20),),
            client_id="svc",
            timeout_ms=6000,
        ),
        _sends(
            "held-and-later-cut-confluent-kafka",
            rule("hold", "stall", for_ms=1700, phase="after_broker"),
            rule("cut", "close", phase="after_broker", trigger={"skip": 4, "times": 1}),
            TRIFLE,
            effects=(Effect("late", "p", ("hold",)), Effect("retried", "p", ("cut",))),
            lib="confluent-kafka",
            sync=True,
            messages=12,
            timeout_ms=6000,
            delivery_ms=9000,
        ),
        _sends(
            "swallowed-among-lies-franz-go",
            rule("swallow", "drop_response"),
            rule("slow-metadata", "delay", "Metadata", delay_ms=20, trigger=_FOREVER),
            effects=(Effect("retried", "p", ("swallow",)),),
            lib="franz-go",
            partitions=3,
            messages=20,
            delivery_ms=9000,
        ),
        _sends(
            "appended-and-refused-confluent-kafka",
            rule("refusal", "error", error_code="NOT_ENOUGH_REPLICAS_AFTER_APPEND", phase="after_broker"),
            TRIFLE,
            _AFTER,
            effects=(Effect("duplicate", "p", ("refusal",)), Effect("retried", "p", ("refusal",))),
            lib="confluent-kafka",
            partitions=2,
            messages=16,
            delivery_ms=9000,
        ),
        Scenario(
            name="two-groups-and-two-lies",
            faults=(
                rule("lie", "error", "OffsetCommit", error_code=0, match={"group_id": "g"}, trigger=_FOREVER),
                rule("no", "error", "OffsetCommit", error_code="GROUP_AUTHORIZATION_FAILED", match={"group_id": "h"}),
                rule("slow", "delay", "Fetch", delay_ms=20, trigger=_FOREVER),
            ),
            phases=(
                Phase(clients=(Producer(name="p", messages=30, interval_ms=2, partitions=2),)),
                Phase(
                    clients=(
                        Consumer(name="c", group="g", messages=30, idle_ms=9000),
                        Consumer(name="e", lib="kafka-python", group="h", messages=30, commit="each", idle_ms=9000),
                    )
                ),
                Phase(clients=(Consumer(name="d", lib="kafka-python", group="g", commit="none", idle_ms=6000),)),
                reader(),
            ),
            effects=(
                Effect("commit_lost", "g", ("lie",)),
                Effect("read_by_another", "d", ("lie",)),
                Effect("failed", "e", ("no",)),
            ),
            topics={"orders": 2},
        ),
    ]


MIXED = tuple(_mixed())
