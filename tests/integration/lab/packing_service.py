"""A small packing service: writes a few orders, reads them in a group, and says of each that it is packed.

    python packing_service.py BOOTSTRAP TOPIC GROUP correct|hasty [ORDERS]

`hasty` commits before it packs, and packs no order that it has seen before: when a commit fails its order is never
packed, though the group gets it again.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

ORDERS = 4
SESSION_MS = 6_000
# Five times in a row a member that is thrown out may have to wait for its old self to be.
PATIENCE_S = 60.0
POLL_MS = 500


async def write(bootstrap: str, topic: str, orders: int) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, request_timeout_ms=2_000, retry_backoff_ms=50
    )
    await producer.start()
    try:
        for number in range(orders):
            await producer.send_and_wait(topic, f"order-{number}".encode())
    finally:
        await producer.stop()


def packed(topic: str, record: object) -> None:
    said = {"operation": "poll", "topic": topic, "message_id": record.value.decode(), "outcome": "ok"}  # type: ignore[attr-defined]
    print(json.dumps(said), flush=True)


async def pack(bootstrap: str, topic: str, group: str, bug: str, orders: int) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        request_timeout_ms=2_000,
        retry_backoff_ms=50,
    )
    await consumer.start()
    try:
        seen: set[bytes] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < orders and time.monotonic() < deadline:
            batch = await consumer.getmany(timeout_ms=POLL_MS, max_records=1)
            for record in (record for records in batch.values() for record in records):
                if record.value in seen:
                    continue
                seen.add(record.value)
                if bug == "correct":
                    packed(topic, record)
                try:
                    await consumer.commit()
                except KafkaError as error:
                    print(f"commit: {error!r}", file=sys.stderr)
                    continue
                if bug == "hasty":
                    packed(topic, record)
    finally:
        await consumer.stop()


async def serve(bootstrap: str, topic: str, group: str, bug: str, orders: str = str(ORDERS)) -> None:
    await write(bootstrap, topic, int(orders))
    await pack(bootstrap, topic, group, bug, int(orders))


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
