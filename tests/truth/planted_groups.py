"""Consumers, groups and transactions, and a client that keeps bad books."""

from __future__ import annotations

import json
from pathlib import Path

from tests.truth.kept import Run
from tests.truth.rules import rule
from tests.truth.scenario import Consumer, Effect, Phase, Producer, Rule, Scenario, reader

_FILL = Phase(clients=(Producer(name="p", messages=30, interval_ms=2),))


def read(name: str, fault: Rule, *effects: Effect, consumer: Consumer, after: tuple[Consumer, ...] = ()) -> Scenario:
    """Thirty messages, a member that reads them, and what comes after it."""
    phases = (_FILL, Phase(clients=(consumer,)), *(Phase(clients=(one,)) for one in after), reader())
    return Scenario(name=name, faults=(fault,), phases=phases, effects=effects)


def _groups() -> list[Scenario]:
    made = []
    for lib in ("aiokafka", "confluent-kafka", "kafka-python"):
        member = Consumer(name="c", lib=lib, group="g", messages=30, commit="end", idle_ms=3000)
        second = Consumer(name="d", lib=lib, group="g", commit="none", idle_ms=1200)
        made.append(
            read(
                f"commit-answered-in-its-place-{lib}",
                rule("lie", "error", "OffsetCommit", error_code=0, trigger={"times": "forever"}),
                Effect("commit_lost", "g", ("lie",)),
                Effect("read_by_another", "d", ("lie",)),
                consumer=member,
                after=(second,),
            )
        )
        made.append(
            read(
                f"commit-refused-{lib}",
                rule("refusal", "error", "OffsetCommit", error_code="GROUP_AUTHORIZATION_FAILED", trigger={"times": 1}),
                Effect("failed", "c", ("refusal",)),
                consumer=member,
            )
        )
        made.append(
            read(
                f"read-by-another-behind-a-refused-commit-{lib}",
                rule("refusal", "error", "OffsetCommit", error_code="INVALID_COMMIT_OFFSET_SIZE", trigger={"times": 9}),
                Effect("failed", "c", ("refusal",)),
                Effect("read_by_another", "d", ("refusal",)),
                consumer=member,
                after=(second,),
            )
        )
        made.append(
            read(
                f"out-of-range-{lib}",
                rule(
                    "lie",
                    "error",
                    "Fetch",
                    error_code="OFFSET_OUT_OF_RANGE",
                    match={"client_id": "c"},
                    trigger={"skip": 2, "times": 1},
                ),
                Effect("offset_reset", "c", ("lie",)),
                Effect("read_again", "c", ("lie",)),
                consumer=Consumer(name="c", lib=lib, group="g", idle_ms=1500, commit="none"),
            )
        )
        made.append(
            read(
                f"fetch-throttled-{lib}",
                rule(
                    "slow-down",
                    "throttle",
                    "Fetch",
                    throttle_time_ms=100,
                    match={"client_id": "c"},
                    trigger={"times": 2},
                ),
                Effect("throttled", "c", ("slow-down",)),
                consumer=Consumer(name="c", lib=lib, group="g", idle_ms=1000),
            )
        )
    return made


def _starving() -> list[Scenario]:
    """A member that reads what is being sent, until a rule is in its way for seconds; a trifle touches it all along."""
    trifle = rule("trifle", "delay", "Heartbeat", delay_ms=15, trigger={"times": "forever"})
    its_own = {"match": {"client_id": "c"}}
    ways = {
        "fetch-held": rule("long", "stall", "Fetch", for_ms=4000, trigger={"skip": 6, "times": 1}, **its_own),
        "fetch-refused": rule(
            "long",
            "error",
            "Fetch",
            error_code="NOT_LEADER_OR_FOLLOWER",
            trigger={"skip": 6, "times": "forever", "for_ms": 4000},
            **its_own,
        ),
        "never-let-in": rule("long", "error", "JoinGroup", error_code="COORDINATOR_NOT_AVAILABLE",
                             trigger={"times": "forever", "for_ms": 6000}, **its_own),
    }  # fmt: skip
    return [
        Scenario(
            name=f"starved-{way}-{lib}",
            faults=(fault, trifle),
            phases=(
                Phase(clients=(Producer(name="p", messages=100, interval_ms=100),), background=True),
                Phase(clients=(Consumer(name="c", lib=lib, group="g", messages=100, commit="none", idle_ms=9000),)),
            ),
            effects=(Effect("starved", "c", ("long",)),),
        )
        for way, fault in ways.items()
        for lib in ("aiokafka", "confluent-kafka", "kafka-python")
    ]


def _thrown_out() -> list[Scenario]:
    """One of two members is told that it is none: both stand still until the group has formed again."""
    out = rule("out", "error", "Heartbeat", error_code="UNKNOWN_MEMBER_ID", match={"client_id": "c"},
               trigger={"skip": 1, "times": 1})  # fmt: skip
    trifle = rule("trifle", "delay", "Fetch", delay_ms=15, trigger={"times": "forever"})
    work = {"lib": "aiokafka", "group": "g", "messages": 200, "commit": "none", "idle_ms": 7000}
    return [
        Scenario(
            name="a-member-thrown-out",
            topics={"orders": 2},
            faults=(out, trifle),
            phases=(
                Phase(clients=(Producer(name="p", partitions=2, messages=200, interval_ms=100),), background=True),
                Phase(clients=tuple(Consumer(name=name, **work) for name in "cd")),  # type: ignore[arg-type]
            ),
            effects=(Effect("starved", "c", ("out",)), Effect("starved", "d", ("out",))),
            # Who stays begins anew where its group had committed nothing.
            besides=(Effect("read_again", "d", ("out",)),),
        )
    ]


def _transactions() -> list[Scenario]:
    def transactional(name: str, fault: Rule, *effects: Effect, **more: object) -> Scenario:
        given = {"transaction": 4, "messages": 16, "timeout_ms": 6000, **more}
        phases = (Phase(clients=(Producer(name="p", **given),)), reader(committed=True))  # type: ignore[arg-type]
        return Scenario(name=name, faults=(fault,), phases=phases, effects=effects)

    made = []
    for lib in ("aiokafka", "confluent-kafka"):
        made += [
            transactional(
                f"partition-not-added-{lib}",
                rule("hold", "stall", "AddPartitionsToTxn", for_ms=1500, trigger={"times": 1}),
                Effect("late", "p", ("hold",)),
                lib=lib,
            ),
            transactional(
                f"transaction-held-{lib}",
                rule("hold", "delay", phase="after_broker", delay_ms=1500, trigger={"skip": 2, "times": 1}),
                Effect("late", "p", ("hold",)),
                lib=lib,
            ),
        ]
    made.append(
        transactional(
            "fenced",
            rule("fence", "error", error_code="INVALID_PRODUCER_EPOCH", trigger={"skip": 2, "times": 1}),
            Effect("failed", "p", ("fence",)),
        )
    )
    return made


def _swapped(run: Run) -> None:
    """A client that notes two acknowledgements under each other's names."""
    file: Path = run.outcomes / "p.jsonl"
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    done = [line for line in lines if line["outcome"] == "ok"]
    done[4]["offset"], done[9]["offset"] = done[9]["offset"], done[4]["offset"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _books() -> list[Scenario]:
    return [
        Scenario(
            name="bad-books",
            phases=(Phase(clients=(Producer(name="p", lib="kafka-python", sync=True, messages=15),)), reader()),
            twist=_swapped,
            effects=(Effect("inconsistent_offsets", None),),
        )
    ]


GROUPS = (*_groups(), *_starving(), *_thrown_out(), *_transactions(), *_books())
