"""The broker's log, read with a plain client straight from the broker: what is in it, whatever anybody said."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

_LONGEST_S = 20.0


class Record(NamedTuple):
    """One record that is in the log; `message_id` is its header `notleader-id`, or its value where it has none."""

    topic: str
    partition: int
    offset: int
    message_id: str
    key: bytes | None


async def read_log(bootstrap: str, topics: Iterable[str]) -> tuple[Record, ...]:
    """Every record that a reader of committed records is given, in order; of an open transaction nothing."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id="the-oracle",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    )
    await consumer.start()
    found: list[Record] = []
    try:
        places = []
        for topic in topics:
            await consumer._client.add_topic(topic)
            places += [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        clock = asyncio.get_running_loop().time
        until = clock() + _LONGEST_S
        while any([await consumer.position(place) < ends[place] for place in places]):
            if clock() > until:
                raise TimeoutError(f"the log of {', '.join(topics)} can't be read to its end")
            for place, records in (await consumer.getmany(timeout_ms=100)).items():
                for record in records:
                    ids = [value for name, value in record.headers if name == "notleader-id"]
                    name = (ids[0] if ids else record.value or b"").decode(errors="replace")
                    found.append(Record(place.topic, place.partition, record.offset, name, record.key))
    finally:
        await consumer.stop()
    return tuple(sorted(found))
