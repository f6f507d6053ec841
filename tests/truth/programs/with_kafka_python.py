"""kafka-python's producer and consumer."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from jobs import FIRST_S, ONCE, message, recorder, transaction_of


def produce(job: dict[str, Any]) -> None:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    plain = KafkaProducer(
        bootstrap_servers=job["bootstrap"],
        client_id=job["client_id"],
        acks={"0": 0, "1": 1, "all": "all"}[job["acks"]],
        enable_idempotence=job["idempotent"] or bool(job["transaction"]),
        request_timeout_ms=job["timeout_ms"],
        delivery_timeout_ms=max(job["delivery_ms"], job["timeout_ms"] + 100),
        max_block_ms=job["delivery_ms"],
        **({"transactional_id": job["transactional_id"]} if job["transaction"] else {}),
        **job["options"],
    )
    producer = recorder()(plain, job["file"], name=job["name"])
    if job["transaction"]:
        plain.init_transactions()
    open_sends: list[Any] = []
    until = time.monotonic() + job["messages"] * job["interval_ms"] / 1000 + job["wait_ms"] / 1000
    for number in range(job["messages"]):
        begins, ends, aborts = transaction_of(job, number)
        if begins:
            plain.begin_transaction()
        for _ in range(job["resend"] + 1):
            try:
                future = producer.send(job["topic"], **message(job, number))
                open_sends.append(future)
                if job["sync"]:
                    future.get(job["wait_ms"] / 1000)
                elif number == 0:
                    with contextlib.suppress(KafkaError):
                        future.get(FIRST_S)
                break
            except KafkaError:
                continue
        if ends:
            if aborts:
                plain.abort_transaction()
            else:
                plain.commit_transaction()
        time.sleep(job["interval_ms"] / 1000)
    while time.monotonic() < until and not all(future.is_done for future in open_sends):
        time.sleep(0.02)
    if not ONCE:
        plain.close(timeout=5)


def consume(job: dict[str, Any]) -> None:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    plain = KafkaConsumer(
        bootstrap_servers=job["bootstrap"],
        client_id=job["client_id"],
        group_id=job["group"] or None,
        auto_offset_reset=job["reset"],
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        isolation_level="read_committed" if job["committed"] else "read_uncommitted",
        **({"session_timeout_ms": 6000, "heartbeat_interval_ms": 500} if job["group"] else {}),
        **job["options"],
    )
    consumer = recorder()(plain, job["file"], name=job["name"])
    if job["group"]:
        plain.subscribe([job["topic"]])
    else:
        plain.assign([TopicPartition(job["topic"], number) for number in range(job["topic_partitions"])])
    got, last, first = 0, time.monotonic(), True
    rewound = skipped = False
    while not job["messages"] or got < job["messages"]:
        records = sum(map(len, consumer.poll(timeout_ms=100).values()))
        if records:
            got, last, first = got + records, time.monotonic(), False
            if job["slow_ms"]:
                time.sleep(job["slow_ms"] / 1000)
            if job["group"] and job["commit"] == "each":
                with contextlib.suppress(KafkaError):
                    consumer.commit()
        if job["rewind_after"] and got >= job["rewind_after"] and not rewound:
            rewound = True
            plain.seek_to_beginning()
        if job["skip_to_end_after"] and got >= job["skip_to_end_after"] and not skipped:
            skipped = True
            plain.seek_to_end()
        if (time.monotonic() - last) * 1000 > job["idle_ms"] * (4 if first else 1):
            break
    if job["group"] and job["commit"] != "none" and got:
        with contextlib.suppress(KafkaError):
            consumer.commit()
    if not ONCE:
        plain.close()
