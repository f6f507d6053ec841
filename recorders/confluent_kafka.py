"""`recorded(client, file)` for confluent-kafka's Producer and Consumer (librdkafka).

Recorded are `produce`, `poll`, `consume` and `seek` of a consumer, `assign` at offsets, and synchronous `commit`;
anything else is the client's own.
What an asynchronous commit became only the configuration's `on_commit` hears, so it is not written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka

from notleader.recorders.lines import Consumed, Lines, id_in, key_hash, named, now_us, returned

# librdkafka's own errors of records that it never put into a request.
_NEVER_SENT = (
    confluent_kafka.KafkaError._PURGE_QUEUE,
    confluent_kafka.KafkaError._UNKNOWN_PARTITION,
    confluent_kafka.KafkaError._UNKNOWN_TOPIC,
)


def recorded(
    client: Any,
    file: str | Path,
    *,
    name: str | None = None,
    budget_ms: int | None = None,
    group_id: str | None = None,
) -> Any:
    """`client` with its operations appended to `file`; `name` is what reports call it (default: the file's stem).

    `budget_ms` is how long a send may take before it counts as late; `group_id` (a consumer doesn't tell its own) makes
    the members of a group one reader. OSError when `file` can't be written.
    """
    name = name or Path(file).stem
    version = f"confluent-kafka {confluent_kafka.__version__}"
    if isinstance(client, confluent_kafka.Producer):
        return RecordedProducer(client, Lines(file, name, version, budget_ms=budget_ms))
    if isinstance(client, confluent_kafka.Consumer):
        return RecordedConsumer(client, Lines(file, name, version, group_id=group_id))
    raise TypeError(f"neither a Producer nor a Consumer: {type(client).__name__}")


class _Recorded:
    def __init__(self, client: Any, lines: Lines) -> None:
        self._client, self._lines = client, lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class RecordedProducer(_Recorded):
    """A Producer that writes down each produce."""

    def __len__(self) -> int:
        return len(self._client)

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Callable[[Any, Any], None] | None = None,
        on_delivery: Callable[[Any, Any], None] | None = None,
        timestamp: int = 0,
        headers: Mapping[str, Any] | list[tuple[str, Any]] | None = None,
    ) -> None:
        """As Producer.produce; the id goes into the record's headers unless one is there."""
        pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
        message_id, pairs = named(self._lines, pairs)
        line = self._lines.called(
            "send",
            message_id=message_id,
            topic=topic,
            partition=partition if partition >= 0 else None,
            key_hash=key_hash(key),
        )
        tell = on_delivery or callback

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self._lines.ok(line, message.offset(), partition=message.partition())
            elif error.code() in _NEVER_SENT:
                self._lines.unsent(line, error)
            else:
                self._lines.failed(line, error)
            if tell is not None:
                tell(error, message)

        try:
            self._client.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                on_delivery=delivered,
                timestamp=timestamp,
                headers=pairs,
            )
        except Exception as error:
            returned(line)
            self._lines.unsent(line, error)
            raise
        returned(line)


class RecordedConsumer(_Recorded):
    """A Consumer that writes down each record it hands out, each synchronous commit, and where it is moved to."""

    def __init__(self, client: Any, lines: Lines) -> None:
        super().__init__(client, lines)
        self._consumed = Consumed(lines)

    def seek(self, partition: Any) -> None:
        """As Consumer.seek."""
        # Below 0 are names: the beginning, the end, the committed one.
        at = partition.offset if partition.offset >= 0 else None
        self._lines.sought([(partition.topic, partition.partition)], at)
        self._client.seek(partition)

    def assign(self, partitions: Any) -> None:
        """As Consumer.assign."""
        self._placed(partitions)
        self._client.assign(partitions)

    def incremental_assign(self, partitions: Any) -> None:
        """As Consumer.incremental_assign."""
        self._placed(partitions)
        self._client.incremental_assign(partitions)

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        """As Consumer.poll."""
        message = self._client.poll(*args, **kwargs)
        if message is not None:
            self._got([message])
        return message

    def consume(self, *args: Any, **kwargs: Any) -> Any:
        """As Consumer.consume."""
        messages = self._client.consume(*args, **kwargs)
        self._got(messages)
        return messages

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        """As Consumer.commit; what was committed is what it returns, with the error of each partition."""
        called_at_us = now_us()
        try:
            places = self._client.commit(*args, **kwargs)
        except confluent_kafka.KafkaException as error:
            said = error.args[0]
            nothing = said.code() == confluent_kafka.KafkaError._NO_OFFSET
            for (topic, partition), at in ({} if nothing else self._meant(*args, **kwargs)).items():
                line = self._lines.line("commit", called_at_us, topic=topic, partition=partition, offset=at)
                returned(line)
                self._lines.failed(line, said)
            raise
        for place in places or ():
            # Of what was not read on there since, nothing is committed, and it has no offset.
            if place.error is None and place.offset < 0:
                continue
            line = self._lines.line(
                "commit", called_at_us, topic=place.topic, partition=place.partition, offset=place.offset
            )
            returned(line)
            if place.error is None:
                self._lines.ok(line)
            else:
                self._lines.failed(line, place.error)
        return places

    def _meant(self, message: Any = None, offsets: Any = None, *_: Any, **__: Any) -> dict[tuple[str, int], int]:
        """The places that a commit with these arguments is about, each with the offset to be kept."""
        if message is not None:
            return {(message.topic(), message.partition()): message.offset() + 1}
        if offsets is not None:
            return {(place.topic, place.partition): place.offset for place in offsets}
        return self._consumed.reached({(place.topic, place.partition) for place in self._client.assignment()})

    def _placed(self, partitions: Iterable[Any]) -> None:
        # Without an offset, or with the committed one, a consumer goes on where it was: it is not moved.
        for partition in partitions:
            if partition.offset >= 0:
                self._lines.sought([(partition.topic, partition.partition)], partition.offset)
            elif partition.offset in (confluent_kafka.OFFSET_BEGINNING, confluent_kafka.OFFSET_END):
                self._lines.sought([(partition.topic, partition.partition)])

    def _got(self, messages: Iterable[Any]) -> None:
        self._consumed.handed_out(
            {
                "message_id": id_in(message.headers()),
                "topic": message.topic(),
                "partition": message.partition(),
                "offset": message.offset(),
            }
            for message in messages
            if message.error() is None
        )
