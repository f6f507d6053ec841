"""aiokafka's producer and consumer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from jobs import FIRST_S, ONCE, message, recorder, transaction_of


async def produce(job: dict[str, Any]) -> None:
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


async def consume(job: dict[str, Any]) -> None:
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
