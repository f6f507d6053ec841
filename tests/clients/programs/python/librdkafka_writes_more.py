"""What librdkafka writes longer than the protocol has it: Metadata of all topics, and AlterUserScramCredentials."""

import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from scenario import BOOTSTRAP, GROUP, ORDERS, REPLICAS, finish

BASE = {"bootstrap.servers": BOOTSTRAP}
admin = AdminClient(BASE)
admin.create_topics([NewTopic(ORDERS, 1, REPLICAS)])[ORDERS].result(30)
listed = sorted(topic for topic in admin.list_topics(timeout=30).topics if not topic.startswith("__"))

credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
altered = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(GROUP, credential, b"secret", b"salt")])
altered[GROUP].result(30)
described = admin.describe_user_scram_credentials([GROUP])[GROUP].result(30)

producer = Producer(BASE)
producer.produce(ORDERS, b"found")
assert producer.flush(30) == 0
errors: list[str] = []
consumer = Consumer(
    {
        **BASE,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "error_cb": lambda error: errors.append(str(error)),
    }
)
consumer.subscribe([f"^{ORDERS}$"])  # a regular expression: it asks for all topics
found, stop = None, time.monotonic() + 30
while found is None and time.monotonic() < stop:
    message = consumer.poll(1)
    if message is not None and message.error() is None:
        found = message.value().decode()
consumer.close()
finish(
    {
        "listed": [topic.removeprefix(ORDERS) for topic in listed if topic.startswith(ORDERS)],
        "iterations": [info.iterations for info in described.scram_credential_infos],
        "found": found,
        "errors": errors,
    }
)
