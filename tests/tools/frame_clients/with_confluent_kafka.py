"""What librdkafka can do by way of confluent-kafka, once each, against BOOTSTRAP."""

import os
import time

from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

BOOTSTRAP = os.environ["BOOTSTRAP"]
BASE = {"bootstrap.servers": BOOTSTRAP}

admin = AdminClient(BASE)
for call in (lambda: admin.create_topics([NewTopic("orders", 3, 1), NewTopic("invoices", 1, 1)]),):
    for future in call().values():
        future.result(20)
for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
    producer = Producer({**BASE, "compression.type": compression, "linger.ms": 20})
    for number in range(30):
        producer.produce("orders", b"a value " * 8, b"key %d" % number, headers={"notleader-id": b"%d" % number})
    producer.flush(20)
Producer({**BASE, "acks": 0}).produce("orders", b"nobody answers")
producer = Producer({**BASE, "enable.idempotence": True})
producer.produce("orders", b"once")
producer.flush(20)


def consume(settings: dict) -> Consumer:
    consumer = Consumer({**BASE, "auto.offset.reset": "earliest", "enable.auto.commit": False, **settings})
    consumer.subscribe(["orders"])
    stop = time.monotonic() + 20
    while time.monotonic() < stop:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            break
    consumer.commit(asynchronous=False)
    return consumer


consumer = consume({"group.id": "group-c"})
producer = Producer({**BASE, "transactional.id": "tx-c"})
producer.init_transactions(20)
producer.begin_transaction()
producer.produce("invoices", b"in a transaction")
producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 20)
producer.commit_transaction(20)
producer.begin_transaction()
producer.produce("invoices", b"undone")
producer.flush(20)
producer.abort_transaction(20)
new_protocol = consume({"group.id": "group-d", "group.protocol": "consumer"})
consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=10)
consumer.offsets_for_times([TopicPartition("orders", 0, 1)], timeout=10)

acl = ("orders", ResourcePatternType.LITERAL, "User:me", "*", AclOperation.READ, AclPermissionType.ALLOW)
for call in (
    lambda: admin.list_topics(timeout=10),
    lambda: admin.describe_cluster(),
    lambda: admin.describe_topics(TopicCollection(["orders"]))["orders"],
    lambda: admin.list_consumer_groups(),
    lambda: admin.describe_consumer_groups(["group-c", "group-d"])["group-c"],
    lambda: admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.latest()}),
    lambda: next(iter(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "orders")]).values())),
    lambda: next(iter(admin.create_partitions([NewPartitions("invoices", 2)]).values())),
    lambda: next(iter(admin.create_acls([AclBinding(ResourceType.TOPIC, *acl)]).values())),
    lambda: admin.describe_acls(AclBindingFilter(ResourceType.TOPIC, *acl)),
    lambda: next(iter(admin.delete_records([TopicPartition("orders", 0, 1)]).values())),
):
    try:
        result = call()
        if hasattr(result, "result"):
            result.result(20)
    except Exception as error:
        print(type(error).__name__, error)
consumer.close()
new_protocol.close()
for call in (
    lambda: admin.delete_consumer_groups(["group-c"])["group-c"],
    lambda: admin.delete_topics(["invoices"])["invoices"],
):
    try:
        call().result(20)
    except Exception as error:
        print(type(error).__name__, error)
