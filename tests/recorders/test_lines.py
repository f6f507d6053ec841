"""The outcome words: `fail` is what surely didn't happen; every timeout and every cut connection is `info`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest
from aiokafka import errors
from aiokafka.structs import RecordMetadata, TopicPartition

from notleader.recorders.aiokafka import RecordedProducer
from notleader.recorders.lines import REFUSED, Consumed, Lines


class Producer:
    """Of a producer what the recorder calls: `send` raises, or gives back a future that ends as it is told to."""

    def __init__(self, raises: BaseException | None = None, told: Any = None, fails: Exception | None = None) -> None:
        self._raises, self._told, self._fails = raises, told, fails

    async def send(self, *_: Any) -> asyncio.Future[Any]:
        if self._raises is not None:
            raise self._raises
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._fails is not None:
            future.set_exception(self._fails)
        else:
            future.set_result(self._told)
        return future


async def last_word(folder: Path, client: Producer) -> dict[str, Any]:
    file = folder / "said.jsonl"
    producer = RecordedProducer(client, Lines(file, "app", "1"))
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await producer.send_and_wait("orders", b"v")
    await asyncio.sleep(0)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["outcome"] for line in lines[:-1]] == ["pending"]
    return lines[-1]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (errors.RequestTimedOutError(), "info"),
        (errors.KafkaTimeoutError(), "info"),
        (errors.KafkaConnectionError("reset"), "info"),
        # It can come after the append.
        (errors.NotLeaderForPartitionError(), "info"),
        (errors.NotEnoughReplicasAfterAppendError(), "info"),
        # An earlier attempt of the same batch may be what the broker remembers.
        (errors.OutOfOrderSequenceNumber(), "info"),
        (errors.MessageSizeTooLargeError(), "fail"),
        (errors.TopicAuthorizationFailedError(), "fail"),
        (RuntimeError("of the application's own"), "info"),
    ],
)
async def test_only_what_surely_kept_a_record_out_is_a_failure(tmp_path: Path, error: Exception, word: str) -> None:
    said = await last_word(tmp_path, Producer(fails=error))
    assert said["outcome"] == word
    assert said["completed_at_us"] >= said["returned_at_us"]


async def test_without_acknowledgements_a_send_completes_when_it_is_sent(tmp_path: Path) -> None:
    said = await last_word(tmp_path, Producer(told=None))
    assert said["outcome"] == "ok"
    assert "offset" not in said


async def test_an_offset_that_nobody_was_told_is_none(tmp_path: Path) -> None:
    place = RecordMetadata("orders", 0, TopicPartition("orders", 0), -1, None, 0, 0)
    said = await last_word(tmp_path, Producer(told=place))
    assert (said["outcome"], said["partition"], "offset" in said) == ("ok", 0, False)


async def test_a_call_that_raises_has_returned_and_sent_nothing(tmp_path: Path) -> None:
    said = await last_word(tmp_path, Producer(raises=errors.KafkaTimeoutError("no metadata")))
    assert said["outcome"] == "fail"
    assert said["called_at_us"] <= said["returned_at_us"] <= said["completed_at_us"]


async def test_a_call_that_was_cancelled_may_have_happened(tmp_path: Path) -> None:
    said = await last_word(tmp_path, Producer(raises=asyncio.CancelledError()))
    assert said["outcome"] == "info"
    assert said["returned_at_us"] is not None


def test_a_commit_that_raises_has_returned(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "said.jsonl", "app", "1")
    consumed = Consumed(lines)
    consumed.settle(consumed.committing({("orders", 0): 5}, lambda: ()), errors.KafkaTimeoutError())
    said = json.loads((tmp_path / "said.jsonl").read_text().splitlines()[-1])
    assert (said["outcome"], said["returned_at_us"] >= said["called_at_us"]) == ("info", True)


def test_a_seek_is_a_line_for_each_place(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "said.jsonl", "app", "1", group_id="g")
    lines.sought([("orders", 0), ("orders", 3)], 7)
    lines.sought([("bills", 1)])
    said = [json.loads(text) for text in (tmp_path / "said.jsonl").read_text().splitlines()]
    places = [(line["topic"], line["partition"], line.get("offset")) for line in said]
    assert places == [("orders", 0, 7), ("orders", 3, 7), ("bills", 1, None)]
    assert {(line["operation"], line["outcome"], line["group_id"]) for line in said} == {("seek", "ok", "g")}
    assert all(line["called_at_us"] == line["completed_at_us"] for line in said)


class Place(NamedTuple):
    """As confluent-kafka's TopicPartition; -1001 is no offset, below 0 are names."""

    topic: str
    partition: int
    offset: int = -1001


def test_who_is_assigned_an_offset_is_moved_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = MagicMock(OFFSET_BEGINNING=-2, OFFSET_END=-1, OFFSET_STORED=-1000, KafkaException=Exception)
    monkeypatch.setitem(sys.modules, "confluent_kafka", library)
    monkeypatch.delitem(sys.modules, "notleader.recorders.confluent_kafka", raising=False)
    recorder = importlib.import_module("notleader.recorders.confluent_kafka")
    monkeypatch.delitem(sys.modules, "notleader.recorders.confluent_kafka")
    client = MagicMock()
    consumer = recorder.RecordedConsumer(client, Lines(tmp_path / "said.jsonl", "app", "1"))
    places = [Place("orders", 0, 30), Place("orders", 1), Place("orders", 2, -2), Place("orders", 3, -1000)]
    consumer.assign(places)
    consumer.incremental_assign([Place("bills", 0, 5)])
    client.assign.assert_called_once_with(places)
    client.incremental_assign.assert_called_once_with([Place("bills", 0, 5)])
    said = [json.loads(text) for text in (tmp_path / "said.jsonl").read_text().splitlines()]
    places_said = [(line["operation"], line["topic"], line["partition"], line.get("offset")) for line in said]
    assert places_said == [("seek", "orders", 0, 30), ("seek", "orders", 2, None), ("seek", "bills", 0, 5)]


def test_the_clients_in_go_know_the_same_codes() -> None:
    text = (Path(__file__).parents[2] / "recorders" / "go" / "ended.go").read_text()
    line = next(line for line in text.splitlines() if line.startswith("var refusedCodes"))
    named = {int(part.split(":")[0]) for part in line.partition("{")[2].rstrip("}").split(",")}
    assert named == REFUSED
