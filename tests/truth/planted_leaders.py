"""Two brokers, and lies about who leads and who coordinates; ports where nobody listens; ends that are not there."""

from __future__ import annotations

from typing import Any

from tests.truth.rules import rule, standing
from tests.truth.scenario import Consumer, Effect, Phase, Producer, Scenario, reader

_FOREVER = {"times": "forever"}


def _moved() -> list[Scenario]:
    made = []
    for lib in ("aiokafka", "confluent-kafka", "kafka-python"):
        move = standing("move", "leader_move", match={"topic": "orders"})
        made.append(
            Scenario(
                name=f"leader-moved-{lib}",
                brokers=2,
                phases=(
                    Phase(clients=(Producer(name="p", lib=lib, messages=40, interval_ms=40),), background=True),
                    Phase(after_first_of="p", add=(move,)),
                    Phase(until_done=True),
                    reader(),
                ),
                effects=(Effect("retried", "p", ("move",)), Effect("wrong_broker", "p", ("move",))),
            )
        )
        # librdkafka asks for its brokers first, and for the topic when the first message is there.
        times = 2 if lib == "confluent-kafka" else 1
        wrong = rule("wrong", "wrong_leader", "Metadata", match={"topic": "orders"}, trigger={"times": times})
        made.append(
            Scenario(
                name=f"wrong-leader-{lib}",
                brokers=2,
                faults=(wrong,),
                phases=(Phase(clients=(Producer(name="p", lib=lib, messages=12),)), reader()),
                effects=(Effect("retried", "p", ("wrong",)), Effect("wrong_broker", "p", ("wrong",))),
            )
        )
    made.append(
        Scenario(
            # Either alone would be over at once: who is told of the move goes there.
            name="stale-after-a-move",
            brokers=2,
            phases=(
                Phase(clients=(Producer(name="p", messages=40, interval_ms=40, timeout_ms=8000),), background=True),
                Phase(
                    after_first_of="p",
                    add=(
                        rule("stale", "stale_metadata", "Metadata", match={"topic": "orders"}, trigger=_FOREVER),
                        standing("move", "leader_move", match={"topic": "orders"}),
                    ),
                    pause_ms=2200,
                ),
                Phase(remove=("stale",), until_done=True),
                reader(),
            ),
            effects=(
                Effect("late", "p", ("move", "stale")),
                Effect("wrong_broker", "p", ("move", "stale")),
            ),
        )
    )
    return made


def _coordinators() -> list[Scenario]:
    elsewhere = rule("elsewhere", "coordinator_move", "FindCoordinator", trigger={"times": 15})
    return [
        Scenario(
            name="coordinator-of-a-transaction-elsewhere",
            brokers=2,
            faults=(
                rule("ask", "error", "AddPartitionsToTxn", error_code="NOT_COORDINATOR", trigger={"times": 1}),
                {**elsewhere, "trigger": {"skip": 1, "times": 15}},
            ),
            phases=(
                Phase(clients=(Producer(name="p", transaction=4, messages=12, timeout_ms=9000, wait_ms=15_000),)),
                reader(committed=True),
            ),
            effects=(Effect("late", "p", ("ask", "elsewhere"), any_of=True),),
        ),
        Scenario(
            name="coordinator-of-a-group-elsewhere",
            brokers=2,
            faults=({**elsewhere, "trigger": {"times": 60}, "match": {**elsewhere["match"], "group_id": "g"}},),
            phases=(
                Phase(clients=(Producer(name="p", messages=10),)),
                Phase(clients=(Consumer(name="c", group="g", idle_ms=9000, options={"retry_backoff_ms": 5}),)),
            ),
            effects=(Effect("metadata_storm", "c", ("elsewhere",)),),
            alone=True,
            options={"storm_per_s": 10},
        ),
    ]


def _refused() -> list[Scenario]:
    made = []
    for lib in ("confluent-kafka", "kafka-python"):
        made.append(
            Scenario(
                # An open connection lives on where a port is closed; a cut alone is over at once.
                name=f"cut-and-refused-{lib}",
                phases=(
                    Phase(
                        clients=(Producer(name="p", lib=lib, messages=40, interval_ms=50, delivery_ms=9000),),
                        background=True,
                    ),
                    Phase(
                        after_first_of="p",
                        add=(standing("shut", "refuse"), rule("cut", "close", trigger={"times": 1})),
                        pause_ms=2000,
                    ),
                    Phase(remove=("shut",), until_done=True),
                    reader(),
                ),
                effects=(Effect("late", "p", ("cut", "shut")),),
            )
        )
    made.append(
        Scenario(
            name="reconnect-storm",
            faults=(rule("slam", "close", "Metadata", match={"client_id": "p"}, trigger={"times": 40}),),
            phases=(
                Phase(
                    clients=(
                        Producer(
                            name="p",
                            lib="confluent-kafka",
                            messages=5,
                            delivery_ms=9000,
                            options={"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 20},
                        ),
                    )
                ),
            ),
            effects=(Effect("reconnect_storm", None, ("slam",)),),
            alone=True,
            options={"storm_per_s": 25},
        )
    )
    return made


def _offsets() -> list[Scenario]:
    made = []
    for lib in ("aiokafka", "confluent-kafka", "kafka-python"):
        beyond = rule("beyond", "offset_lie", "ListOffsets", add=1000, match={"client_id": "c"}, trigger={"times": 1})
        made.append(
            Scenario(
                name=f"end-that-is-not-there-{lib}",
                faults=(beyond,),
                phases=(
                    Phase(clients=(Producer(name="p", messages=80, interval_ms=40),), background=True),
                    Phase(
                        after_first_of="p",
                        clients=(Consumer(name="c", lib=lib, group="g", reset="latest", commit="none", idle_ms=2500),),
                    ),
                ),
                effects=(Effect("offset_reset", "c", ("beyond",)),),
            )
        )
        lie = rule(
            "lie", "error", "Fetch", error_code="OFFSET_OUT_OF_RANGE", match={"client_id": "d"}, trigger={"times": 1}
        )
        second: dict[str, Any] = {"lib": lib, "group": "g", "reset": "latest", "idle_ms": 6000, "commit": "none"}
        made.append(
            Scenario(
                # The group's second member is sent to the end, and reads on there.
                name=f"sent-past-records-{lib}",
                faults=(lie,),
                phases=(
                    Phase(clients=(Producer(name="p1", messages=10),)),
                    Phase(clients=(Consumer(name="c", lib=lib, group="g", messages=10, idle_ms=5000),)),
                    Phase(clients=(Producer(name="p2", messages=20),)),
                    Phase(clients=(Consumer(name="d", **second),), background=True),
                    Phase(pause_ms=3500, clients=(Producer(name="p3", messages=10),)),
                    Phase(until_done=True),
                    reader(),
                ),
                effects=(Effect("skipped", "g", ("lie",), at_least=10), Effect("offset_reset", "d", ("lie",))),
            )
        )
    return made


LEADERS = (*_moved(), *_coordinators(), *_refused(), *_offsets())
