"""What Prometheus is told after real traffic with a fault: every family that the issue of the day may need."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.admin.conftest import Controlled, serve_controls

Samples = dict[tuple[str, frozenset[str]], float]


async def scrape(controlled: Controlled) -> Samples:
    """Every sample by its name and the values of its labels."""
    async with httpx.AsyncClient(base_url=controlled.url, trust_env=False) as api:
        text = (await api.get("/metrics")).text
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.kafka
async def test_requests_errors_faults_latency_and_capture_are_counted(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("metered")
    async with serve_controls(kafka.bootstrap) as controlled:
        proxy = controlled.proxy
        await proxy.start_capture(str(tmp_path / "capture"), "partition")
        proxy.add_fault(
            name="refused",
            kind="error",
            error_code="NOT_LEADER_OR_FOLLOWER",
            match={"api_key": "Produce"},
            trigger={"times": 3},
        )
        producer = AIOKafkaProducer(bootstrap_servers=proxy.bootstrap, retry_backoff_ms=20)
        await producer.start()
        try:
            await producer.send_and_wait("metered", b"1", partition=0)
        finally:
            await producer.stop()
        refusals = ("notleader_error_responses_total", frozenset({"Produce", "NOT_LEADER_OR_FOLLOWER"}))
        written = ("notleader_capture_written_rows_total", frozenset[str]())
        async with asyncio.timeout(120):  # the recorder's thread counts errors, and writes, a little later
            while (found := await scrape(controlled)).get(refusals, 0) < 3 or found[written] < 5:
                await asyncio.sleep(0.1)
        produce = frozenset({"Produce"})
        assert found[refusals] == 3
        assert found["notleader_injected_faults_total", frozenset({"refused", "error", "before_broker"})] == 3
        assert found["notleader_requests_total", produce] == 4
        assert found["notleader_exchange_duration_seconds_count", produce] == 4
        assert found["notleader_exchange_duration_seconds_sum", produce] > 0
        assert found["notleader_capture_lost_rows_total", frozenset()] == 0
        assert found["notleader_event_loop_lag_samples_total", frozenset()] > 0
        assert found["process_resident_memory_bytes", frozenset()] > 10 << 20


@pytest.mark.kafka
async def test_an_injected_error_is_counted_when_nobody_records(kafka: KafkaCluster) -> None:
    kafka.create_topic("unrecorded")
    async with serve_controls(kafka.bootstrap) as controlled:
        refusal = {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": {"api_key": "Produce"}}
        controlled.proxy.add_fault(**refusal)
        producer = AIOKafkaProducer(bootstrap_servers=controlled.proxy.bootstrap, retry_backoff_ms=20)
        await producer.start()
        try:
            await producer.send_and_wait("unrecorded", b"1", partition=0)
        finally:
            await producer.stop()
        found = await scrape(controlled)
        assert found["notleader_error_responses_total", frozenset({"Produce", "NOT_LEADER_OR_FOLLOWER"})] == 1
