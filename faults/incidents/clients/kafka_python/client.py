"""A kafka-python client: a producer that sends numbered messages at a steady rate, or a group consumer (mode=consume).

Arguments (name=value): those of outcome.go, max_block_ms, and auto_offset_reset (none: it begins at 0 and goes on where
it was). What a version doesn't have (idempotence and the bound
on a delivery before 2.1) is left out, with a line on stderr.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

SETTINGS = {
    "bootstrap": "", "topic": "", "client_id": "", "client_version": "", "mode": "produce", "group_id": "",
    "messages": "20", "interval_ms": "100", "partition": "0", "idempotent": "false", "retries": "3",
    "request_timeout_ms": "2000", "delivery_timeout_ms": "8000", "connect_timeout_ms": "2000", "max_block_ms": "4000",
    "metadata_max_age_ms": "300000", "budget_ms": "0", "wait_ms": "12000", "commit_every": "5", "instance_id": "",
    "auto_offset_reset": "earliest",
}  # fmt: skip
NO_PLACE = getattr(errors, "NoOffsetForPartitionError", ())  # before 2.1 elsewhere
_writing = threading.Lock()


def main(argv: list[str]) -> None:
    for argument in argv:
        name, _, value = argument.partition("=")
        if name not in SETTINGS:
            sys.exit(f"unknown argument: {argument}")
        SETTINGS[name] = value
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.INFO)
    consume() if SETTINGS["mode"] == "consume" else produce()
    os._exit(0)  # not close(): a client that hangs would keep us


def number(name: str) -> int:
    return int(SETTINGS[name])


def now_us() -> int:
    return time.time_ns() // 1000


def line(operation: str, **fields: Any) -> dict[str, Any]:
    client = SETTINGS["client_id"]
    always = {"client": client, "client_version": SETTINGS["client_version"], "client_id": client}
    group = {"group_id": SETTINGS["group_id"]} if SETTINGS["group_id"] else {}
    told = {"operation": operation, "topic": SETTINGS["topic"], "outcome": "pending", "thread": "main"}
    return {**always, **group, **told, **fields}


def say(said: dict[str, Any]) -> None:
    with _writing:
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


# Kafka's errors that surely kept a record out, as in notleader.recorders.lines; all else may have happened.
REFUSED = (10, 12, 17, 18, 21, 28, 29, 30, 31, 32, 35, 42, 43, 44, 53, 76, 87)


def word(error: BaseException) -> str:
    return "fail" if getattr(error, "errno", None) in REFUSED else "info"


def text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def produce() -> None:
    wanted = {
        "enable_idempotence": SETTINGS["idempotent"] == "true",
        "delivery_timeout_ms": number("delivery_timeout_ms"),
    }
    for name in [name for name in wanted if name not in KafkaProducer.DEFAULT_CONFIG]:
        logging.warning("kafka-python %s has no %s", kafka.__version__, name)
        del wanted[name]
    producer = KafkaProducer(
        bootstrap_servers=SETTINGS["bootstrap"].split(","),
        client_id=SETTINGS["client_id"],
        acks="all",
        retries=number("retries"),
        request_timeout_ms=number("request_timeout_ms"),
        max_block_ms=number("max_block_ms"),
        metadata_max_age_ms=number("metadata_max_age_ms"),
        **wanted,
    )
    open_sends = threading.Semaphore(0)
    messages = number("messages")
    for each in range(messages):
        if each:
            time.sleep(number("interval_ms") / 1000)
        send(producer, f"{SETTINGS['client_id']}-{each}", open_sends)
    until = time.monotonic() + number("wait_ms") / 1000
    for _ in range(messages):
        if not open_sends.acquire(timeout=max(0.0, until - time.monotonic())):
            break


def send(producer: Any, message_id: str, open_sends: threading.Semaphore) -> None:
    partition = number("partition")
    said = line("send", message_id=message_id, partition=partition, called_at_us=now_us())
    if number("budget_ms"):
        said["budget_ms"] = number("budget_ms")
    say(said)
    lock = threading.Lock()

    def finish(**last: Any) -> None:
        with lock:
            said.update(completed_at_us=now_us(), **last)
            say(said)
        open_sends.release()

    try:
        future = producer.send(
            SETTINGS["topic"],
            message_id.encode(),
            headers=[("notleader-id", message_id.encode())],
            partition=partition,
        )
    except KafkaError as error:
        said["returned_at_us"] = now_us()
        finish(outcome="fail", error=text(error))
        return
    with lock:
        said["returned_at_us"] = now_us()
        say(said)
    future.add_callback(lambda told: finish(outcome="ok", offset=told.offset))
    future.add_errback(lambda error: finish(outcome=word(error), error=text(error)))


def consume() -> None:
    since = [now_us()]

    def watch() -> None:
        while now_us() - since[0] < number("wait_ms") * 1000:
            time.sleep(0.05)
        say(line("receive", called_at_us=since[0]))
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    more = {"group_instance_id": SETTINGS["instance_id"]} if SETTINGS["instance_id"] else {}
    consumer = KafkaConsumer(
        SETTINGS["topic"],
        bootstrap_servers=SETTINGS["bootstrap"].split(","),
        client_id=SETTINGS["client_id"],
        group_id=SETTINGS["group_id"],
        auto_offset_reset=SETTINGS["auto_offset_reset"],
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
        request_timeout_ms=max(number("request_timeout_ms"), 7000),  # it has to exceed the session timeout
        fetch_max_wait_ms=200,
        **more,
    )
    seen: set[str] = set()
    count = 0
    while len(seen) < number("messages"):
        called = now_us()
        try:
            polled = consumer.poll(timeout_ms=200)
        except NO_PLACE:  # a new group
            for place in consumer.assignment():
                consumer.seek(place, 0)
            continue
        except KafkaError as error:
            say(line("receive", called_at_us=called, completed_at_us=now_us(), outcome=word(error), error=text(error)))
            time.sleep(0.2)
            continue
        for place, records in polled.items():
            for record in records:
                since[0] = now_us()
                ids = [value.decode() for name, value in record.headers if name == "notleader-id"]
                message_id = ids[0] if ids else record.value.decode()
                where = {"topic": place.topic, "partition": place.partition}
                got = line("poll", message_id=message_id, offset=record.offset, completed_at_us=now_us(), outcome="ok")
                say(got | where)
                seen.add(message_id)
                count += 1
                if count % number("commit_every") == 0:
                    commit(consumer, place, record.offset + 1)


def commit(consumer: Any, place: TopicPartition, offset: int) -> None:
    where = {"topic": place.topic, "partition": place.partition, "offset": offset}
    said = line("commit", called_at_us=now_us()) | where
    # A field came with a later version.
    more = (-1,) if len(OffsetAndMetadata._fields) > 2 else ()
    try:
        consumer.commit({place: OffsetAndMetadata(offset, "", *more)})
    except KafkaError as error:
        say({**said, "completed_at_us": now_us(), "outcome": word(error), "error": text(error)})
    else:
        say({**said, "completed_at_us": now_us(), "outcome": "ok"})


if __name__ == "__main__":
    main(sys.argv[1:])
