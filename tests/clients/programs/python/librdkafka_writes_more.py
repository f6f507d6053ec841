"""What librdkafka writes longer than the protocol has it: Metadata of all topics, and AlterUserScramCredentials."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
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


def described() -> int:
    """The iterations of the credential; the controller has it before the broker that is asked reads it of the log."""
    stop = time.monotonic() + 30
    while True:
        try:
            return admin.describe_user_scram_credentials([GROUP])[GROUP].result(30).scram_credential_infos[0].iterations
        except KafkaException as error:
            if error.args[0].code() != KafkaError.RESOURCE_NOT_FOUND or time.monotonic() > stop:
                raise
            time.sleep(0.1)


iterations = described()

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
        "iterations": [iterations],
        "found": found,
        "errors": errors,
    }
)
