"""Records that grow a thousandfold when decompressed, beside a client that wants answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from struct import pack, unpack
from typing import Any

import cramjam
import pytest

from notleader.proxy import Proxy
from notleader.proxy.capture.reading import Capture
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.wire import records
from notleader.proxy.wire.names import ApiKey
from tests.proxy.session.conversation import request

pytestmark = pytest.mark.kafka

_SMALL = b"\x0c\x00\x00\x00\x01\x00\x00"  # a record of nothing
_GROWN = 32 << 20
CODECS: dict[str, tuple[int, Callable[[bytes], Any]]] = {
    "gzip": (1, cramjam.gzip.compress),
    "snappy": (2, cramjam.snappy.compress_raw),
    "lz4": (3, cramjam.lz4.compress),
    "zstd": (4, cramjam.zstd.compress),
}


def bomb(codec: int, content: bytes, count: int) -> bytes:
    """A batch of format v2 whose content is compressed already; its CRC is none, so a broker won't look inside."""
    rest = pack(">ibIhiqqqhii", -1, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count)
    return pack(">qi", 0, len(rest) + len(content)) + rest + content


def produce(number: int, batch: bytes) -> bytes:
    parts = [{"name": "nowhere", "partition_data": [{"index": 0, "records": batch}]}]
    return request(ApiKey.Produce, 9, number, {"acks": -1, "timeout_ms": 1000, "topic_data": parts}, client_id="bomber")


async def answer(reader: asyncio.StreamReader) -> bytes:
    (size,) = unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def test_a_bomb_is_read_beside_the_loop_and_within_bounds(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[int, int]] = []
    really = records.decompress

    def noted(*arguments: Any, **named: Any) -> bytes:
        assert threading.current_thread() is not threading.main_thread(), "decompressed on the loop"
        content = really(*arguments, **named)
        done.append((len(arguments[1]), len(content)))
        return content

    monkeypatch.setattr(records, "decompress", noted)
    proxy = Proxy.in_front_of(kafka.bootstrap, capture=str(tmp_path), capture_level="record")
    await proxy.start()
    try:
        bomber_reads, bomber = await asyncio.open_connection(*proxy.listen)
        other_reads, other = await asyncio.open_connection(*proxy.listen)
        answered = 0
        for codec, compress in CODECS.values():
            for content, count in ((bytes(_GROWN), 1), (_SMALL * (_GROWN // len(_SMALL)), _GROWN // len(_SMALL))):
                squeezed = bytes(await asyncio.to_thread(compress, content))
                bomber.write(produce(codec, bomb(codec, squeezed, count)))
                # An honest one of the same client, while the bomb is read.
                bomber.write(produce(9, bomb(0, _SMALL, 1)))
                for number in range(20):
                    other.write(request(ApiKey.ApiVersions, 0, number))
                    assert (await answer(other_reads))[:4] == pack(">i", number)
                    answered += 1
                for _ in range(2):
                    await answer(bomber_reads)
        assert answered == 160
        for writer in (bomber, other):
            writer.close()
    finally:
        await proxy.stop()
    for sent, grown in done:
        assert grown <= min(16 << 20, (4 << 20) + 64 * sent)
    rows = [row for row in Capture(str(tmp_path)).rows() if row["api_name"] == "Produce"]
    assert [row["partitions"][0]["compression"] for row in rows] == [
        name for codec in CODECS for name in (codec, "none", codec, "none")
    ]
    for row in rows:
        (part,) = row["partitions"]
        if part["compression"] == "none":
            assert part["message_ids"] == [None]
        else:
            assert part["message_ids"] is None
            assert part["record_count"] in (1, _GROWN // len(_SMALL))
            assert row["detail"].startswith("records not read: ")
