"""Many clients of one Python library in one process: jobs come as JSON lines on stdin, and their ends go to stdout.

Argument: the library; and `once` when the process is to end, without closing its client, with its first job. The
clients are recorded as users record theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

LIBRARY = sys.argv[1]
ONCE = "once" in sys.argv[2:]
FIRST_S = 3.0
"""How long the first message is waited for before the others are sent."""
_writing = threading.Lock()


def recorder() -> Any:
    return importlib.import_module(f"notleader.recorders.{LIBRARY.replace('-', '_')}").recorded


def ended(job: dict[str, Any], error: BaseException | None = None) -> None:
    with _writing:
        print(json.dumps({"job": job["job"], "error": None if error is None else repr(error)}), flush=True)
        if ONCE:
            os._exit(0)


def message(job: dict[str, Any], number: int) -> dict[str, Any]:
    name = f"{job['name']}-{number}"
    key = name if not job["keys"] else f"key-{number % job['keys']}"
    return {
        "value": f"order {name}".encode(),
        "key": key.encode(),
        "partition": number % job["partitions"],
        "headers": [("notleader-id", name.encode())],
    }


def transaction_of(job: dict[str, Any], number: int) -> tuple[bool, bool, bool]:
    """Whether a transaction begins before this message, ends after it, and ends aborted."""
    size = job["transaction"]
    if not size:
        return False, False, False
    last = number % size == size - 1 or number == job["messages"] - 1
    aborts = bool(job["abort_every"]) and (number // size) % job["abort_every"] == job["abort_every"] - 1
    return number % size == 0, last, aborts


# aiokafka


async def aiokafka_produce(job: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    plain = AIOKafkaProducer(
        bootstrap_servers=job["bootstrap"],
        client_id=job["client_id"],
        acks={"0": 0, "1": 1, "all": "all"}[job["acks"]],
        enable_idempotence=job["idempotent"] or bool(job["transaction"]),
        request_timeout_ms=job["timeout_ms"],
        **({"transactional_id": job["transactional_id"]} if job["transaction"] else {}),
        **job["options"],
    )
    producer = recorder()(plain, job["file"], name=job["name"])
    await plain.start()
    open_sends: list[Any] = []

    async def send(number: int) -> None:
        for _ in range(job["resend"] + 1):
            try:
                told = await producer.send(job["topic"], **message(job, number))
                await told
                return
            except KafkaError:
                continue

    for number in range(job["messages"]):
        begins, ends, aborts = transaction_of(job, number)
        if begins:
            await plain.begin_transaction()
        sending = asyncio.ensure_future(send(number))
        open_sends.append(sending)
        if job["sync"]:
            await asyncio.wait([sending], timeout=job["wait_ms"] / 1000)
        elif number == 0:
            # What waits for the first connection would go out in one request.
            await asyncio.wait([sending], timeout=FIRST_S)
        if ends:
            await asyncio.wait(open_sends)
            await (plain.abort_transaction() if aborts else plain.commit_transaction())
        await asyncio.sleep(job["interval_ms"] / 1000)
    if open_sends:
        await asyncio.wait(open_sends, timeout=job["wait_ms"] / 1000)
    if not ONCE:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(plain.stop(), 10)


async def aiokafka_consume(job: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.errors import KafkaError

    group = {"group_id": job["group"]} if job["group"] else {}
    plain = AIOKafkaConsumer(
        bootstrap_servers=job["bootstrap"],
        client_id=job["client_id"],
        auto_offset_reset=job["reset"],
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        request_timeout_ms=job["timeout_ms"],
        isolation_level="read_committed" if job["committed"] else "read_uncommitted",
        **({"heartbeat_interval_ms": 200, "session_timeout_ms": 6000} if group else {}),
        **group,
        **job["options"],
    )
    consumer = recorder()(plain, job["file"], name=job["name"])
    places = [TopicPartition(job["topic"], number) for number in range(job["topic_partitions"])]
    if group:
        plain.subscribe([job["topic"]])
    await plain.start()
    if not group:
        plain.assign(places)
    got, last = 0, time.monotonic()
    rewound = skipped = False
    while True:
        batches = await consumer.getmany(timeout_ms=100)
        records = sum(map(len, batches.values()))
        got += records
        if records:
            last = time.monotonic()
            if job["slow_ms"]:
                await asyncio.sleep(job["slow_ms"] / 1000)
            if group and job["commit"] == "each":
                with contextlib.suppress(KafkaError):
                    await consumer.commit()
        if job["rewind_after"] and got >= job["rewind_after"] and not rewound:
            rewound = True
            await plain.seek_to_beginning()
        if job["skip_to_end_after"] and got >= job["skip_to_end_after"] and not skipped:
            skipped = True
            await plain.seek_to_end()
        if job["messages"] and got >= job["messages"]:
            break
        if (time.monotonic() - last) * 1000 > job["idle_ms"]:
            if group:
                break
            ends = await plain.end_offsets(places)
            if all([await plain.position(place) >= ends[place] for place in places]):
                break
            if (time.monotonic() - last) * 1000 > 5 * job["idle_ms"]:
                break
    if group and job["commit"] != "none":
        with contextlib.suppress(KafkaError):
            await consumer.commit()
    if not ONCE:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(plain.stop(), 10)


# confluent-kafka


def confluent_produce(job: dict[str, Any]) -> None:
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


def confluent_consume(job: dict[str, Any]) -> None:
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


# kafka-python


def kafka_python_produce(job: dict[str, Any]) -> None:
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


def kafka_python_consume(job: dict[str, Any]) -> None:
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


_ROLES: dict[tuple[str, str], Any] = {
    ("aiokafka", "produce"): aiokafka_produce,
    ("aiokafka", "consume"): aiokafka_consume,
    ("confluent-kafka", "produce"): confluent_produce,
    ("confluent-kafka", "consume"): confluent_consume,
    ("kafka-python", "produce"): kafka_python_produce,
    ("kafka-python", "consume"): kafka_python_consume,
}


async def in_loop() -> None:
    loop = asyncio.get_running_loop()
    running = set()

    async def work(job: dict[str, Any]) -> None:
        try:
            await _ROLES[LIBRARY, job["role"]](job)
        except Exception as error:
            ended(job, error)
        else:
            ended(job)

    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.ensure_future(work(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


def in_threads() -> None:
    def work(job: dict[str, Any]) -> None:
        try:
            _ROLES[LIBRARY, job["role"]](job)
        except Exception as error:
            ended(job, error)
        else:
            ended(job)

    with ThreadPoolExecutor(200) as pool:
        for line in sys.stdin:
            pool.submit(work, json.loads(line))


if __name__ == "__main__":
    if LIBRARY == "aiokafka":
        asyncio.run(in_loop())
    else:
        in_threads()
    os._exit(0)
