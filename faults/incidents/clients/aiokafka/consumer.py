"""An aiokafka group consumer that writes down every record it gets; on SIGTERM it reads to the end and leaves.

Arguments (name=value): bootstrap, topic, client_id, group_id; request_timeout_ms; drain_ms: how long reading
to the end may take.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import aiokafka
from recorder import Recorder, arguments


async def main(argv: list[str]) -> None:
    settings = arguments(
        argv,
        {
            "bootstrap": "?",
            "topic": "?",
            "client_id": "?",
            "group_id": "?",
            "request_timeout_ms": "4000",
            "drain_ms": "5000",
        },
    )
    client_id = settings["client_id"]
    recorder = Recorder(
        client_id, f"aiokafka {aiokafka.__version__}", client_id=client_id, group_id=settings["group_id"]
    )
    consumer = aiokafka.AIOKafkaConsumer(
        settings["topic"],
        bootstrap_servers=settings["bootstrap"],
        client_id=client_id,
        group_id=settings["group_id"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        request_timeout_ms=int(settings["request_timeout_ms"]),
        session_timeout_ms=10_000,
        fetch_max_wait_ms=100,
    )
    clock = asyncio.get_running_loop().time
    drained_by: float | None = None

    def leave() -> None:
        nonlocal drained_by
        drained_by = clock() + int(settings["drain_ms"]) / 1000

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, leave)
    await consumer.start()
    try:
        while drained_by is None or (clock() < drained_by and not await at_end(consumer)):
            for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                for record in records:
                    ids = [value for name, value in record.headers if name == "notleader-id"]
                    recorder.got(
                        "poll",
                        message_id=ids[0].decode() if ids else None,
                        topic=partition.topic,
                        partition=partition.partition,
                        offset=record.offset,
                    )
        await consumer.commit()
    finally:
        await consumer.stop()


async def at_end(consumer: aiokafka.AIOKafkaConsumer) -> bool:
    """Whether everything that is in the topic now has been handed over."""
    assigned = consumer.assignment()
    ends = await consumer.end_offsets(list(assigned))
    return all([await consumer.position(partition) >= ends[partition] for partition in assigned])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
