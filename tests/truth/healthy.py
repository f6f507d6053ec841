"""Scenarios in which nothing is wrong: whatever the analysis accuses here is a false alarm."""

from __future__ import annotations

from tests.truth.scenario import Consumer, Phase, Producer, Scenario, reader

SLICE = (
    Scenario(
        name="a-producer-and-a-reader",
        healthy=True,
        fast=True,
        phases=(Phase(clients=(Producer(name="p"),)), reader()),
    ),
    Scenario(
        name="two-groups-and-a-reader",
        healthy=True,
        fast=True,
        topics={"orders": 3},
        phases=(
            Phase(clients=(Producer(name="p", partitions=3, messages=150, interval_ms=4),)),
            Phase(
                clients=(
                    Consumer(name="a1", group="a", idle_ms=1000),
                    Consumer(name="b1", group="b", idle_ms=1000, commit="each"),
                )
            ),
            reader(),
        ),
    ),
    Scenario(
        name="transactions-with-aborts",
        healthy=True,
        fast=True,
        phases=(
            Phase(clients=(Producer(name="p", transaction=5, abort_every=3, messages=30),)),
            reader(committed=True),
        ),
    ),
)
HEALTHY = SLICE
