"""A small order service: sends orders one by one, says of each what became of it, and exits 1 when one failed.

    python order_service.py BOOTSTRAP TOPIC correct|resends|swallows|forgets [ORDERS]

`resends` has no idempotence, so what it sends again is there twice; `swallows` calls a send that failed a success,
`forgets` only one that failed with OUT_OF_ORDER_SEQUENCE_NUMBER (45), as if its order were in the log already.
"""

from __future__ import annotations

import asyncio
import json
import sys

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, OutOfOrderSequenceNumber

ORDERS = 4
STARTS = 8
# Of which errors each bug says nothing.
HUSHED: dict[str, type[KafkaError]] = {"swallows": KafkaError, "forgets": OutOfOrderSequenceNumber}


async def started(producer: AIOKafkaProducer) -> None:
    for attempt in range(STARTS):
        try:
            await producer.start()
            return
        except KafkaError:
            if attempt == STARTS - 1:
                raise
            await asyncio.sleep(0.05)


async def serve(bootstrap: str, topic: str, bug: str, orders: str = str(ORDERS)) -> int:
    code = 0
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=bug != "resends",
        request_timeout_ms=2_000,
        retry_backoff_ms=50,
    )
    await started(producer)
    try:
        for number in range(int(orders)):
            said = {"operation": "send", "message_id": f"order-{number}", "topic": topic, "outcome": "ok"}
            try:
                await producer.send_and_wait(topic, f"order-{number}".encode())
            except KafkaError as error:
                if not isinstance(error, HUSHED.get(bug, ())):
                    said |= {"outcome": "fail", "error": str(error)}
                    code = 1
            print(json.dumps(said), flush=True)
    finally:
        await producer.stop()
    return code


if __name__ == "__main__":
    if sys.argv[3] not in ("correct", "resends", *HUSHED):
        sys.exit(f"there is no bug {sys.argv[3]!r}")
    raise SystemExit(asyncio.run(serve(*sys.argv[1:])))
