"""The scenario with aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from scenario import (
    BOOTSTRAP,
    CODECS,
    COMMITTED,
    GROUP,
    LAST,
    MOVES,
    ORDERS,
    RECORDS,
    REPLICAS,
    TRANSACTIONAL_ID,
    finish,
    planned,
)

PARTITIONS = [TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1)]


def group_consumer() -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        ORDERS,
        bootstrap_servers=BOOTSTRAP,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


async def read(consumer: AIOKafkaConsumer, count: int) -> dict[int, list[list[object]]]:
    """Offset and value of `count` records, by partition."""
    found: dict[int, list[list[object]]] = {}
    for _ in range(count):
        record = await asyncio.wait_for(consumer.getone(), 30)
        found.setdefault(record.partition, []).append([record.offset, record.value.decode()])
    return found


async def main() -> None:
    result: dict[str, object] = {}
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    await admin.create_topics([NewTopic(ORDERS, 2, REPLICAS), NewTopic(MOVES, 1, REPLICAS)])
    cluster = await admin.describe_cluster()
    result["brokers"] = [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]

    produced: dict[str, list[list[int]]] = {}
    for codec in CODECS:
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(
            bootstrap_servers=BOOTSTRAP, compression_type=compression, enable_idempotence=codec == "gzip"
        ) as producer:
            produced[codec] = []
            for partition, value in planned(codec):
                told = await producer.send_and_wait(
                    ORDERS, value.encode(), value.encode(), partition, headers=[("notleader-id", value.encode())]
                )
                produced[codec].append([told.partition, told.offset])
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, acks=0) as producer:
        await producer.send_and_wait(ORDERS, LAST.encode(), partition=0)
    result["produced"] = produced

    async with group_consumer() as consumer:
        result["consumed"] = await read(consumer, RECORDS)
        await consumer.commit({partition: COMMITTED[partition.partition] for partition in PARTITIONS})
        begins, ends = await consumer.beginning_offsets(PARTITIONS), await consumer.end_offsets(PARTITIONS)
        result["offsets"] = {partition.partition: [begins[partition], ends[partition]] for partition in PARTITIONS}
    async with group_consumer() as consumer:
        again = await read(consumer, RECORDS - sum(COMMITTED.values()))
        result["resumed"] = {partition: records[0][0] for partition, records in again.items()}

    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=TRANSACTIONAL_ID) as producer:
        async with producer.transaction():
            await producer.send_and_wait(MOVES, b"moved 0")
            await producer.send_and_wait(MOVES, b"moved 1")
            await producer.send_offsets_to_transaction({PARTITIONS[0]: 5}, GROUP)
        await producer.begin_transaction()
        await producer.send_and_wait(MOVES, b"undone")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(MOVES, b"moved 2")
    async with AIOKafkaConsumer(
        MOVES, bootstrap_servers=BOOTSTRAP, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        result["transactions"] = [record[1] for record in (await read(consumer, 3))[0]]
    committed = await admin.list_consumer_group_offsets(GROUP)
    result["committed"] = {partition.partition: meta.offset for partition, meta in committed.items()}
    await admin.close()
    finish(result)


asyncio.run(main())
