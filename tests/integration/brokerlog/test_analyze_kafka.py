"""`notleader analyze --kafka`: an acknowledgement that a rule made up is a loss, by the broker's own log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.recorders.aiokafka import recorded
from tests.integration.proxy.conftest import ProxyFor

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def analysed(folder: Path, out: str, *log: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "notleader", "analyze", "--json", "--capture", str(folder / "capture")]
    command += ["--outcomes", str(folder / "said.jsonl"), "--out", str(folder / out), *log]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.returncode, json.loads(ran.stdout)


async def test_nobody_read_and_the_log_tells(kafka: KafkaCluster, tmp_path: Path, proxy_for: ProxyFor) -> None:
    kafka.create_topic("settled", partitions=2)
    made_up = {
        "name": "made-up",
        "kind": "error",
        "error_code": "NONE",
        "phase": "before_broker",
        "match": {"api_key": "Produce", "topic": "settled"},
        "trigger": {"skip": 2},
    }
    recording = {"capture": str(tmp_path / "capture"), "capture_level": "record"}
    async with proxy_for(kafka.bootstrap, faults=[made_up], **recording) as proxy:
        producer = AIOKafkaProducer(bootstrap_servers=str(proxy.listen), acks="all")
        async with recorded(producer, str(tmp_path / "said.jsonl")) as client:
            for number in range(6):
                await client.send_and_wait("settled", b"v%d" % number, partition=0)
    code, told = analysed(tmp_path, "by-log", "--kafka", kafka.bootstrap)
    findings = {finding["check"]: finding for finding in told["findings"]}
    assert code == 1
    assert (findings["lost"]["verdict"], findings["lost"]["count"], findings["lost"]["rule"]) == (
        "invalid",
        1,
        "made-up",
    )
    assert told["log"] == {"records": 5, "aborted": 0, "partitions": 2, "problems": []}
    assert {findings[check]["verdict"] for check in ("duplicate", "phantom", "reordered")} == {"valid"}

    # What a rule kept from the broker the capture knows too; all else nobody can tell now.
    _, told = analysed(tmp_path, "by-nobody")
    unsettled = ("duplicate", "phantom", "reordered", "inconsistent_offsets")
    assert {one["verdict"] for one in told["findings"] if one["check"] in unsettled} == {"unknown"}
