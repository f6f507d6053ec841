"""An aiokafka producer that sends each numbered message in a transaction of its own, and says how each step ended.

Arguments (name=value): bootstrap, topic, client_id, transactional_id; messages, interval_ms, request_timeout_ms,
wait_ms: how long all of it may take; what goes on then is left `pending`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError
from recorder import Recorder, arguments


async def main(argv: list[str]) -> None:
    settings = arguments(
        argv,
        {
            "bootstrap": "?",
            "topic": "?",
            "client_id": "?",
            "transactional_id": "?",
            "messages": "40",
            "interval_ms": "100",
            "request_timeout_ms": "5000",
            "wait_ms": "20000",
        },
    )
    client_id, topic = settings["client_id"], settings["topic"]
    recorder = Recorder(client_id, f"aiokafka {aiokafka.__version__}", client_id=client_id)
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=settings["bootstrap"],
        client_id=client_id,
        transactional_id=settings["transactional_id"],
        request_timeout_ms=int(settings["request_timeout_ms"]),
    )

    async def told(operation: str, call: Any, **fields: Any) -> None:
        line = recorder.called(operation, topic=topic, **fields)
        try:
            answer = await call
        except KafkaError as error:
            recorder.failed(line, error)
            raise
        recorder.ok(line, **({"offset": answer.offset} if operation == "send" else {}))

    async def work() -> None:
        for number in range(int(settings["messages"])):
            message_id = f"{client_id}-{number}"
            headers = [("notleader-id", message_id.encode())]
            await producer.begin_transaction()
            try:
                sending = producer.send_and_wait(topic, message_id.encode(), partition=0, headers=headers)
                await told("send", sending, message_id=message_id, partition=0)
                await told("commit_transaction", producer.commit_transaction())
            except KafkaError:
                with contextlib.suppress(KafkaError):
                    await producer.abort_transaction()
            await asyncio.sleep(int(settings["interval_ms"]) / 1000)

    await producer.start()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(work(), int(settings["wait_ms"]) / 1000)
    sys.stdout.flush()
    os._exit(0)  # not stop(): a producer that hangs would keep us


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
