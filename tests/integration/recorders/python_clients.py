"""Ten sends, ten reads, a commit and two seeks with one Python client and its recorder: CLIENT BOOTSTRAP TOPIC FILE.

The eleventh send is larger than its topic allows, which the broker refuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

COUNT = 10
TOO_LARGE = b"x" * 20_000


async def aiokafka(bootstrap: str, topic: str, file: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.errors import KafkaError

    from notleader.recorders.aiokafka import recorded

    producer = recorded(AIOKafkaProducer(bootstrap_servers=bootstrap), file, name="aiokafka-writer")
    async with producer:
        waiting = [await producer.send(topic, b"v", key=b"k%d" % number) for number in range(COUNT - 1)]
        await asyncio.gather(*waiting)
        await producer.send_and_wait(topic, b"v", key=b"last")
        with contextlib.suppress(KafkaError):
            await producer.send_and_wait(topic, TOO_LARGE)
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest")
    async with recorded(consumer, file, name="aiokafka-reader") as consumer:
        got = 0
        async for _ in consumer:
            got += 1
            if got == COUNT - 2:
                break
        await consumer.getone()
        while got < COUNT - 1:
            got += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        await consumer.commit()
        await consumer.seek_to_beginning()
        consumer.seek(next(iter(consumer.assignment())), 5)
    unheard = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=0)
    async with recorded(unheard, file, name="aiokafka-unacknowledged") as unheard:
        await unheard.send_and_wait(topic, b"v")


def kafka_python(bootstrap: str, topic: str, file: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError

    from notleader.recorders.kafka_python import recorded

    producer = recorded(KafkaProducer(bootstrap_servers=bootstrap), file, name="kafka-python-writer")
    for number in range(COUNT):
        producer.send(topic, b"v", key=b"k%d" % number)
    producer.flush()
    with contextlib.suppress(KafkaError):
        producer.send(topic, TOO_LARGE).get(30)
    producer.close()
    inner = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest")
    consumer = recorded(inner, file, name="kafka-python-reader")
    next(consumer)
    got = 1
    while got < COUNT:
        got += sum(map(len, consumer.poll(timeout_ms=500).values()))
    consumer.commit()
    consumer.seek_to_beginning()
    consumer.seek(next(iter(consumer.assignment())), 5)
    consumer.close()
    unheard = recorded(KafkaProducer(bootstrap_servers=bootstrap, acks=0), file, name="kafka-python-unacknowledged")
    unheard.send(topic, b"v").get(30)
    unheard.close()


def confluent_kafka(bootstrap: str, topic: str, file: str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

    from notleader.recorders.confluent_kafka import recorded

    producer = recorded(Producer({"bootstrap.servers": bootstrap}), file, name="confluent-kafka-writer")
    for number in range(COUNT):
        producer.produce(topic, b"v", key=b"k%d" % number)
    # In one batch with the others it would take them with it.
    producer.flush()
    producer.produce(topic, TOO_LARGE)
    producer.flush()
    inner = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer = recorded(inner, file, name="confluent-kafka-reader", group_id=topic)
    consumer.subscribe([topic])
    got = 0
    while got < COUNT:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            got += 1
        if got == COUNT // 2:
            got += len([m for m in consumer.consume(COUNT, 1) if m.error() is None])
    consumer.commit(asynchronous=False)
    with contextlib.suppress(KafkaException):  # there is nothing to commit any more
        consumer.commit(asynchronous=False)
    for offset in (OFFSET_BEGINNING, 5):
        consumer.seek(TopicPartition(topic, 0, offset))
    consumer.close()
    unheard = recorded(
        Producer({"bootstrap.servers": bootstrap, "acks": 0}), file, name="confluent-kafka-unacknowledged"
    )
    unheard.produce(topic, b"v")
    unheard.flush()


if __name__ == "__main__":
    client, *rest = sys.argv[1:]
    if client == "aiokafka":
        asyncio.run(aiokafka(*rest))
    else:
        {"kafka-python": kafka_python, "confluent-kafka": confluent_kafka}[client](*rest)
