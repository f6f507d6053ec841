"""Read topics to their present ends, without a group, and write down every record.

Arguments (name=value): bootstrap, client_id; topics, separated by commas.
"""

from __future__ import annotations

import asyncio
import sys

import aiokafka
from recorder import Recorder, arguments


async def main(argv: list[str]) -> None:
    settings = arguments(argv, {"bootstrap": "?", "client_id": "?", "topics": "?"})
    recorder = Recorder(settings["client_id"], f"aiokafka {aiokafka.__version__}", client_id=settings["client_id"])
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        client_id=settings["client_id"],
        fetch_max_wait_ms=100,
        # Rather than a seek: assigning begins a reset of its own, to the end, which may overtake the seek.
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        places = [
            aiokafka.TopicPartition(topic, partition)
            for topic in settings["topics"].split(",")
            for partition in consumer.partitions_for_topic(topic) or await known(consumer, topic)
        ]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            for place, records in (await consumer.getmany(timeout_ms=200)).items():
                for record in records:
                    ids = [value for name, value in record.headers if name == "notleader-id"]
                    # Records of clients from before headers are their own id.
                    message_id = (ids[0] if ids else record.value or b"").decode(errors="replace")
                    where = {"topic": place.topic, "partition": place.partition, "offset": record.offset}
                    recorder.got("poll", message_id=message_id, **where)
    finally:
        await consumer.stop()


async def known(consumer: aiokafka.AIOKafkaConsumer, topic: str) -> set[int]:
    """The partitions of a topic that the client hasn't heard of yet."""
    await consumer._client.add_topic(topic)
    return consumer.partitions_for_topic(topic) or set()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
