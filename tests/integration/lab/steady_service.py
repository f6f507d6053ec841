"""A service without a known bug: sends orders idempotently, then packs each once, as a group of its own reads them.

    python steady_service.py BOOTSTRAP TOPIC GROUP

What was acknowledged must be read again, whatever befalls the connections: it exits 1 when an order failed or didn't
come back. Its timeouts are longer than any outage that ends by itself. It needs confluent-kafka.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

ALONE: Final = 3
TOGETHER: Final = 3
REQUEST_MS: Final = 3_000
PATIENCE_S: Final = 90.0
POLL_S: Final = 0.5
SILENT_S: Final = 15.0
COMMITS: Final = 3

COMMON: Final = {
    "socket.timeout.ms": REQUEST_MS,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 100,
}


def say(operation: str, topic: str, message_id: str, **more: str) -> None:
    print(json.dumps({"operation": operation, "topic": topic, "message_id": message_id} | more), flush=True)


def send(bootstrap: str, topic: str) -> tuple[set[str], int]:
    """The orders that were acknowledged, and how many failed; some go alone, the others one behind the other."""
    producer = Producer(
        COMMON
        | {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "request.timeout.ms": REQUEST_MS,
            "message.timeout.ms": round(PATIENCE_S * 1000),
        }
    )
    acknowledged: set[str] = set()
    failed = 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal failed
        order = (message.value() or b"").decode()
        if error is None:
            acknowledged.add(order)
            say("send", topic, order, outcome="ok")
        else:
            failed += 1
            say("send", topic, order, outcome="fail", error=str(error))

    for number in range(ALONE + TOGETHER):
        producer.produce(topic, f"order-{number}".encode(), on_delivery=delivered)
        if number < ALONE:
            producer.flush()
    producer.flush()
    return acknowledged, failed


def pack(bootstrap: str, topic: str, group: str, orders: set[str]) -> set[str]:
    """Which of the orders came. One that comes again, since its commit was lost, is not packed again.

    A consumer that is told an error, or to which nothing comes for long, gives way to a new one.
    """
    packed: set[str] = set()
    deadline = time.monotonic() + PATIENCE_S
    while orders - packed and time.monotonic() < deadline:
        read(bootstrap, topic, group, orders, packed)
    return packed


def read(bootstrap: str, topic: str, group: str, orders: set[str], packed: set[str]) -> None:
    given: dict[str, Any] = COMMON | {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1_000,
        "fetch.wait.max.ms": 200,
    }
    consumer = Consumer(given)
    consumer.subscribe([topic])
    last = time.monotonic()
    try:
        while orders - packed and time.monotonic() < last + SILENT_S:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            if (error := message.error()) is not None:
                print(f"poll: {error}", file=sys.stderr)
                return
            last = time.monotonic()
            order = (message.value() or b"").decode()
            if order not in packed:
                packed.add(order)
                say("poll", topic, order, outcome="ok")
            commit(consumer, message)
    finally:
        consumer.close()


def commit(consumer: Consumer, message: Message) -> None:
    """Commit, and again where that is lost; in the end the next one does it, or the order is read again."""
    for _ in range(COMMITS):
        try:
            consumer.commit(message, asynchronous=False)
            return
        except KafkaException as error:
            print(f"commit: {error}", file=sys.stderr)


def serve(bootstrap: str, topic: str, group: str) -> int:
    acknowledged, failed = send(bootstrap, topic)
    missing = acknowledged - pack(bootstrap, topic, group, acknowledged)
    for order in sorted(missing):
        print(f"error: {order} was acknowledged and never came", file=sys.stderr)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    raise SystemExit(serve(*sys.argv[1:]))
