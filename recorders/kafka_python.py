"""`recorded(client, file)` for kafka-python's KafkaProducer and KafkaConsumer.

Recorded are `send`, `poll`, iteration, `seek` and its kin, `commit` and `commit_async`;
anything else is the client's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kafka

from notleader.recorders.lines import Consumed, Lines, key_hash, named, now_us, returned


def recorded(client: Any, file: str | Path, *, name: str | None = None, budget_ms: int | None = None) -> Any:
    """`client` with its operations appended to `file`; `name` is what reports call it (default: the file's stem).

    `budget_ms` is how long a send may take before it counts as late. OSError when `file` can't be written.
    """
    name = name or Path(file).stem
    version = f"kafka-python {kafka.__version__}"
    if isinstance(client, kafka.KafkaProducer):
        client_id = client.config["client_id"]
        return RecordedProducer(client, Lines(file, name, version, client_id=client_id, budget_ms=budget_ms))
    if isinstance(client, kafka.KafkaConsumer):
        client_id, group_id = client.config["client_id"], client.config["group_id"]
        return RecordedConsumer(client, Lines(file, name, version, client_id=client_id, group_id=group_id))
    raise TypeError(f"neither a KafkaProducer nor a KafkaConsumer: {type(client).__name__}")


class _Recorded:
    def __init__(self, client: Any, lines: Lines) -> None:
        self._client, self._lines = client, lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()


class RecordedProducer(_Recorded):
    """A KafkaProducer that writes down each send."""

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """As KafkaProducer.send; the id goes into the record's headers unless one is there."""
        message_id, headers = named(self._lines, headers)
        line = self._lines.called(
            "send", message_id=message_id, topic=topic, partition=partition, key_hash=key_hash(key)
        )
        try:
            future = self._client.send(
                topic, value=value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        except Exception as error:
            returned(line)
            self._lines.unsent(line, error)
            raise
        returned(line)
        # With acks=0 nobody said where it went, though kafka-python then counts from 0.
        told_where = self._client.config["acks"] != 0
        future.add_callback(
            lambda told: self._lines.ok(line, told.offset if told_where else None, partition=told.partition)
        )
        future.add_errback(lambda error: self._lines.failed(line, error))
        return future


class RecordedConsumer(_Recorded):
    """A KafkaConsumer that writes down each record it hands out, each commit, and where it is moved to."""

    def __init__(self, client: Any, lines: Lines) -> None:
        super().__init__(client, lines)
        self._consumed = Consumed(lines)

    def seek(self, partition: Any, offset: int) -> None:
        """As KafkaConsumer.seek."""
        self._lines.sought([partition], offset)
        self._client.seek(partition, offset)

    def seek_to_beginning(self, *partitions: Any) -> None:
        """As KafkaConsumer.seek_to_beginning."""
        self._lines.sought(partitions or self._client.assignment())
        self._client.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: Any) -> None:
        """As KafkaConsumer.seek_to_end."""
        self._lines.sought(partitions or self._client.assignment())
        self._client.seek_to_end(*partitions)

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        """As KafkaConsumer.poll."""
        batches = self._client.poll(*args, **kwargs)
        self._consumed.got(record for records in batches.values() for record in records)
        return batches

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        record = next(self._client)
        self._consumed.got([record])
        return record

    def commit(self, offsets: Mapping[Any, Any] | None = None, *args: Any, **kwargs: Any) -> None:
        """As KafkaConsumer.commit; without `offsets` these are the places after the last records handed out."""
        lines = self._committing(offsets)
        try:
            self._client.commit(offsets, *args, **kwargs)
        except Exception as error:
            self._consumed.settle(lines, error)
            raise
        self._consumed.settle(lines)

    def commit_async(
        self, offsets: Mapping[Any, Any] | None = None, callback: Callable[[Any, Any], None] | None = None
    ) -> Any:
        """As KafkaConsumer.commit_async."""
        lines = self._committing(offsets)

        def done(committed: Any, answer: Any) -> None:
            self._consumed.settle(lines, answer if isinstance(answer, Exception) else None)
            if callback is not None:
                callback(committed, answer)

        future = self._client.commit_async(offsets, callback=done)
        for line in lines:
            line.setdefault("returned_at_us", now_us())
        return future

    def _committing(self, offsets: Mapping[Any, Any] | None) -> list[dict[str, Any]]:
        places = None if offsets is None else {place: at.offset for place, at in offsets.items()}
        return self._consumed.committing(places, self._client.assignment)
