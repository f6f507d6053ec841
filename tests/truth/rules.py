"""Rules as users write them, with what nearly all of those in the scenarios have in common."""

from __future__ import annotations

from typing import Any


def rule(name: str, kind: str, api: str | None = "Produce", **more: Any) -> dict[str, Any]:
    """A rule on an API, which hits its second request unless a trigger is given; other fields as a user writes them."""
    given = {"trigger": {"skip": 1, "times": 1}, **more}
    match = ({"api_key": api} if api else {}) | more.get("match", {})
    return given | {"name": name, "kind": kind} | ({"match": match} if match else {})


def standing(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """A rule that acts on connections and listeners for as long as it is in force."""
    return {"name": name, "kind": kind, **more}


TRIFLE = rule("trifle", "delay", delay_ms=15, trigger={"times": "forever"})
"""Touches every Produce, and explains nothing that takes a second."""
