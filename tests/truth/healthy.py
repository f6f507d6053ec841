"""Scenarios in which nothing is wrong: whatever the analysis accuses here is a false alarm."""

from __future__ import annotations

from typing import Any

from tests.integration.doors import PASSWORD
from tests.truth import twists
from tests.truth.rules import TRIFLE, rule, standing
from tests.truth.scenario import IN_WORKERS, Client, Consumer, Phase, Producer, Scenario, reader

_S = 1_000_000
_HOUR = 3600 * _S
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "500",
}


def well(
    name: str, *phases: Phase, partitions: int = 1, read: bool = True, fast: bool = False, **more: Any
) -> Scenario:
    """A healthy scenario; somebody reads everything at the end, unless not to `read` or a phase does."""
    own = any(client.name == "reader" for phase in phases for client in phase.clients)
    topics = {"orders": partitions}
    whole = (*phases, reader()) if read and not own else phases
    return Scenario(name=name, phases=whole, topics=topics, healthy=True, fast=fast, **more)


def work(*clients: Client, **more: Any) -> Phase:
    return Phase(clients=clients, **more)


def _producers() -> list[Scenario]:
    made = []
    for lib in IN_WORKERS:
        made += [
            well(f"plain-{lib}", work(Producer(name="p", lib=lib)), fast=lib != "confluent-kafka"),
            well(
                f"three-partitions-{lib}",
                work(Producer(name="p", lib=lib, partitions=3, messages=150, interval_ms=2, keys=7)),
                partitions=3,
            ),
            well(f"idempotent-{lib}", work(Producer(name="p", lib=lib, idempotent=True, messages=60, interval_ms=3))),
            well(f"acks-1-{lib}", work(Producer(name="p", lib=lib, acks="1", sync=True))),
            well(f"acks-0-{lib}", work(Producer(name="p", lib=lib, acks="0"))),
            well(
                f"transactions-with-aborts-{lib}",
                work(Producer(name="p", lib=lib, transaction=5, abort_every=3, messages=30, timeout_ms=6000)),
                reader(committed=True),
                fast=lib == "aiokafka",
            ),
            well(
                f"producer-killed-{lib}", work(Producer(name="p", lib=lib, messages=400, interval_ms=5, kill_ms=2500))
            ),
            well(
                f"rolling-deploy-{lib}",
                *(work(Producer(name=f"p{number}", lib=lib, messages=15)) for number in range(4)),
            ),
        ]
    for lib in ("sarama", "franz-go", "java"):
        made.append(well(f"plain-{lib}", work(Producer(name="p", lib=lib, messages=30, timeout_ms=6000))))
    made.append(
        well(
            "every-client-at-once",
            work(*(Producer(name=lib, lib=lib, timeout_ms=6000) for lib in (*IN_WORKERS, "sarama", "java"))),
        )
    )
    for lib in ("aiokafka", "confluent-kafka"):
        fleet = (Producer(name=f"p{n}", lib=lib, client_id="rdkafka", messages=5, timeout_ms=20_000) for n in range(60))
        made.append(well(f"sixty-under-one-client-id-{lib}", work(*fleet)))
    return made


def _groups() -> list[Scenario]:
    fill = work(Producer(name="p", partitions=3, messages=150, interval_ms=2))
    made: list[Scenario] = []
    for lib in IN_WORKERS:
        a, b = (
            Consumer(name="a1", lib=lib, group="a"),
            Consumer(name="b1", lib=lib, group="b", commit="each", idle_ms=1000),
        )
        made += [
            well(f"two-groups-{lib}", fill, work(a, b), partitions=3, fast=lib == "aiokafka"),
            well(
                f"read-again-from-the-beginning-{lib}",
                fill,
                work(Consumer(name="c", lib=lib, group="g", rewind_after=60)),
                partitions=3,
            ),
            well(
                f"seeks-to-the-end-{lib}",
                work(Producer(name="p", partitions=3, messages=150, interval_ms=15), background=True),
                work(Consumer(name="c", lib=lib, group="g", skip_to_end_after=20, start_ms=500, slow_ms=2)),
                partitions=3,
            ),
            well(
                f"slow-consumer-{lib}",
                fill,
                work(Consumer(name="c", lib=lib, group="g", slow_ms=20, commit="each")),
                partitions=3,
            ),
            well(
                f"member-joins-{lib}",
                work(Producer(name="p", partitions=3, messages=150, interval_ms=20), background=True),
                work(
                    Consumer(name="c1", lib=lib, group="g", commit="each"),
                    Consumer(name="c2", lib=lib, group="g", commit="each", start_ms=1200),
                ),
                partitions=3,
            ),
            well(
                f"consumers-deployed-{lib}",
                work(Producer(name="p", partitions=3, messages=200, interval_ms=20), background=True),
                work(Consumer(name="c1", lib=lib, group="g", messages=60)),
                work(Consumer(name="c2", lib=lib, group="g", messages=60)),
                work(Consumer(name="c3", lib=lib, group="g")),
                partitions=3,
            ),
        ]
    made.append(
        well(
            "member-killed",
            work(Producer(name="p", partitions=3, messages=200, interval_ms=20), background=True),
            work(
                Consumer(name="c1", group="g", idle_ms=9000),
                Consumer(name="c2", group="g", kill_ms=3000),
            ),
            partitions=3,
        )
    )
    return made


def _topics() -> list[Scenario]:
    return [
        well(
            "compacted",
            work(Producer(name="p", messages=120, interval_ms=10, keys=5)),
            Phase(pause_ms=4000),
            work(Producer(name="q", messages=5, keys=5)),
            topic_configs=_COMPACTED,
        ),
        well(
            "compacted-and-read-by-a-group",
            work(Producer(name="p", messages=120, interval_ms=10, keys=5)),
            work(Consumer(name="c", group="g")),
            Phase(pause_ms=4000),
            work(Producer(name="q", messages=5, keys=5)),
            topic_configs=_COMPACTED,
        ),
        well(
            "recreated",
            work(Producer(name="p", messages=20)),
            work(Consumer(name="early")),
            work(Producer(name="q", messages=20), recreate=("orders",)),
        ),
        well("read-while-written", work(Producer(name="p", messages=80), Consumer(name="c", group="g", start_ms=300))),
        well("nobody-reads", work(Producer(name="p")), read=False),
        well("nothing-is-sent", work(Consumer(name="c", group="g", idle_ms=800))),
        well("idle-in-between", work(Producer(name="p")), Phase(pause_ms=2500), work(Producer(name="q"))),
    ]


def _recordings() -> list[Scenario]:
    both = (Producer(name="p", messages=30), Consumer(name="c", group="g", start_ms=300))
    made = []
    for word, by_us in (("5-s-ahead", 5 * _S), ("5-s-behind", -5 * _S), ("1-h-ahead", _HOUR), ("1-h-behind", -_HOUR)):
        made += [
            well(f"producer-s-clock-{word}", work(Producer(name="p", clock_us=by_us, messages=30))),
            well(
                f"consumer-s-clock-{word}",
                work(Producer(name="p", messages=30)),
                work(Consumer(name="c", group="g", commit="each", clock_us=by_us)),
            ),
        ]
    made += [
        well("segments-twice", work(*both), twist=twists.segments_twice),
        well("lines-twice", work(*both), twist=twists.lines_twice),
        well("a-gap", work(Producer(name="p", messages=60)), twist=twists.gap),
        well("a-gap-and-groups", work(*both), twist=twists.gap),
        well(
            "a-rule-for-nobody", work(*both), faults=(rule("theirs", "drop_response", match={"client_id": "nobody"}),)
        ),
        well("a-rule-that-holds-for-a-moment", work(*both), faults=(TRIFLE,)),
        well(
            "a-rule-for-another-topic",
            work(*both),
            faults=(rule("theirs", "error", error_code="NOT_LEADER_OR_FOLLOWER", match={"topic": "invoices"}),),
        ),
    ]
    harmless = (
        rule("turn-round", "reorder", "Fetch", trigger={"times": "forever"}),
        rule("older", "cap_versions", None, versions={"Produce": 8, "Fetch": 11}, trigger={"times": "forever"}),
        standing("later", "slow_close", delay_ms=300),
        rule("quick", "delay", "Fetch", delay_ms=5, trigger={"times": "forever"}),
        standing("pieces", "slice", average_bytes=40, delay_us=200),
    )
    made += [well(f"a-harmless-{fault['kind'].replace('_', '-')}", work(*both), faults=(fault,)) for fault in harmless]
    return made


def _logins() -> list[Scenario]:
    """A session that is said to last a second, of a client that knows to log in again (KIP-368)."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    java = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="alice" password="{PASSWORD}";',
    }
    python = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    expiring = rule(
        "expire", "session_expiry", "SaslAuthenticate", session_lifetime_ms=1200, trigger={"times": "forever"}
    )
    sender = Producer(name="p", lib="java", messages=80, interval_ms=40, timeout_ms=6000, options=java)
    return [
        well("a-harmless-session-expiry", work(sender), reader(options=python), faults=(expiring,), sasl=True),
    ]


HEALTHY = (*_producers(), *_groups(), *_topics(), *_recordings(), *_logins())
