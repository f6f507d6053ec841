"""The scenario with confluent-kafka, which is librdkafka."""

import time

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
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

BASE = {"bootstrap.servers": BOOTSTRAP}
COMMITTING = [TopicPartition(ORDERS, partition, offset) for partition, offset in COMMITTED.items()]


def sent(producer: Producer, topic: str, value: str, **where: object) -> list[int]:
    """Send one record and wait for its place: partition and offset."""
    told: list[Message] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        told.append(message)

    producer.produce(topic, value.encode(), on_delivery=delivered, **where)
    assert producer.flush(30) == 0
    return [told[0].partition(), told[0].offset()]


def reader(topic: str, **settings: object) -> Consumer:
    consumer = Consumer(
        {**BASE, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False, **settings}
    )
    consumer.subscribe([topic])
    return consumer


def read(consumer: Consumer, count: int) -> dict[int, list[list[object]]]:
    """Offset and value of `count` records, by partition."""
    found: dict[int, list[list[object]]] = {}
    stop = time.monotonic() + 30
    while count > 0 and time.monotonic() < stop:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        count -= 1
        found.setdefault(message.partition(), []).append([message.offset(), message.value().decode()])
    return found


result: dict[str, object] = {}
admin = AdminClient(BASE)
for future in admin.create_topics([NewTopic(ORDERS, 2, REPLICAS), NewTopic(MOVES, 1, REPLICAS)]).values():
    future.result(30)
result["brokers"] = [f"{node.host}:{node.port}" for node in admin.describe_cluster().result(30).nodes]

produced: dict[str, list[list[int]]] = {}
for codec in CODECS:
    producer = Producer({**BASE, "compression.type": codec, "enable.idempotence": codec == "gzip", "linger.ms": 0})
    produced[codec] = [
        sent(producer, ORDERS, value, key=value, partition=partition, headers={"notleader-id": value.encode()})
        for partition, value in planned(codec)
    ]
sent(Producer({**BASE, "acks": 0}), ORDERS, LAST, partition=0)
result["produced"] = produced

consumer = reader(ORDERS)
result["consumed"] = read(consumer, RECORDS)
consumer.commit(offsets=COMMITTING, asynchronous=False)
consumer.close()
consumer = reader(ORDERS)
again = read(consumer, RECORDS - sum(COMMITTED.values()))
result["resumed"] = {partition: records[0][0] for partition, records in again.items()}

producer = Producer({**BASE, "transactional.id": TRANSACTIONAL_ID})
producer.init_transactions(30)
producer.begin_transaction()
sent(producer, MOVES, "moved 0")
sent(producer, MOVES, "moved 1")
producer.send_offsets_to_transaction([TopicPartition(ORDERS, 0, 5)], consumer.consumer_group_metadata(), 30)
producer.commit_transaction(30)
producer.begin_transaction()
sent(producer, MOVES, "undone")
producer.abort_transaction(30)
producer.begin_transaction()
sent(producer, MOVES, "moved 2")
producer.commit_transaction(30)
consumer.close()
consumer = reader(MOVES, **{"group.id": f"{GROUP}-2", "isolation.level": "read_committed"})
result["transactions"] = [value for _, value in read(consumer, 3)[0]]
consumer.close()

offsets: dict[int, list[int]] = {0: [], 1: []}
for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
    for partition, future in admin.list_offsets({TopicPartition(ORDERS, n): spec for n in (0, 1)}).items():
        offsets[partition.partition].append(future.result(30).offset)
result["offsets"] = offsets
consumer = Consumer({**BASE, "group.id": GROUP})
asked = [TopicPartition(ORDERS, partition) for partition in COMMITTED]
result["committed"] = {each.partition: each.offset for each in consumer.committed(asked, 30)}
consumer.close()
finish(result)
