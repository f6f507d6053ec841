"""Thirty librdkafka producers that send without a pause, several requests at once, until their stdin ends."""

import select
import sys

from confluent_kafka import Producer
from scenario import BOOTSTRAP, ORDERS, finish

SETTINGS = {
    "bootstrap.servers": BOOTSTRAP,
    "linger.ms": 0,
    "batch.num.messages": 1,
    "max.in.flight": 20,
    "retry.backoff.ms": 1,
    # Nothing but the other side ends a connection, or a wait for an answer.
    "socket.timeout.ms": 300_000,
    "message.timeout.ms": 300_000,
    "connections.max.idle.ms": 0,
    "queue.buffering.max.messages": 100,
}
acknowledged = [0] * 30


def sent(number: int) -> None:
    def delivered(error: object, _message: object) -> None:
        if error is None:
            acknowledged[number] += 1
            if min(acknowledged) == acknowledged[number] == 20:
                finish({"acknowledged": 20})

    for _ in range(20):
        try:
            producers[number].produce(ORDERS, b"value", on_delivery=delivered)
        except BufferError:
            break


producers = [Producer(SETTINGS) for _ in acknowledged]
while not select.select([sys.stdin], [], [], 0)[0]:
    for number, producer in enumerate(producers):
        sent(number)
        producer.poll(0.01)
for producer in producers:
    producer.purge()
