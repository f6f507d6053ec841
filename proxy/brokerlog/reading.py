"""Read topics from their logs' starts to the ends they have now, from each partition's leader, past every proxy."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from notleader.proxy.brokerlog.connection import Access, BrokerError, Connection
from notleader.proxy.brokerlog.rows import taken
from notleader.proxy.config.settings import Settings
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import ApiKey, ErrorCode, error_text

if TYPE_CHECKING:
    from notleader.proxy.brokerlog.schema import PartitionFile  # loads Arrow, which comes with the extra `capture`

# From these on partitions have no names, or what is asked here has another shape.
_METADATA, _LIST_OFFSETS, _FETCH, _DESCRIBE_CONFIGS = 12, 5, 12, 3
_NO_CREATION: Final = 4  # from here on Metadata can be asked without creating the topic
_EARLIEST, _LATEST = -2, -1
_TOPIC_RESOURCE: Final = 2
_CONFIGS: Final = ("cleanup.policy", "delete.retention.ms")
_FETCH_BYTES: Final = 8 << 20
_PARTITION_BYTES: Final = 1 << 20
_LARGEST_PARTITION_BYTES: Final = 128 << 20
_PAUSE_S: Final = 0.2
_AT_ONCE: Final = 200  # each has a file open
_RETRIED: Final = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    )
)

Progress = Callable[[int, int], None]
"""Told how many offsets were passed, and how many there are."""


class LogError(Exception):
    """Nothing can be read: no broker answers, or a topic that was named isn't there."""


@dataclass(slots=True)
class PartitionRead:
    """What came of one partition: offsets, how many rows of each kind, and what could not be read."""

    topic: str
    partition: int
    topic_id: str | None = None
    cleanup_policy: str | None = None
    delete_retention_ms: int | None = None
    start: int | None = None
    end: int | None = None
    last_stable: int | None = None
    records: int = 0
    control: int = 0
    transactions: dict[str, int] = field(default_factory=dict)
    read_at_us: int | None = None
    """When it was asked where the log ends: of what was sent later it says nothing."""
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As `log read --json` has it."""
        return {
            "partition": self.partition,
            "log_start_offset": self.start,
            "log_end_offset": self.end,
            "records": self.records,
            "control_records": self.control,
            "in_transactions": self.transactions,
            "problem": self.problem or None,
        }


def read_log(
    kafka: Sequence[Endpoint] | str,
    topics: Iterable[str],
    out: Path,
    *,
    settings: Settings | None = None,
    run_id: str | None = None,
    value_is_id: bool = False,
    missing_ok: bool = False,
    timeout_s: float = 30.0,
    progress: Progress = lambda _done, _all: None,
) -> list[PartitionRead]:
    """Read every record of `topics` (names or globs) that is in the log now, into one Parquet file a partition.

    `settings` say how brokers are reached (TLS, SASL); `run_id` is written into each row, for an analysis of several
    runs with clusters of their own. With `value_is_id` a record without the header `notleader-id` has its value for
    an id. A partition that makes no progress for `timeout_s` is given up, which its result and its row say. Raises
    LogError, unless `missing_ok`, for a topic that isn't there, and always where no broker answers.
    """
    given = Settings.model_validate({"kafka": kafka}) if settings is None else settings
    reader = _Reader(given, timeout_s)
    try:
        wanted = reader.partitions(list(topics), missing_ok)
        out.mkdir(parents=True, exist_ok=True)
        configs = reader.configs(sorted({one.topic for one in wanted}))
        for one in wanted:
            config = configs.get(one.topic, {})
            one.cleanup_policy = config.get("cleanup.policy")
            retention_ms = config.get("delete.retention.ms")
            one.delete_retention_ms = int(retention_ms) if retention_ms else None
        reader.read(wanted, out, run_id, value_is_id, progress)
    finally:
        reader.close()
    return wanted


def list_topics(settings: Settings, *, timeout_s: float) -> list[str]:
    """The names of the user's topics, in order. Raises LogError where no broker answers."""
    reader = _Reader(settings, timeout_s)
    try:
        return reader.topics()
    finally:
        reader.close()


class _Growing:
    """A partition that is being read: where it is, how much it is asked for, and when it last got on."""

    file: PartitionFile

    def __init__(self, read: PartitionRead) -> None:
        self.read = read
        self.position = 0
        self.max_bytes = _PARTITION_BYTES
        self.moved_at = time.monotonic()
        self.last_word = ""
        self.is_refused = False
        self.is_over = False

    def move(self, position: int) -> None:
        if position > self.position:
            self.position, self.moved_at, self.last_word = position, time.monotonic(), ""


class _Reader:
    """The connections to a cluster, by address, and who leads what."""

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        self._bootstrap = list(settings.kafka)
        self._access = Access(settings)
        self._timeout_s = timeout_s
        self._open: dict[Endpoint, Connection] = {}
        self._brokers: dict[int, Endpoint] = {}
        self._leaders: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    # ---- what there is --------------------------------------------------------------------------

    def partitions(self, topics: list[str], missing_ok: bool) -> list[PartitionRead]:
        """Every partition of the topics, in order."""
        globs = any(set(topic) & set("*?[") for topic in topics)
        listed = {topic["name"]: topic for topic in self._metadata(None if globs else topics)["topics"]}
        there = {name: topic for name, topic in listed.items() if not topic["error_code"]}
        chosen: list[str] = []
        for topic in topics:
            found = [topic] if topic in there else sorted(fnmatch.filter(there, topic))
            # A pattern means topics of the user's, not Kafka's own.
            found = [name for name in found if name == topic or not there[name]["is_internal"]]
            if not found and not missing_ok:
                code = listed.get(topic, {}).get("error_code") or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise LogError(f"topic {topic!r} can't be read at {self._bootstrap[0]}: {error_text(code)}")
            chosen += [name for name in found if name not in chosen]
        return [
            PartitionRead(name, index, topic_id=_id_text(there[name].get("topic_id")))
            for name in chosen
            for index in sorted(partition["partition_index"] for partition in there[name]["partitions"])
        ]

    def topics(self) -> list[str]:
        """Every topic that is no internal one of Kafka's."""
        return sorted(topic["name"] for topic in self._metadata(None)["topics"] if not topic["is_internal"])

    def configs(self, topics: list[str]) -> dict[str, dict[str, str]]:
        """How each topic is cleaned up, of those of which the broker tells it."""
        connection = self._any()
        version = connection.version(ApiKey.DescribeConfigs, _DESCRIBE_CONFIGS)
        if version is None or not topics:
            return {}
        resources = [
            {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": list(_CONFIGS)}
            for topic in topics
        ]
        try:
            answer = connection.ask(ApiKey.DescribeConfigs, version, {"resources": resources})
        except BrokerError:
            self._forget(connection)
            return {}
        return {
            result["resource_name"]: {config["name"]: config["value"] for config in result["configs"]}
            for result in answer["results"]
            if not result["error_code"]
        }

    def _metadata(self, topics: Iterable[str] | None) -> Body:
        """What the cluster says of topics, leaders learnt by the way. Raises LogError when no broker answers."""
        reasons: list[str] = []
        for endpoint in dict.fromkeys([*self._bootstrap, *self._brokers.values()]):
            try:
                connection = self._to(endpoint)
                version = connection.version(ApiKey.Metadata, _METADATA)
                if version is None:
                    raise BrokerError(f"{endpoint}: it knows no version of Metadata that we know")
                # An older version would create a topic that isn't there: then all are asked for.
                names = None if topics is None or version < _NO_CREATION else [{"name": name} for name in topics]
                body: Body = {"topics": names if version else names or []}
                if version >= _NO_CREATION:
                    body["allow_auto_topic_creation"] = False
                answer = connection.ask(ApiKey.Metadata, version, body)
            except BrokerError as error:
                self._drop(endpoint)
                reasons.append(str(error))
                continue
            self._learn(answer)
            return answer
        raise LogError("; ".join(reasons))

    def _learn(self, answer: Body) -> None:
        self._brokers = {each["node_id"]: Endpoint(each["host"], each["port"]) for each in answer["brokers"]}
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                self._leaders[topic["name"], partition["partition_index"]] = partition["leader_id"]

    # ---- reading --------------------------------------------------------------------------------

    def read(
        self, wanted: list[PartitionRead], out: Path, run_id: str | None, value_is_id: bool, progress: Progress
    ) -> None:
        """Find where each partition begins and ends now, then read it to there."""
        growing = [_Growing(one) for one in wanted]
        self._until_over(growing, self._bounds)
        total = sum((one.read.end or 0) - (one.read.start or 0) for one in growing)

        def fetch(leader: int, some: list[_Growing]) -> None:
            self._fetch(leader, some, value_is_id)
            progress(sum(one.position - (one.read.start or 0) for one in growing), total)

        from notleader.proxy.brokerlog.schema import PartitionFile

        for start in range(0, len(growing), _AT_ONCE):
            some = growing[start : start + _AT_ONCE]
            try:
                for one in some:
                    one.is_over = bool(one.read.problem) or one.position >= (one.read.end or 0)
                    one.file = PartitionFile(out, one.read.topic, one.read.partition, run_id)
                self._until_over(some, fetch)
                for one in some:
                    one.read.transactions = one.file.finish(_own_row(one))
            except BaseException:
                for one in some:
                    one.file.discard()
                raise

    def _until_over(self, growing: list[_Growing], work: Callable[[int, list[_Growing]], None]) -> None:
        """Have `work` done at each leader for its partitions until each is over, or got on no more for too long."""
        now = time.monotonic()
        for one in growing:
            one.moved_at = now
        while open_ := [one for one in growing if not one.is_over]:
            stuck = False
            by_leader: dict[int, list[_Growing]] = {}
            for one in open_:
                by_leader.setdefault(self._leaders.get((one.read.topic, one.read.partition), -1), []).append(one)
            for leader, some in by_leader.items():
                before = [one.position for one in some]
                if leader < 0:
                    _say(some, "it has no leader")
                else:
                    try:
                        work(leader, some)
                    except BrokerError as error:
                        self._drop(self._brokers.get(leader))
                        _say(some, str(error))
                stuck |= any(one.last_word and one.position == was for one, was in zip(some, before, strict=True))
            for one in open_:
                if not one.is_over and one.last_word and time.monotonic() - one.moved_at >= self._timeout_s:
                    one.read.problem, one.is_over = one.last_word, True
            if stuck and not all(one.is_over for one in open_):
                time.sleep(_PAUSE_S)
                self._metadata({one.read.topic for one in open_})

    def _bounds(self, leader: int, some: list[_Growing]) -> None:
        """Ask where the partitions begin and end; a consumer's end, so what is not replicated yet is not in it."""
        connection = self._leader(leader)
        version = connection.version(ApiKey.ListOffsets, _LIST_OFFSETS)
        if not version:
            raise BrokerError(f"{self._brokers[leader]}: it knows no ListOffsets from version 1 on")
        asked_at_us = time.time_ns() // 1000
        found: dict[int, dict[tuple[str, int], Body]] = {}
        for timestamp in (_EARLIEST, _LATEST):
            topics: list[Body] = [
                {"name": topic, "partitions": [{"partition_index": index, "timestamp": timestamp} for index in indexes]}
                for topic, indexes in _by_topic(some)
            ]
            answer = connection.ask(
                ApiKey.ListOffsets, version, {"replica_id": -1, "isolation_level": 0, "topics": topics}
            )
            found[timestamp] = {
                (topic["name"], partition["partition_index"]): partition
                for topic in answer["topics"]
                for partition in topic["partitions"]
            }
        for one in some:
            place = one.read.topic, one.read.partition
            first, last = found[_EARLIEST][place], found[_LATEST][place]
            if code := first["error_code"] or last["error_code"]:
                _refused(one, code)
            else:
                one.read.start, one.read.end, one.read.read_at_us = first["offset"], last["offset"], asked_at_us
                one.position, one.is_over, one.last_word = first["offset"], True, ""

    def _fetch(self, leader: int, some: list[_Growing], value_is_id: bool) -> None:
        connection = self._leader(leader)
        version = connection.version(ApiKey.Fetch, _FETCH)
        if version is None:
            raise BrokerError(f"{self._brokers[leader]}: it knows no Fetch up to version {_FETCH}")
        by_place = {(one.read.topic, one.read.partition): one for one in some}
        topics = [
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": index,
                        "fetch_offset": by_place[topic, index].position,
                        "partition_max_bytes": by_place[topic, index].max_bytes,
                    }
                    for index in indexes
                ],
            }
            for topic, indexes in _by_topic(some)
        ]
        # Uncommitted: what a transaction wrote is in the log from the first byte on, and aborted records stay there.
        body = {
            "replica_id": -1,
            "max_wait_ms": 200,
            "min_bytes": 1,
            "max_bytes": max(_FETCH_BYTES, *(one.max_bytes for one in some)),
            "isolation_level": 0,
            "topics": topics,
        }
        answer = connection.ask(ApiKey.Fetch, version, body)
        if code := answer.get("error_code"):
            raise BrokerError(f"{self._brokers[leader]}: Fetch was answered {error_text(code)}")
        before = [one.position for one in some]
        for topic in answer["responses"]:
            for partition in topic["partitions"]:
                one = by_place.get((topic["topic"], partition["partition_index"]))
                if one is not None:
                    _take(one, partition, value_is_id)
        if any(one.position > was for one, was in zip(some, before, strict=True)):
            # Some fill an answer, and the others wait for the next one: that is no standstill.
            for one in some:
                if not one.is_refused:
                    one.moved_at, one.last_word = time.monotonic(), ""

    def _leader(self, node_id: int) -> Connection:
        endpoint = self._brokers.get(node_id)
        if endpoint is None:
            raise BrokerError(f"its leader is broker {node_id}, of which nobody knows the address")
        return self._to(endpoint)

    def _to(self, endpoint: Endpoint) -> Connection:
        if endpoint not in self._open:
            self._open[endpoint] = self._access.open(endpoint)
        return self._open[endpoint]

    def _any(self) -> Connection:
        return next(iter(self._open.values()))

    def _forget(self, connection: Connection) -> None:
        self._drop(next((endpoint for endpoint, each in self._open.items() if each is connection), None))

    def _drop(self, endpoint: Endpoint | None) -> None:
        connection = self._open.pop(endpoint, None) if endpoint is not None else None
        if connection is not None:
            connection.close()


def _take(one: _Growing, partition: Body, value_is_id: bool) -> None:
    """What a Fetch answer says of one partition."""
    read = one.read
    if code := partition["error_code"]:
        _refused(one, code)
        return
    one.is_refused = False
    end = read.end or 0
    stable = partition.get("last_stable_offset", -1)
    read.last_stable = stable if stable >= 0 else read.last_stable
    try:
        got = taken(partition["records"] or b"", one.position, end, value_is_id=value_is_id)
    except WireError as error:
        read.problem, one.is_over = f"at offset {one.position}: {error.reason}", True
        return
    for row in got.rows:
        one.file.add(row)
        read.records += row["event"] == "record"
        read.control += row["event"] == "control"
        if row["event"] == "unread":
            read.problem = f"offsets {row['offset']} to {row['last_offset']}: {row['problem']}"
    one.move(got.next_offset)
    one.is_over = one.position >= end
    if not got.batches:
        if partition["records"]:
            one.max_bytes = min(2 * one.max_bytes, _LARGEST_PARTITION_BYTES)
        _say([one], f"nothing comes from offset {one.position} on, though the log ends at {end}")


def _refused(one: _Growing, code: int) -> None:
    one.is_refused = True
    if code in _RETRIED:
        _say([one], f"the broker answers {error_text(code)}")
        return
    one.read.problem, one.is_over = f"the broker answers {error_text(code)}", True


def _say(some: Iterable[_Growing], word: str) -> None:
    for one in some:
        one.last_word = word


def _by_topic(some: Iterable[_Growing]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for one in some:
        topics.setdefault(one.read.topic, []).append(one.read.partition)
    return list(topics.items())


def _own_row(one: _Growing) -> dict[str, Any]:
    """The row of a partition; `offset` is how far it was read."""
    read = one.read
    return {
        "topic_id": read.topic_id,
        "offset": one.position if read.end is not None else None,
        "log_start_offset": read.start,
        "log_end_offset": read.end,
        "last_stable_offset": read.last_stable,
        "cleanup_policy": read.cleanup_policy,
        "delete_retention_ms": read.delete_retention_ms,
        "read_at_us": read.read_at_us,
        "problem": read.problem or None,
    }


def _id_text(topic_id: Any) -> str | None:
    return str(topic_id) if topic_id is not None and topic_id.int else None
