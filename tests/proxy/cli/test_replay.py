"""`notleader replay` and `capture to-requests` on folders that were recorded, and on those that can't be used."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from notleader.proxy.capture.reading import Capture
from notleader.proxy.cli import replay as command
from notleader.proxy.cli.app import app
from notleader.proxy.cli.replay import _summary, _warn
from notleader.proxy.record.rows import Level
from notleader.proxy.recorder.schema import EXCHANGE
from notleader.proxy.replay.recording import Recording
from notleader.proxy.replay.stand_in import StandIn
from notleader.proxy.wire.enums import ApiKey
from tests.proxy.record.bench import Bench
from tests.proxy.record.entries import METADATA
from tests.proxy.replay.made import Client, Row, batch, metadata, produced, row


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(autouse=True)
def _no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log stays pytest's."""
    monkeypatch.setattr(command, "log_to", lambda *_: None)


def recorded(folder: Path, *rows: Row) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=EXCHANGE), folder / "date=2026-03-01.parquet")
    return str(folder)


BARE = {"request_frame": None, "response_frame": None}


@pytest.mark.parametrize("as_json", [False, True])
def test_a_capture_without_frames_is_refused_with_how_to_record_them(tmp_path: Path, as_json: bool) -> None:
    where = recorded(tmp_path / "traffic", metadata(0, "orders") | BARE)
    done = run("replay", where, *["--json"] * as_json)
    assert done.exit_code == 2
    assert "none of the 1 exchanges" in done.stderr
    assert "--capture-level payload" in done.stderr
    assert (json.loads(done.stdout)["error"] in done.stderr) if as_json else not done.stdout


def test_a_capture_of_a_lower_level_is_refused_before_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: Any, **__: Any) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setitem(METADATA, "notleader.level", Level.PARTITION)
    bench = Bench(tmp_path, level=Level.PARTITION)
    bench.write([1])
    bench.rotate()
    bench.write([2])
    monkeypatch.setattr(Capture, "rows", unread)
    try:
        done = run("replay", str(tmp_path))
    finally:
        bench.close()
    assert done.exit_code == 2
    assert "no exchange at" in done.stderr
    assert "--capture-level payload" in done.stderr


def test_a_growing_journal_with_frames_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METADATA, "notleader.level", Level.PAYLOAD)
    bench = Bench(tmp_path, level=Level.PAYLOAD)
    bench.write([1])
    assert Capture(str(tmp_path)).may_have_frames()
    bench.close()
    assert Capture(str(tmp_path)).may_have_frames()


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    assert "there is nothing at" in run("replay", str(tmp_path / "none")).stderr
    assert run("replay", str(tmp_path)).exit_code == 2
    (tmp_path / "notes.parquet").write_text("no Parquet")
    done = run("replay", str(tmp_path))
    assert done.exit_code == 2
    assert "can't be read" in done.stderr


def test_wrong_use_is_told(tmp_path: Path) -> None:
    where = recorded(tmp_path / "traffic", metadata(0, "orders"))
    assert run("replay").exit_code == 2
    assert run("replay", where, "--kafka", "localhost:9092").exit_code == 2
    done = run("replay", where, "--listen", "localhost")
    assert (done.exit_code, "HOST:PORT" in done.stderr) == (2, True)


def test_the_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notleader.proxy.config.extras.find_spec", lambda _: None)
    done = run("replay", str(tmp_path))
    assert (done.exit_code, done.stderr) == (2, "notleader replay needs Arrow: pip install 'notleader[capture]'\n")


def test_what_can_not_be_replayed_as_it_was_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    hidden = row(0, ApiKey.Heartbeat, 0, {"group_id": "***"}, {"error_code": 0})
    login = row(1, ApiKey.SaslAuthenticate, 0, {"auth_bytes": b""}, {}) | BARE
    damaged = produced(2, batch(b"value")[:-2] + b"**", 0)
    gap = {**metadata(3, "orders"), "event": "gap"}
    with caplog.at_level(logging.WARNING, "notleader"):
        _warn(Client(hidden, login, damaged, gap, metadata(4, "orders") | BARE).recording)
    said = " | ".join(caplog.messages)
    for words in ("without answers: 1", "1 gaps", "names of groups", "don't match their checksum", "let in by any"):
        assert words in said
    caplog.clear()
    _warn(Client(metadata(0, "orders")).recording)
    assert not caplog.messages


def test_the_summary_counts_answers_by_where_they_come_from() -> None:
    client = Client(produced(1, batch(b"a"), 0))
    for _ in range(2):
        client.produce()
    client.produce(batch(b"a"), 5)
    assert _summary(client.stand_in) == "3 requests, 1 as recorded, 1 repeated, 1 from nothing"


def test_the_environment_of_a_proxy_is_none_of_its_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NOTLEADER_CAPTURE and the like are set where proxies run."""
    seen: list[Any] = []

    async def served(recording: Recording, stand_in: StandIn, settings: Any, as_json: bool) -> None:
        seen.append((settings.capture, settings.admin, str(settings.listen), settings.broker_ports))

    monkeypatch.setattr(command, "_serve", served)
    monkeypatch.setenv("NOTLEADER_CAPTURE", str(tmp_path / "elsewhere"))
    where = recorded(tmp_path / "traffic", metadata(0, "orders"))
    done = run("replay", where, "--listen", "localhost:19092", "--broker-ports", "19100")
    assert done.exit_code == 0, done.output
    assert seen == [(None, None, "localhost:19092", [19100])]


def test_requests_are_written_and_counted(tmp_path: Path) -> None:
    where = recorded(tmp_path / "traffic", metadata(0, "orders"), produced(5, batch(b"a"), 0), metadata(7, "x") | BARE)
    file = tmp_path / "sent.jsonl"
    done = run("capture", "to-requests", where, str(file), "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"file": str(file), "requests": 2, "without_frames": 1})
    only = run("capture", "to-requests", where, "-", "api == Produce")
    assert [json.loads(line)["api"] for line in only.stdout.splitlines()] == ["Produce"]


def test_requests_that_are_not_there_are_exit_1_and_no_file(tmp_path: Path) -> None:
    where = recorded(tmp_path / "traffic", metadata(0, "orders") | BARE)
    file = tmp_path / "sent.jsonl"
    done = run("capture", "to-requests", where, str(file))
    assert (done.exit_code, "--capture-level payload" in done.stderr) == (1, True)
    assert run("capture", "to-requests", where, str(file), "api == Fetch").exit_code == 1
    assert run("capture", "to-requests", where, str(file), "api ==").exit_code == 2
    assert not list(tmp_path.glob("sent*"))
