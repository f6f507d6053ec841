"""What the signatures are held on, both ways: each incident's variants, and strangers that look like one.

A stranger is a run of another client that had something in common with an incident: no signature may recognise it
(whatever looks_like_* says of a scenario without being expected is false).
"""

from __future__ import annotations

from typing import Any

from tests.truth.planted_incidents import after_first
from tests.truth.rules import rule, standing
from tests.truth.scenario import Effect, Phase, Producer, Rule, Scenario, reader

_FOREVER = {"times": "forever"}
_CODES = ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS")
"""What sarama sends again, beside NOT_LEADER_OR_FOLLOWER: 3, 5 and 19."""


def _refusal(code: str = "NOT_LEADER_OR_FOLLOWER", **more: Any) -> Rule:
    return rule("refusal", "error", error_code=code, phase="before_broker", **{"trigger": _FOREVER, **more})


def _variants() -> list[Scenario]:
    made = []
    for code in _CODES:
        hangs = Producer(
            name="p", lib="sarama", version="1.37.2", messages=1, idempotent=True, kill_ms=7000,
            options={"messages": 2, "retry_max": 3},
        )  # fmt: skip
        made.append(
            Scenario(
                name=f"batch-refused-sarama-1-37-2-{code.lower().replace('_', '-')}",
                faults=(_refusal(code, trigger={"times": 4}),),
                phases=(Phase(clients=(hangs,)), reader()),
                effects=tuple(Effect(check, "p", ("refusal",)) for check in ("hang", "looks_like_sarama_hang")),
            )
        )
    impatient = {"retry_max": 1, "metadata_retry_max": 3, "dial_timeout_ms": 1000, "write_timeout_ms": 1000}
    newest = Producer(name="p", lib="sarama", messages=2, interval_ms=1500, timeout_ms=1000, options=impatient)
    # It says `read tcp ...: i/o timeout`, as after a single timeout: nothing recorded tells the two apart, so no
    # signature is expected to.
    made.append(
        after_first(
            "seconds-become-minutes-sarama-1-61-1",
            newest,
            standing("firewall", "blackhole"),
            Effect("failed", "p", ("firewall",)),
        )
    )
    return made


def _strangers() -> list[Scenario]:
    """Each has what a signature looks for, but for what is peculiar to its client."""

    def stranger(name: str, fault: Rule, *checks: str, **producer: Any) -> Scenario:
        phases = (Phase(clients=(Producer(name="p", **producer),)), reader())
        effects = tuple(Effect(check, "p", (fault["name"],)) for check in checks)
        return Scenario(name=f"stranger-{name}", faults=(fault,), phases=phases, effects=effects)

    refused_until_killed = {"messages": 12, "interval_ms": 50, "kill_ms": 9000, "timeout_ms": 4000}
    return [
        stranger(
            "waits-sixteen-seconds-aiokafka",
            rule("eat", "drop_request"),
            "failed",
            messages=2,
            sync=True,
            timeout_ms=16_000,
            wait_ms=25_000,
        ),
        stranger(
            "retries-a-hundred-times-aiokafka",
            _refusal(),
            "failed",
            messages=2,
            timeout_ms=9000,
            wait_ms=15_000,
            options={"retry_backoff_ms": 60},
        ),
        stranger(
            "killed-while-refused-confluent-kafka",
            _refusal(),
            "hang",
            lib="confluent-kafka",
            delivery_ms=60_000,
            **refused_until_killed,
        ),
        stranger(
            "killed-while-refused-kafka-python",
            _refusal(),
            "hang",
            lib="kafka-python",
            delivery_ms=60_000,
            **refused_until_killed,
        ),
        stranger(
            "killed-while-refused-franz-go",
            _refusal(),
            "hang",
            lib="franz-go",
            delivery_ms=60_000,
            **refused_until_killed,
        ),
        # Not idempotent: it tells both.
        stranger(
            "refused-and-told-sarama-1-37-2",
            _refusal(trigger={"times": 4}),
            "failed",
            lib="sarama",
            version="1.37.2",
            messages=2,
            interval_ms=1800,
            options={"messages": 2, "retry_max": 3},
        ),
        # It asks for metadata 5 s after it did: then comes its second attempt.
        stranger(
            "refused-franz-go",
            _refusal(trigger={"times": 1}),
            "retried",
            lib="franz-go",
            messages=8,
            timeout_ms=4000,
            delivery_ms=25_000,
            wait_ms=15_000,
        ),
        after_first(
            "stranger-cannot-dial-franz-go",
            Producer(
                name="p",
                lib="franz-go",
                messages=40,
                interval_ms=100,
                timeout_ms=2000,
                delivery_ms=8000,
                wait_ms=14_000,
            ),
            standing("firewall", "blackhole"),
            Effect("hang", "p", ("firewall",)),
        ),
    ]


def _side_by_side() -> Scenario:
    """One forgot its batch; the other waits for an answer to its second attempt."""
    version: dict[str, Any] = {"lib": "sarama", "version": "1.37.2", "messages": 1, "idempotent": True, "kill_ms": 7000}
    forgets = Producer(name="p", **version, options={"messages": 2, "retry_max": 3})
    waits = Producer(name="q", **version, timeout_ms=20_000, options={"messages": 2})
    return Scenario(
        name="batch-refused-beside-one-swallowed-sarama-1-37-2",
        faults=(
            _refusal(trigger={"times": 4}, match={"client_id": "p"}),
            rule("once", "error", error_code="NOT_LEADER_OR_FOLLOWER", phase="before_broker", trigger={"times": 1},
                 match={"client_id": "q"}),
            rule("eat", "drop_request", trigger=_FOREVER, match={"client_id": "q"}),
        ),
        phases=(Phase(clients=(forgets, waits)), reader()),
        effects=(
            Effect("hang", "p", ("refusal",)),
            Effect("looks_like_sarama_hang", "p", ("refusal",)),
            Effect("hang", "q", ("eat",)),
        ),
    )  # fmt: skip


def _soon() -> Scenario:
    """Sarama's error of dialling in vain, before it took long."""
    hasty = {"retry_max": 0, "metadata_retry_max": 0, "dial_timeout_ms": 300, "write_timeout_ms": 300}
    return after_first(
        "stranger-dials-in-vain-for-a-second-sarama-1-27-2",
        Producer(name="p", lib="sarama", version="1.27.2", messages=2, interval_ms=800, timeout_ms=400, options=hasty),
        standing("firewall", "blackhole"),
        Effect("failed", "p", ("firewall",)),
    )


STRANGERS = (*_variants(), *_strangers(), _side_by_side(), _soon())
