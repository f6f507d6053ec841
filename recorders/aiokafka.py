"""`recorded(client, file)` for aiokafka's AIOKafkaProducer and AIOKafkaConsumer.

Recorded are `send`, `send_and_wait`, `getone`, `getmany`, iteration, `seek` and its kin, and `commit`;
anything else is the client's own.
Batches that the application builds itself (`send_batch`) have no record of their own to write down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiokafka

from notleader.recorders.lines import Consumed, Lines, key_hash, named, returned


def recorded(client: Any, file: str | Path, *, name: str | None = None, budget_ms: int | None = None) -> Any:
    """`client` with its operations appended to `file`; `name` is what reports call it (default: the file's stem).

    `budget_ms` is how long a send may take before it counts as late. OSError when `file` can't be written.
    """
    name = name or Path(file).stem
    version = f"aiokafka {aiokafka.__version__}"
    if isinstance(client, aiokafka.AIOKafkaProducer):
        client_id = client.client._client_id
        return RecordedProducer(client, Lines(file, name, version, client_id=client_id, budget_ms=budget_ms))
    if isinstance(client, aiokafka.AIOKafkaConsumer):
        client_id = client._client._client_id
        return RecordedConsumer(client, Lines(file, name, version, client_id=client_id, group_id=client._group_id))
    raise TypeError(f"neither an AIOKafkaProducer nor an AIOKafkaConsumer: {type(client).__name__}")


class _Recorded:
    def __init__(self, client: Any, lines: Lines) -> None:
        self._client, self._lines = client, lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def __aenter__(self) -> Any:
        await self._client.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.stop()


class RecordedProducer(_Recorded):
    """An AIOKafkaProducer that writes down each send."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> asyncio.Future[Any]:
        """As AIOKafkaProducer.send; the id goes into the record's headers unless one is there."""
        message_id, headers = named(self._lines, headers)
        task = asyncio.current_task()
        line = self._lines.called(
            "send",
            message_id=message_id,
            topic=topic,
            partition=partition,
            key_hash=key_hash(key),
            thread=task.get_name() if task else None,
        )
        try:
            future = await self._client.send(topic, value, key, partition, timestamp_ms, headers)
        except BaseException as error:
            returned(line)
            # What a cancelled call put into the buffer may still be sent.
            tell = self._lines.unsent if isinstance(error, Exception) else self._lines.failed
            tell(line, error)
            raise
        returned(line)
        future.add_done_callback(lambda done: self._settle(line, done))
        return future  # type: ignore[no-any-return]

    async def send_and_wait(self, topic: str, *args: Any, **kwargs: Any) -> Any:
        """As AIOKafkaProducer.send_and_wait."""
        return await (await self.send(topic, *args, **kwargs))

    def _settle(self, line: dict[str, Any], done: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError("given up") if done.cancelled() else done.exception()
        if error is not None:
            self._lines.failed(line, error)
        elif (told := done.result()) is None:
            # acks=0: sent, and nobody says where it went.
            self._lines.ok(line)
        else:
            self._lines.ok(line, told.offset, partition=told.partition)


class RecordedConsumer(_Recorded):
    """An AIOKafkaConsumer that writes down each record it hands out, each commit, and where it is moved to."""

    def __init__(self, client: Any, lines: Lines) -> None:
        super().__init__(client, lines)
        self._consumed = Consumed(lines)

    def seek(self, partition: Any, offset: int) -> None:
        """As AIOKafkaConsumer.seek."""
        self._lines.sought([partition], offset)
        self._client.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: Any) -> Any:
        """As AIOKafkaConsumer.seek_to_beginning."""
        self._lines.sought(partitions or self._client.assignment())
        return await self._client.seek_to_beginning(*partitions)

    async def seek_to_end(self, *partitions: Any) -> Any:
        """As AIOKafkaConsumer.seek_to_end."""
        self._lines.sought(partitions or self._client.assignment())
        return await self._client.seek_to_end(*partitions)

    async def seek_to_committed(self, *partitions: Any) -> Any:
        """As AIOKafkaConsumer.seek_to_committed."""
        self._lines.sought(partitions or self._client.assignment())
        return await self._client.seek_to_committed(*partitions)

    async def getone(self, *partitions: Any) -> Any:
        """As AIOKafkaConsumer.getone."""
        record = await self._client.getone(*partitions)
        self._consumed.got([record])
        return record

    async def getmany(self, *partitions: Any, timeout_ms: int = 0, max_records: int | None = None) -> Any:
        """As AIOKafkaConsumer.getmany."""
        batches = await self._client.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
        self._consumed.got(record for records in batches.values() for record in records)
        return batches

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        record = await anext(self._client)
        self._consumed.got([record])
        return record

    async def commit(self, offsets: Mapping[Any, Any] | None = None) -> None:
        """As AIOKafkaConsumer.commit; without `offsets` these are the places after the last records handed out."""
        places = (
            None if offsets is None else {place: at if isinstance(at, int) else at[0] for place, at in offsets.items()}
        )
        lines = self._consumed.committing(places, self._client.assignment)
        try:
            await self._client.commit(offsets)
        except Exception as error:
            self._consumed.settle(lines, error)
            raise
        self._consumed.settle(lines)
