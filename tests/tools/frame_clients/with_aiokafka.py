"""What aiokafka can do, once each, against BOOTSTRAP."""

import asyncio
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

BOOTSTRAP = os.environ["BOOTSTRAP"]


async def main() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    await admin.create_topics([NewTopic("orders", 3, 1), NewTopic("invoices", 1, 1)])
    await admin.create_partitions({"invoices": NewPartitions(2)})
    for compression in (None, "gzip", "snappy", "lz4", "zstd"):
        producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type=compression)
        async with producer:
            for number in range(9):
                headers = [("notleader-id", b"%d" % number)]
                await producer.send_and_wait("orders", b"a value " * 8, b"key %d" % number, headers=headers)
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, acks=0) as producer:
        await producer.send_and_wait("orders", b"nobody answers")
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True) as producer:
        await asyncio.gather(*[await producer.send("orders", b"x", partition=n) for n in range(3)])
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=BOOTSTRAP,
        group_id="group-a",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id="tx-a")
    async with consumer, producer:
        await consumer.getmany(timeout_ms=2000)
        await consumer.commit()
        async with producer.transaction():
            await producer.send_and_wait("invoices", b"in a transaction")
            await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 1}, "group-a")
        await producer.begin_transaction()
        await producer.send_and_wait("invoices", b"undone")
        await producer.abort_transaction()
        await consumer.end_offsets([TopicPartition("orders", 0)])
        await admin.list_consumer_groups()
        await admin.describe_consumer_groups(["group-a"])
        await admin.list_consumer_group_offsets("group-a")
    async with AIOKafkaConsumer(
        "invoices", bootstrap_servers=BOOTSTRAP, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.getmany(timeout_ms=2000)
    await admin.describe_cluster()
    await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "orders")])
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "orders", {"retention.ms": "10000"})])
    await admin.delete_records({TopicPartition("orders", 0): _before(2)})
    await admin.delete_topics(["invoices"])
    await admin.close()


def _before(offset: int):
    from aiokafka.admin import RecordsToDelete

    return RecordsToDelete(before_offset=offset)


asyncio.run(main())
