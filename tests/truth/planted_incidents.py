"""The incidents that this project knows by their looks, their nearest relatives, and clients that stay stuck."""

from __future__ import annotations

from typing import Any

from tests.truth.rules import rule, standing
from tests.truth.scenario import Effect, Phase, Producer, Rule, Scenario, reader

_REFUSED: dict[str, Any] = {"error_code": "NOT_LEADER_OR_FOLLOWER", "phase": "before_broker"}
_WAITING_CALLBACK = {
    "warm": "metadata",
    "value_bytes": 10_000,
    "resend": "get",
    "retries": 3,
    "max.block.ms": 1000,
    "batch.size": 16_384,
    "buffer.memory": 262_144,
    "max.in.flight.requests.per.connection": 1,
    "delivery.timeout.ms": 10_000,
}
_IMPATIENT = {"retry_max": 1, "metadata_retry_max": 3, "dial_timeout_ms": 1000, "write_timeout_ms": 1000}


def after_first(name: str, producer: Producer, fault: Rule, *effects: Effect, **more: Any) -> Scenario:
    """The rule comes with the producer's first success, and stays; nobody reads, as nobody could."""
    phases = (
        Phase(clients=(producer,), background=True),
        Phase(after_first_of=producer.name, add=(fault,)),
        Phase(until_done=True),
    )
    return Scenario(name=name, phases=phases, effects=effects, **more)


def _sarama() -> list[Scenario]:
    made = []
    for version, ends in (("1.37.2", ("hang", "looks_like_sarama_hang")), ("1.38.0", ("failed",))):
        made.append(
            Scenario(
                name=f"batch-refused-four-times-sarama-{version.replace('.', '-')}",
                faults=(rule("not-leader", "error", trigger={"times": 4}, **_REFUSED),),
                phases=(
                    Phase(
                        clients=(
                            Producer(
                                name="p", lib="sarama", version=version, messages=1, idempotent=True, kill_ms=7000,
                                options={"messages": 2, "retry_max": 3},
                            ),
                        )
                    ),
                    reader(),
                ),
                effects=tuple(Effect(check, "p", ("not-leader",)) for check in ends),
            )
        )  # fmt: skip
    impatient = Producer(
        name="p", lib="sarama", version="1.27.2", messages=2, interval_ms=1500, timeout_ms=1000, options=_IMPATIENT
    )
    made.append(
        after_first(
            "seconds-become-minutes-sarama-1-27-2",
            impatient,
            standing("firewall", "blackhole"),
            Effect("failed", "p", ("firewall",)),
            Effect("looks_like_sarama_two_minutes", "p", ("firewall",)),
        )
    )
    return made


def _java() -> list[Scenario]:
    made = []
    for version in ("4.4.0", "0.11.0.3"):
        for refusals in (4, 3):
            waits = refusals == 4
            checks = ("hang", "blocked_call", "stuck", "looks_like_java_callback_deadlock") if waits else ("retried",)
            word = "waits" if waits else "is-not-called"
            made.append(
                Scenario(
                    name=f"callback-{word}-java-{version.replace('.', '-')}",
                    faults=(rule("not-leader", "error", trigger={"times": refusals}, **_REFUSED),),
                    phases=(
                        Phase(
                            clients=(
                                Producer(
                                    name="p", lib="java", version=version, messages=24, interval_ms=120,
                                    timeout_ms=5000, delivery_ms=10_000, wait_ms=3000, options=_WAITING_CALLBACK,
                                ),
                            )
                        ),
                        reader(),
                    ),
                    effects=tuple(Effect(check, "p", ("not-leader",)) for check in checks),
                )
            )  # fmt: skip
        mute = rule("mute", "drop_request", "Metadata", match={"client_id": "p"}, trigger={"times": "forever"})
        # Longer than a Java needs to start and to connect: what a call waits for then is no doing of the rule.
        blocked = Producer(
            name="p", lib="java", version=version, messages=3, wait_ms=1000, options={"max.block.ms": 6000}
        )
        made.append(
            Scenario(
                name=f"send-waits-for-metadata-java-{version.replace('.', '-')}",
                faults=(mute,),
                phases=(Phase(clients=(blocked,)), reader()),
                effects=(
                    # One call may be held by the start alone, on a busy machine.
                    Effect("blocked_call", "p", ("mute",), at_least=2),
                    Effect("failed", "p", ("mute",)),
                    Effect("looks_like_java_send_blocks", "p", ("mute",)),
                ),
            )
        )
    return made


def _scala() -> list[Scenario]:
    refreshing = {"request.timeout.ms": 2000, "topic.metadata.refresh.interval.ms": 1000, "budget_ms": 1500}
    producer = Producer(name="p", lib="scala", version="0.8.2.2", messages=60, interval_ms=100, options=refreshing)
    silent = standing("switched-off", "blackhole", match={"listener": "bootstrap"})
    return [
        after_first(
            "refresh-asks-a-silent-host-scala-0-8-2-2",
            producer,
            silent,
            Effect("late", "p", ("switched-off",)),
            Effect("looks_like_scala_refresh_stall", "p", ("switched-off",)),
            kafka="3.9",
        )
    ]


def _stuck() -> list[Scenario]:
    fence = rule("fence", "error", error_code="INVALID_PRODUCER_EPOCH", trigger={"skip": 2, "times": 1})
    return [
        Scenario(
            name="fenced-for-good",
            faults=(fence,),
            phases=(
                Phase(clients=(Producer(name="p", idempotent=True, messages=25, interval_ms=120, timeout_ms=4000),)),
                reader(),
            ),
            effects=(Effect("failed", "p", ("fence",)), Effect("stuck", "p", ("fence",))),
        )
    ]


INCIDENTS = (*_sarama(), *_java(), *_scala(), *_stuck())
