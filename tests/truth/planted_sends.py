"""One rule that strikes a producer's own requests, with each library, acks and kind of fault."""

from __future__ import annotations

from typing import Any

from tests.truth.rules import rule
from tests.truth.scenario import IN_WORKERS, Effect, Phase, Producer, Rule, Scenario, reader

_NO_RETRIES = {"aiokafka": {}, "confluent-kafka": {"retries": 0}, "kafka-python": {"retries": 0}}
_QUICK_BACKOFF = {
    "aiokafka": {"retry_backoff_ms": 50},
    "confluent-kafka": {"retry.backoff.ms": 50},
    "kafka-python": {"retry_backoff_ms": 50},
}
RETRYING = ("confluent-kafka", "kafka-python")
"""Send a batch again whose answer did not come in time; aiokafka gives up together with the request."""


def one(name: str, fault: Rule, *effects: Effect, fast: bool = False, **producer: Any) -> Scenario:
    """A producer `p`, one rule, and somebody who reads everything afterwards."""
    topics = {"orders": producer.get("partitions", 1)}
    phases = (Phase(clients=(Producer(name="p", **producer),)), reader())
    return Scenario(name=name, faults=(fault,), phases=phases, effects=effects, topics=topics, fast=fast)


def _swallowed() -> list[Scenario]:
    made = []
    for lib in IN_WORKERS:
        made.append(
            one(
                f"swallowed-answer-no-retry-{lib}",
                rule("swallow", "drop_response", later="pass"),
                Effect("failed", "p", ("swallow",)),
                lib=lib,
                sync=True,
                messages=8,
                delivery_ms=1700,
                options=_NO_RETRIES[lib],
                fast=lib == "kafka-python",
            )
        )
        made.append(
            one(
                f"swallowed-answer-resent-{lib}",
                rule("swallow", "drop_response"),
                Effect("duplicate", "p", ("swallow",)),
                lib=lib,
                resend=1,
                sync=lib == "kafka-python",
                messages=12,
                delivery_ms=1700,
                options=_NO_RETRIES[lib],
                fast=lib == "aiokafka",
            )
        )
        made.append(
            one(
                f"acknowledged-and-gone-{lib}",
                rule("lie", "error", error_code=0),
                Effect("lost", "p", ("lie",)),
                lib=lib,
                messages=12,
                fast=lib == "aiokafka",
            )
        )
        made.append(
            one(
                f"acks-0-swallowed-{lib}",
                rule("eat", "drop_request"),
                Effect("lost", "p", ("eat",)),
                lib=lib,
                acks="0",
                sync=True,
                messages=12,
            )
        )
    for lib in RETRYING:
        for acks in ("1", "all"):
            made.append(
                one(
                    f"swallowed-answer-retried-{lib}-acks-{acks}",
                    rule("swallow", "drop_response"),
                    Effect("duplicate", "p", ("swallow",)),
                    Effect("retried", "p", ("swallow",)),
                    lib=lib,
                    acks=acks,
                    partitions=3,
                    messages=15,
                    delivery_ms=8000,
                )
            )
        made.append(
            one(
                f"swallowed-request-{lib}",
                rule("eat", "drop_request"),
                Effect("retried", "p", ("eat",)),
                Effect("late", "p", ("eat",)),
                Effect("reordered", "p", ("eat",)),
                lib=lib,
                messages=12,
                delivery_ms=8000,
            )
        )
    return made


def _refused() -> list[Scenario]:
    made = []
    for lib in IN_WORKERS:
        for phase, effects in (
            ("before_broker", ("retried",)),
            ("after_broker", ("retried", "duplicate")),
        ):
            for code in ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"):
                if code == "REQUEST_TIMED_OUT" and phase == "after_broker" and lib == "kafka-python":
                    continue
                made.append(
                    one(
                        f"{code.split('_')[0].lower()}-{phase.split('_')[0]}-{lib}",
                        rule("refusal", "error", error_code=code, phase=phase),
                        *(Effect(check, "p", ("refusal",)) for check in effects),
                        lib=lib,
                        partitions=2,
                        messages=16,
                        options=_QUICK_BACKOFF[lib],
                        timeout_ms=4000,
                        fast=(lib, phase, code) == ("aiokafka", "after_broker", "NOT_LEADER_OR_FOLLOWER"),
                    )
                )
        made.append(
            one(
                f"refused-for-good-{lib}",
                rule("refusal", "error", error_code="TOPIC_AUTHORIZATION_FAILED"),
                Effect("failed", "p", ("refusal",)),
                lib=lib,
                messages=12,
                sync=True,
            )
        )
        made.append(
            one(
                f"appended-then-refused-{lib}",
                rule("refusal", "error", error_code="TOPIC_AUTHORIZATION_FAILED", phase="after_broker"),
                Effect("failed", "p", ("refusal",)),
                Effect("phantom", "p", ("refusal",)),
                lib=lib,
                messages=12,
                sync=True,
                fast=lib == "kafka-python",
            )
        )
        made.append(
            one(
                f"idempotent-refused-{lib}",
                rule(
                    "refusal",
                    "error",
                    error_code="NOT_LEADER_OR_FOLLOWER",
                    phase="after_broker",
                    trigger={"times": 1},
                ),
                Effect("retried", "p", ("refusal",)),
                lib=lib,
                idempotent=True,
                messages=12,
                options=_QUICK_BACKOFF[lib],
            )
        )
    return made


def _held() -> list[Scenario]:
    made = []
    for lib in IN_WORKERS:
        for kind, phase, more in (
            ("delay", "before_broker", {"delay_ms": 1500}),
            ("delay", "after_broker", {"delay_ms": 1500}),
            ("stall", "before_broker", {"for_ms": 1500}),
            ("stall", "after_broker", {"for_ms": 1500}),
        ):
            made.append(
                one(
                    f"held-{kind}-{phase.split('_')[0]}-{lib}",
                    rule("hold", kind, "Produce", phase=phase, **more),
                    Effect("late", "p", ("hold",), at_least=2),
                    lib=lib,
                    timeout_ms=6000,
                    messages=20,
                    fast=(lib, kind, phase) == ("confluent-kafka", "stall", "after_broker"),
                )
            )
    return made


def _broken() -> list[Scenario]:
    """The connection or the bytes are broken under a Produce that the broker has acted on, or has not."""
    made = []
    for lib in RETRYING:
        for kind in ("close", "reset", "truncate"):
            made.append(
                one(
                    f"{kind}-after-{lib}",
                    rule("break", kind, phase="after_broker"),
                    Effect("retried", "p", ("break",)),
                    Effect("duplicate", "p", ("break",)),
                    lib=lib,
                    messages=12,
                )
            )
            made.append(
                one(
                    f"{kind}-before-{lib}",
                    rule("break", kind, phase="before_broker"),
                    Effect("retried", "p", ("break",)),
                    lib=lib,
                    messages=12,
                )
            )
        made.append(
            one(
                f"copied-{lib}",
                rule("copy", "duplicate"),
                Effect("duplicate", "p", ("copy",)),
                lib=lib,
                messages=12,
                fast=lib == "kafka-python",
            )
        )
        made.append(
            one(
                f"corrupted-{lib}",
                rule("damage", "corrupt", phase="before_broker"),
                Effect("failed" if lib == "kafka-python" else "retried", "p", ("damage",)),
                lib=lib,
                messages=12,
            )
        )
    made.append(one("copied-aiokafka", rule("copy", "duplicate"), Effect("duplicate", "p", ("copy",)), messages=12))
    made.append(
        one(
            "acks-0-cut-aiokafka",
            rule("break", "close", phase="before_broker"),
            Effect("lost", "p", ("break",)),
            acks="0",
            sync=True,
            messages=12,
        )
    )
    for lib in IN_WORKERS:
        made.append(
            one(
                f"throttled-{lib}",
                rule("slow-down", "throttle", throttle_time_ms=200, trigger={"skip": 2, "times": 3}),
                Effect("throttled", "p", ("slow-down",)),
                lib=lib,
                messages=10,
            )
        )
    # The connection is not read for that long, whether the client waits by itself or not.
    made.extend(
        one(
            f"muted-{lib}",
            rule("hush", "throttle", throttle_time_ms=1500, muted=True, trigger={"skip": 5, "times": 1}),
            Effect("throttled", "p", ("hush",)),
            Effect("late", "p", ("hush",)),
            lib=lib,
            messages=60,
            timeout_ms=4000,
            delivery_ms=20_000,
        )
        for lib in ("confluent-kafka", "franz-go")
    )
    return made


SENDS = (*_swallowed(), *_refused(), *_held(), *_broken())
