"""Your application, for README.md: sends five orders, reads all there are, and writes down what its client said."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from notleader.recorders.aiokafka import recorded


async def main(bootstrap: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, retry_backoff_ms=50)
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with recorded(producer, "producer.jsonl") as shop:
        for number in range(5):
            last = await shop.send_and_wait("orders", b"%d" % number, partition=0)
    async with recorded(consumer, "consumer.jsonl") as billing:
        for _ in range(last.offset + 1):
            await billing.getone()


asyncio.run(main(sys.argv[sys.argv.index("--bootstrap-server") + 1]))
