"""confluent-kafka's producer and consumer."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from jobs import FIRST_S, ONCE, message, recorder, transaction_of


def produce(job: dict[str, Any]) -> None:
    from confluent_kafka import KafkaException, Producer

    plain = Producer(
        {
            "bootstrap.servers": job["bootstrap"],
            "client.id": job["client_id"],
            "acks": job["acks"],
            "enable.idempotence": job["idempotent"] or bool(job["transaction"]),
            "request.timeout.ms": job["timeout_ms"],
            "socket.timeout.ms": max(job["timeout_ms"], 1000),
            "message.timeout.ms": job["delivery_ms"],
            "linger.ms": 0,
            "log_level": 0,
            **({"transactional.id": job["transactional_id"]} if job["transaction"] else {}),
            **job["options"],
        }
    )
    producer = recorder()(plain, job["file"], name=job["name"])
    if job["transaction"]:
        plain.init_transactions(20)
    again: list[int] = []
    tries: dict[int, int] = {}

    def put(number: int) -> None:
        def delivered(error: Any, _: Any) -> None:
            if error is not None and tries.setdefault(number, 0) < job["resend"]:
                tries[number] += 1
                again.append(number)

        with contextlib.suppress(BufferError, KafkaException):
            producer.produce(job["topic"], on_delivery=delivered, **message(job, number))

    for number in range(job["messages"]):
        begins, ends, aborts = transaction_of(job, number)
        if begins:
            plain.begin_transaction()
        put(number)
        plain.poll(0)
        if job["sync"]:
            plain.flush(job["wait_ms"] / 1000)
        elif number == 0:
            plain.flush(FIRST_S)
        if ends:
            plain.flush(20)
            if aborts:
                plain.abort_transaction(20)
            else:
                plain.commit_transaction(20)
        plain.poll(job["interval_ms"] / 1000)
    until = time.monotonic() + job["wait_ms"] / 1000
    while (len(plain) or again) and time.monotonic() < until:
        while again:
            put(again.pop())
        plain.flush(0.2)


def consume(job: dict[str, Any]) -> None:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition

    plain = Consumer(
        {
            "bootstrap.servers": job["bootstrap"],
            "client.id": job["client_id"],
            "group.id": job["group"] or f"nobody-{job['job']}",
            "auto.offset.reset": job["reset"],
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "socket.timeout.ms": job["timeout_ms"],
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "isolation.level": "read_committed" if job["committed"] else "read_uncommitted",
            "log_level": 0,
            **job["options"],
        }
    )
    consumer = recorder()(plain, job["file"], name=job["name"], group_id=job["group"] or None)
    if job["group"]:
        plain.subscribe([job["topic"]])
    else:
        places = [TopicPartition(job["topic"], n, OFFSET_BEGINNING) for n in range(job["topic_partitions"])]
        plain.assign(places)

    def go_to(where: int) -> None:
        for place in plain.assignment():
            plain.seek(TopicPartition(place.topic, place.partition, where))

    got, last = 0, time.monotonic()
    first = True
    rewound = skipped = False
    while not job["messages"] or got < job["messages"]:
        one = consumer.poll(0.1)
        if one is not None and one.error() is None:
            got, last, first = got + 1, time.monotonic(), False
            if job["slow_ms"]:
                time.sleep(job["slow_ms"] / 1000)
            if job["group"] and job["commit"] == "each":
                with contextlib.suppress(KafkaException):
                    consumer.commit(asynchronous=False)
        if job["rewind_after"] and got >= job["rewind_after"] and not rewound:
            rewound = True
            go_to(OFFSET_BEGINNING)
        if job["skip_to_end_after"] and got >= job["skip_to_end_after"] and not skipped:
            skipped = True
            go_to(OFFSET_END)
        if (time.monotonic() - last) * 1000 > job["idle_ms"] * (4 if first else 1):
            break
    if job["group"] and job["commit"] != "none" and got:
        with contextlib.suppress(KafkaException):
            consumer.commit(asynchronous=False)
    if not ONCE:
        plain.close()
