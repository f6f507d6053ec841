"""The tables of `capture stats` say what they count."""

from __future__ import annotations

import pytest

from notleader.proxy.capture import tables
from notleader.proxy.capture.stats import Statistics
from notleader.proxy.record.rows import COLUMNS
from notleader.proxy.wire.names import ApiKey


def test_what_one_member_asks_often_is_one_client_s_calls(capsys: pytest.CaptureFixture[str]) -> None:
    heartbeat = {"event": "exchange", "client_id": "rdkafka", "api_name": "Heartbeat", "api_key": ApiKey.Heartbeat}
    counts = {"group_id": "g", "outcome": "answered", "request_at_us": 1, "request_bytes": 9}
    stats = Statistics()
    stats.add_all([dict.fromkeys(COLUMNS) | heartbeat | counts] * 5)
    tables.print_statistics(stats.document())
    head, line = capsys.readouterr().out.splitlines()[-2:]
    assert head.split("\t")[-1] == "CALLS BY"
    assert line.split("\t")[-1] == "rdkafka x5"
