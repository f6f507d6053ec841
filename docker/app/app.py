"""An application to hurt: it sends a numbered order every 100 ms and says, line by line, what became of each.

The lines are those of Kafka's verifiable producer, which `notleader analyze` reads. Environment:
BOOTSTRAP (HOST:PORT), TOPIC, ORDERS (how many; 0 is for ever), OUTCOMES (a file; stdout when absent).
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from typing import IO, Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

TOPIC = os.environ.get("TOPIC", "orders")


def say(out: IO[str], name: str, **values: Any) -> None:
    print(json.dumps({"timestamp": int(time.time() * 1000), "name": name, **values}), file=out, flush=True)


async def main(out: IO[str]) -> None:
    wanted = int(os.environ.get("ORDERS", "0"))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    producer = AIOKafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP"], client_id="orders-app", acks="all")
    await producer.start()
    say(out, "startup_complete")
    order = 0
    while not stop.is_set() and (wanted == 0 or order < wanted):
        order += 1
        value = f"order-{order}"
        known = {"key": None, "value": value, "topic": TOPIC}
        try:
            told = await producer.send_and_wait(TOPIC, value.encode(), headers=[("notleader-id", value.encode())])
        except KafkaError as error:
            say(out, "producer_send_error", **known, exception=type(error).__name__, message=str(error))
        else:
            say(out, "producer_send_success", **known, partition=told.partition, offset=told.offset)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.1)
    await producer.stop()
    say(out, "shutdown_complete")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        path = os.environ.get("OUTCOMES")
        asyncio.run(main(stack.enter_context(open(path, "a", encoding="utf-8")) if path else sys.stdout))
