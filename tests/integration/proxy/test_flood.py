"""A client that asks and asks, reads nothing and leaves: what it costs the others, and what is recorded of it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.pump.flags import MOST_OPEN
from notleader.proxy.wire.names import ApiKey
from tests.integration.proxy.conftest import ProxyFor, told
from tests.integration.proxy.test_effects import Client, add, remove
from tests.proxy.session.conversation import request

pytestmark = pytest.mark.kafka

ASKED = 200_000
READ_BYTES = 256 << 10  # what uvloop reads at once


async def test_requests_of_a_client_that_gets_no_answers_stay_where_they_are(
    kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    """Taken in are about `MOST_OPEN`, each has a row, and others are served when it leaves."""
    frame = request(ApiKey.Heartbeat, 0, 1, {"group_id": "none", "generation_id": 1, "member_id": "m"}, "flooder")
    async with proxy_for(kafka.bootstrap, capture=str(tmp_path / "capture")) as proxy:
        await add(proxy, name="silent", kind="stall", match={"client_id": "flooder"}, trigger={"times": 1})
        other = Client(*await asyncio.open_connection(*proxy.listen))
        flooder = socket.create_connection((proxy.listen.host, proxy.listen.port))
        flooder.setblocking(False)
        stream, sent, idle = frame * ASKED, 0, 0
        while sent < len(stream) and idle < 20:
            try:
                sent += flooder.send(stream[sent : sent + (1 << 20)])
                idle = 0
            except BlockingIOError:
                idle += 1
            await asyncio.sleep(0.01)
        at_work = [each for each in (await told(proxy)).connections() if each["client_id"] == "flooder"]
        taken = sum(each["exchanges"] for each in at_work)
        assert MOST_OPEN < taken <= MOST_OPEN + READ_BYTES // len(frame) + 1
        flooder.close()
        await remove(proxy, "silent")
        await other.ask(timeout_s=10)
        other.writer.close()
    columns = ["event", "exchange_seq"]
    of_flooder = ds.field("client_id") == "flooder"
    rows = ds.dataset(tmp_path / "capture", partitioning="hive").to_table(columns, filter=of_flooder).to_pylist()
    seqs = [row["exchange_seq"] for row in rows if row["event"] == "exchange"]
    assert len(seqs) >= taken
    assert sorted(seqs) == list(range(1, len(seqs) + 1))
    assert [row["event"] for row in rows if row["event"] != "exchange"] == ["disconnect"]
