"""`recorded(client, file)` for kafka-python's KafkaProducer and KafkaConsumer.

Recorded are `send`, `poll`, iteration, `commit` and `commit_async`; anything else is the client's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kafka

from recorders.lines import Lines, id_in, key_hash, named, returned


def recorded(client: Any, file: str | Path, *, name: str | None = None, budget_ms: int | None = None) -> Any:
    """`client` with its operations appended to `file`; `name` is what reports call it (default: the file's stem).

    `budget_ms` is how long a send may take before it counts as late. OSError when `file` can't be written.
    """
    name = name or Path(file).stem
    version = f"kafka-python {kafka.__version__}"
    if isinstance(client, kafka.KafkaProducer):
        return RecordedProducer(client, Lines(file, name, version, budget_ms=budget_ms))
    if isinstance(client, kafka.KafkaConsumer):
        return RecordedConsumer(client, Lines(file, name, version, group_id=client.config["group_id"]))
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
            self._lines.failed(line, error)
            raise
        returned(line)
        future.add_callback(lambda told: self._lines.ok(line, partition=told.partition, offset=told.offset))
        future.add_errback(lambda error: self._lines.failed(line, error))
        return future


class RecordedConsumer(_Recorded):
    """A KafkaConsumer that writes down each record it hands out, and each commit."""

    def __init__(self, client: Any, lines: Lines) -> None:
        super().__init__(client, lines)
        self._reached: dict[Any, int] = {}

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        """As KafkaConsumer.poll."""
        batches = self._client.poll(*args, **kwargs)
        self._got(record for records in batches.values() for record in records)
        return batches

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        record = next(self._client)
        self._got([record])
        return record

    def commit(self, offsets: Mapping[Any, Any] | None = None, *args: Any, **kwargs: Any) -> None:
        """As KafkaConsumer.commit; without `offsets` these are the places after the last records handed out."""
        lines = self._committing(offsets)
        try:
            self._client.commit(offsets, *args, **kwargs)
        except Exception as error:
            self._settle(lines, error)
            raise
        self._settle(lines, None)

    def commit_async(
        self, offsets: Mapping[Any, Any] | None = None, callback: Callable[[Any, Any], None] | None = None
    ) -> Any:
        """As KafkaConsumer.commit_async."""
        lines = self._committing(offsets)

        def done(committed: Any, answer: Any) -> None:
            self._settle(lines, answer if isinstance(answer, Exception) else None)
            if callback is not None:
                callback(committed, answer)

        return self._client.commit_async(offsets, callback=done)

    def _committing(self, offsets: Mapping[Any, Any] | None) -> list[dict[str, Any]]:
        if offsets is None:
            mine = self._client.assignment()
            places = {place: at for place, at in self._reached.items() if place in mine}
        else:
            places = {place: at.offset for place, at in offsets.items()}
        return [
            self._lines.called("commit", topic=place.topic, partition=place.partition, offset=at)
            for place, at in places.items()
        ]

    def _settle(self, lines: list[dict[str, Any]], error: Exception | None) -> None:
        for line in lines:
            if error is None:
                self._lines.ok(line)
            else:
                self._lines.failed(line, error)

    def _got(self, records: Iterable[Any]) -> None:
        told = []
        for record in records:
            self._reached[kafka.TopicPartition(record.topic, record.partition)] = record.offset + 1
            told.append(
                {
                    "message_id": id_in(record.headers),
                    "topic": record.topic,
                    "partition": record.partition,
                    "offset": record.offset,
                }
            )
        self._lines.got(told)
