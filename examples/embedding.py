"""A lost leader inside an asyncio program, in front of a Kafka that runs already.

    python examples/embedding.py localhost:9092

It sends three orders. The second meets a broker that says four times that it leads the partition no more; the
client asks again, as it should, and the order arrives once.
"""

import asyncio
import sys

from aiokafka import AIOKafkaProducer

from notleader.proxy import Proxy


async def main(kafka: str) -> None:
    async with Proxy.in_front_of(kafka, seed=7) as proxy:
        producer = AIOKafkaProducer(bootstrap_servers=proxy.bootstrap, acks="all")
        await producer.start()
        try:
            first = await producer.send_and_wait("orders", b"first")
            proxy.add_fault(
                name="lost-leader",
                kind="error",
                error_code="NOT_LEADER_OR_FOLLOWER",
                match={"api_key": "Produce", "topic": "orders"},
                trigger={"times": 4},
            )
            second = await producer.send_and_wait("orders", b"second", partition=first.partition)
            await proxy.wait_for_hits("lost-leader", 4, timeout_s=10)
            third = await producer.send_and_wait("orders", b"third", partition=first.partition)
        finally:
            await producer.stop()
        print(f"offsets {first.offset}, {second.offset}, {third.offset}")  # noqa: T201
        print(f"hits {proxy.plan.get('lost-leader').hits}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
