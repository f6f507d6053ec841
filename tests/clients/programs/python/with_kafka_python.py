"""The scenario with kafka-python."""

import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata
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


def group_consumer() -> KafkaConsumer:
    return KafkaConsumer(
        ORDERS,
        bootstrap_servers=BOOTSTRAP,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def read(consumer: KafkaConsumer, count: int) -> dict[int, list[list[object]]]:
    """Offset and value of `count` records, by partition."""
    found: dict[int, list[list[object]]] = {}
    stop = time.monotonic() + 30
    while count > 0 and time.monotonic() < stop:
        for partition, records in consumer.poll(timeout_ms=500).items():
            count -= len(records)
            found.setdefault(partition.partition, []).extend([r.offset, r.value.decode()] for r in records)
    return found


result: dict[str, object] = {}
admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
admin.create_topics([NewTopic(ORDERS, 2, REPLICAS), NewTopic(MOVES, 1, REPLICAS)])
result["brokers"] = [f"{broker['host']}:{broker['port']}" for broker in admin.describe_cluster()["brokers"]]

produced: dict[str, list[list[int]]] = {}
for codec in CODECS:
    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type=compression, acks="all")
    produced[codec] = []
    for partition, value in planned(codec):
        told = producer.send(ORDERS, value.encode(), value.encode(), [("notleader-id", value.encode())], partition).get(
            30
        )
        produced[codec].append([told.partition, told.offset])
    producer.close()
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks=0, enable_idempotence=False)
producer.send(ORDERS, LAST.encode(), partition=0).get(30)
producer.close()
result["produced"] = produced

consumer = group_consumer()
result["consumed"] = read(consumer, RECORDS)
consumer.commit({each: OffsetAndMetadata(COMMITTED[each.partition], "", -1) for each in PARTITIONS})
begins, ends = consumer.beginning_offsets(PARTITIONS), consumer.end_offsets(PARTITIONS)
result["offsets"] = {each.partition: [begins[each], ends[each]] for each in PARTITIONS}
consumer.close()
consumer = group_consumer()
again = read(consumer, RECORDS - sum(COMMITTED.values()))
result["resumed"] = {partition: records[0][0] for partition, records in again.items()}
consumer.close()

producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=TRANSACTIONAL_ID)
producer.init_transactions()
for values, commit in ((["moved 0", "moved 1"], True), (["undone"], False), (["moved 2"], True)):
    producer.begin_transaction()
    for value in values:
        producer.send(MOVES, value.encode()).get(30)
    if values == ["moved 0", "moved 1"]:
        producer.send_offsets_to_transaction({PARTITIONS[0]: OffsetAndMetadata(5, "", -1)}, GROUP)
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
producer.close()
consumer = KafkaConsumer(
    MOVES, bootstrap_servers=BOOTSTRAP, isolation_level="read_committed", auto_offset_reset="earliest"
)
result["transactions"] = [value for _, value in read(consumer, 3)[0]]
consumer.close()
groups = admin.list_group_offsets([GROUP])
offsets = groups.get(GROUP, groups)
result["committed"] = {partition.partition: meta.offset for partition, meta in offsets.items()}
admin.close()
finish(result)
