"""What the proxy recorded of real clients is played again, twice: the same seed and traffic, the same decisions."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as dataset
import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from tests.faults.replay import Recorded, Replay
from tests.integration.proxy.conftest import ProxyFor
from tests.integration.proxy.test_round_trip import consumed, produced

pytestmark = pytest.mark.kafka


def recorded(folder: Path) -> list[Recorded]:
    """Every exchange that the proxy saw, in the order of the requests."""
    rows = dataset.dataset(folder, format="parquet").to_table().to_pylist()
    seen = [row for row in rows if row["event"] == "exchange" and row["request_frame"]]
    seen.sort(key=lambda row: (row["request_at_us"], row["connection_id"], row["exchange_seq"]))
    return [(row["connection_id"], row["request_frame"], row["response_frame"]) for row in seen]


async def test_a_recorded_session_is_decided_the_same_twice(
    kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    kafka.create_topic("recorded", partitions=3)
    async with proxy_for(kafka.bootstrap, capture=str(tmp_path), capture_level="payload") as proxy:
        await produced(proxy, "recorded", 30, enable_idempotence=True)
        await consumed(proxy, "recorded", 30)
    session = recorded(tmp_path)
    assert len(session) > 50
    first, second, other = (Replay(session, seed) for seed in (7, 7, 8))
    assert first.log == second.log
    assert first.log != other.log
    assert {rule.name for rule in first.plan.rules() if rule.hits} >= {"slow", "late", "refused", "told", "lost"}
