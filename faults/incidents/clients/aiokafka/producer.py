"""An aiokafka producer that sends numbered messages at a steady rate and writes down what became of each.

Arguments (name=value): bootstrap, topic, client_id; partitions, messages, interval_ms, idempotent (true or
false), request_timeout_ms, metadata_max_age_ms, start_after_ms: how long it waits before the first message, resend:
how often the application itself sends a failed message again.
"""

from __future__ import annotations

import asyncio
import sys

import aiokafka
from aiokafka.errors import KafkaError
from recorder import Recorder, arguments, now_us


async def main(argv: list[str]) -> None:
    settings = arguments(
        argv,
        {
            "bootstrap": "?",
            "topic": "?",
            "client_id": "?",
            "partitions": "3",
            "messages": "300",
            "interval_ms": "25",
            "idempotent": "false",
            "request_timeout_ms": "2000",
            "resend": "0",
            "metadata_max_age_ms": "60000",
            "start_after_ms": "0",
        },
    )
    client_id = settings["client_id"]
    recorder = Recorder(client_id, f"aiokafka {aiokafka.__version__}", client_id=client_id)
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=settings["bootstrap"],
        client_id=client_id,
        acks="all",
        enable_idempotence=settings["idempotent"] == "true",
        request_timeout_ms=int(settings["request_timeout_ms"]),
        metadata_max_age_ms=int(settings["metadata_max_age_ms"]),
    )

    async def send(message_id: str, partition: int) -> None:
        for attempt in range(int(settings["resend"]) + 1):
            line = recorder.called("send", message_id=message_id, topic=settings["topic"], partition=partition)
            try:
                future = await producer.send(
                    settings["topic"],
                    value=f"order {message_id}, attempt {attempt}".encode(),
                    key=message_id.encode(),
                    partition=partition,
                    headers=[("notleader-id", message_id.encode())],
                )
            except KafkaError as error:
                line["returned_at_us"] = now_us()
                recorder.failed(line, error, unsent=True)
                continue
            line["returned_at_us"] = now_us()
            try:
                told = await future
            except KafkaError as error:
                recorder.failed(line, error)
            else:
                recorder.ok(line, offset=told.offset)
                return

    await producer.start()
    try:
        await asyncio.sleep(int(settings["start_after_ms"]) / 1000)
        clock = asyncio.get_running_loop().time
        started = clock()
        async with asyncio.TaskGroup() as sends:
            for number in range(int(settings["messages"])):
                sends.create_task(send(f"{client_id}-{number}", number % int(settings["partitions"])))
                due = started + (number + 1) * int(settings["interval_ms"]) / 1000
                await asyncio.sleep(max(0.0, due - clock()))
    finally:
        await producer.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
