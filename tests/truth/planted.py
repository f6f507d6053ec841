"""Scenarios in which rules did something: which effect, on which client, and which of the rules it was."""

from __future__ import annotations

from typing import Any

from tests.truth.scenario import Effect, Phase, Producer, Scenario, reader


def rule(
    name: str, kind: str, api: str = "Produce", *, trigger: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A rule on an API of one client, with its other fields as a user writes them; `match` may be widened."""
    match = {"api_key": api, **more.pop("match", {})}
    return {"name": name, "kind": kind, "match": match, "trigger": trigger or {"skip": 3, "times": 1}, **more}


SLICE = (
    Scenario(
        name="swallowed-answer-resent",
        fast=True,
        faults=(rule("swallow", "drop_response"),),
        phases=(Phase(clients=(Producer(name="p", resend=1),)), reader()),
        effects=(Effect("duplicate", "p", ("swallow",)), Effect("failed", "p", ("swallow",))),
    ),
    Scenario(
        name="refused-and-retried",
        fast=True,
        faults=(rule("refusal", "error", error_code="NOT_LEADER_OR_FOLLOWER"), rule("held", "delay", delay_ms=30)),
        phases=(Phase(clients=(Producer(name="p"),)), reader()),
        effects=(Effect("retried", "p", ("refusal",)),),
    ),
    Scenario(
        name="refused-for-good",
        fast=True,
        faults=(rule("refusal", "error", error_code="TOPIC_AUTHORIZATION_FAILED", match={"client_id": "p"}),),
        phases=(Phase(clients=(Producer(name="p"), Producer(name="other", messages=5))), reader()),
        effects=(Effect("failed", "p", ("refusal",)),),
    ),
    Scenario(
        name="held-answer-queues",
        fast=True,
        faults=(rule("hold", "delay", phase="after_broker", delay_ms=1600), rule("short", "delay", delay_ms=40)),
        phases=(Phase(clients=(Producer(name="p", timeout_ms=6000, messages=30),)), reader()),
        effects=(Effect("late", "p", ("hold",)),),
    ),
    Scenario(
        name="acknowledged-and-gone",
        fast=True,
        faults=(rule("lie", "error", error_code=0),),
        phases=(Phase(clients=(Producer(name="p"),)), reader()),
        effects=(Effect("lost", "p", ("lie",)),),
    ),
)
PLANTED = SLICE
