"""What kafka-python can do, once each, against BOOTSTRAP."""

import os

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

BOOTSTRAP = os.environ["BOOTSTRAP"]

admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
admin.create_topics([NewTopic("orders", 3, 1), NewTopic("invoices", 1, 1)])
for compression in (None, "gzip"):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type=compression)
    for number in range(9):
        producer.send("orders", b"a value " * 8, b"key %d" % number, headers=[("notleader-id", b"%d" % number)])
    producer.flush()
    producer.close()
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id="tx-k")
producer.init_transactions()
producer.begin_transaction()
producer.send("invoices", b"in a transaction").get()
producer.commit_transaction()
producer.begin_transaction()
producer.send("invoices", b"undone").get()
producer.abort_transaction()
producer.close()
consumer = KafkaConsumer(
    "orders", bootstrap_servers=BOOTSTRAP, group_id="group-k", auto_offset_reset="earliest", enable_auto_commit=False
)
while not consumer.poll(timeout_ms=1000):
    pass
consumer.commit()
consumer.end_offsets([TopicPartition("orders", 0)])
print(admin.list_groups() if hasattr(admin, "list_groups") else admin.list_consumer_groups())
for call in (
    lambda: admin.describe_groups(["group-k"]),
    lambda: admin.describe_consumer_groups(["group-k"]),
    lambda: admin.list_group_offsets("group-k"),
    lambda: admin.describe_cluster(),
    lambda: admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "orders")]),
    lambda: admin.describe_log_dirs(),
    lambda: admin.list_topics(),
    lambda: admin.describe_topics(["orders"]),
    lambda: admin.delete_records({TopicPartition("orders", 0): 1}),
):
    try:
        call()
    except Exception as error:  # what this release lacks is left out
        print(type(error).__name__, error)
consumer.close()
admin.delete_topics(["invoices"])
admin.close()
