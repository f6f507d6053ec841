"""The bench itself, small: it runs, and load and broker speak what `notleader.proxy.wire` reads."""

import io
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from struct import pack, unpack

import pytest
from rich.console import Console

from benchmarks.proxy import notleader, rounds, turns
from benchmarks.proxy.cache import load_program
from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.workloads import GENERATIONS, chosen
from notleader.proxy.lab.ports import free_ports
from notleader.proxy.recorder.following import Contents
from notleader.proxy.wire.codec import request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, response_body_offset
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.records import iter_batches, iter_records
from notleader.proxy.wire.view import Request
from tests.tools.programs import need


@pytest.fixture(scope="module")
def program() -> Path:
    need("go")
    return load_program()


def ask(port: int, frame: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(pack(">i", len(frame)) + frame)
        reader = client.makefile("rb")
        return reader.read(unpack(">i", reader.read(4))[0])


def test_every_answer_of_the_fake_broker_is_one_that_kafka_could_give(program: Path, tmp_path: Path) -> None:
    with rounds.broker(program, tmp_path) as port:
        for api_key, api_version, body in (
            (ApiKey.ApiVersions, 3, {}),
            (ApiKey.Heartbeat, 4, {}),
            *((ApiKey.Produce, version, {"acks": -1, "topic_data": []}) for version in (3, 7, 9, 12, 13)),
            *((ApiKey.Fetch, version, {"topics": []}) for version in (4, 11, 13, 17)),
            (ApiKey.Metadata, 1, {"topics": []}),
            (ApiKey.Metadata, 9, {"topics": None}),
        ):
            header = encode_request_header(api_key, api_version, 4711, "load-2-3-5000")
            frame = ask(port, header + request_codec(api_key, api_version).encode(body))
            assert unpack(">i", frame[:4]) == (4711,)
            codec = response_codec(api_key, api_version)
            offset = response_body_offset(api_key, api_version, frame)
            told = codec.decode(frame, offset)
            assert codec.encode(told) == frame[offset:]
            if api_key == ApiKey.Fetch:
                assert len(told["responses"][0]["partitions"]) == 2
                records = told["responses"][0]["partitions"][0]["records"]
                assert len(list(iter_batches(records))) == 3
                assert abs(len(records) - 15000) < 300
                assert sum(1 for _ in iter_records(records)) == sum(b.record_count for b in iter_batches(records))
            if api_key == ApiKey.Metadata and api_version == 9:
                assert len(told["topics"]) == 1000


@pytest.mark.parametrize(
    ("workload", "api_key"),
    [
        (["-workload=small"], ApiKey.Heartbeat),
        *((["-workload=produce", f"-version={version}"], ApiKey.Produce) for version in (3, 7, 9, 12, 13)),
        *((["-workload=fetch", f"-version={version}"], ApiKey.Fetch) for version in (4, 11, 13, 17)),
        (["-workload=metadata"], ApiKey.Metadata),
    ],
)
def test_the_load_sends_requests_that_kafka_could_read(program: Path, workload: list[str], api_key: ApiKey) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = f"127.0.0.1:{server.getsockname()[1]}"
        argv = [str(program), "run", f"-target={target}", *workload, "-bytes=4096", "-partitions=2", "-batches=3"]
        load = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as reader:
                connection.settimeout(60)
                asked = Request(reader.read(unpack(">i", reader.read(4))[0]))
                assert asked.header.api_key == ApiKey.ApiVersions
                connection.sendall(pack(">ii", 4, asked.header.correlation_id))
                request = Request(reader.read(unpack(">i", reader.read(4))[0]))
                assert request.header.api_key == api_key
                assert request.codec.encode(request.body) == bytes(request.frame[request.header.body_offset :])
                if api_key in (ApiKey.Produce, ApiKey.Fetch):
                    assert [one.partition_index for one in request.partitions] == [0, 1]
                if api_key == ApiKey.Produce:
                    records = request.partitions[1].fields["records"]
                    assert [batch.record_count for batch in iter_batches(records)] == [4, 4, 4]
                    assert sum(1 for _ in iter_records(records)) == 12
        finally:
            load.kill()
            load.wait()


def test_loads_of_every_generation_are_chosen_by_the_beginning_of_their_names() -> None:
    assert [one.name for one in chosen("one,produce-v7-2-*")] == [
        "one",
        "produce-v7-2-100",
        "produce-v7-2-100-x3",
        "produce-v7-2-16384",
    ]
    assert len({one.name for one in GENERATIONS}) == len(GENERATIONS) == 72
    with pytest.raises(ValueError, match="no workload produce-v8"):
        chosen("produce-v8-*")


def test_one_command_measures_and_writes(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "benchmarks.proxy", "--rounds=1", "--duration=1", "--no-real", "--no-memory"]
    argv += ["--peers=none", "--states=notleader,notleader+all", "--workloads=one,produce", f"--out={tmp_path}"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    told = json.loads((tmp_path / "results.json").read_text())
    assert told["skipped"] == []
    assert {(one["workload"], one["target"]) for one in told["figures"]} == {
        (workload, target) for workload in ("one", "produce") for target in ("notleader", "notleader+all")
    }
    assert all(one["requests"] > 0 for one in told["samples"])
    assert all(one["rss_bytes"] > 1 << 20 for one in told["samples"] if one["target"] != "direct")


def test_targets_take_turns_and_are_compared_with_the_first(program: Path, tmp_path: Path) -> None:
    targets = [notleader.target(notleader.PLAIN, label=label) for label in ("", " [again]")]
    said: list[str] = []
    with rounds.broker(program, tmp_path) as port, rounds.started(targets, port, tmp_path, said.append) as running:
        shares = turns.measure(program, running[1:], chosen("hundred"), rounds=2, turns=3, slot_s=0.1, say=said.append)
    assert not [line for line in said if line.startswith("skipped")]
    assert [(share.round, share.target) for share in shares] == [
        (number, target.name) for number in range(2) for target in targets
    ]
    assert all(share.requests > 100 and share.cpu_s > 0 for share in shares)
    shown = io.StringIO()
    turns.show(shares, "notleader", Console(file=shown, width=120))
    assert "1.000" in shown.getvalue()
    assert "notleader [again]" in shown.getvalue()


def test_the_last_segment_of_a_capture_is_counted_with_its_turns(program: Path, tmp_path: Path) -> None:
    target = notleader.target(notleader.State("captures", captures="header"))
    with rounds.broker(program, tmp_path) as port, rounds.started([target], port, tmp_path, print) as running:
        turns.measure(program, running[1:], chosen("one"), rounds=1, turns=5, slot_s=0.5, say=print)
        capture = tmp_path / "captures" / "capture"
        assert [*capture.rglob("*.parquet")]
        # The load's connections may be seen to end after it was told to finish: that is all that is left to write.
        for journal in capture.rglob(".*.journal"):
            contents = Contents(journal)
            with contents.reader:
                rows = [row for frame in contents.frames() for row in contents.table_of([frame]).to_pylist()]
            assert {row["event"] for row in rows} <= {"disconnect"}


def tell(load: subprocess.Popen[str], *lines: str) -> None:
    assert load.stdin is not None
    for line in lines:
        load.stdin.write(f"{line}\n")
        load.stdin.flush()


def test_a_load_that_takes_turns_asks_in_them_alone(program: Path, tmp_path: Path) -> None:
    with rounds.broker(program, tmp_path) as port:
        command = chosen("pipelined")[0].in_turns(f"127.0.0.1:{port}")
        with rounds.loading(program, command) as load:
            assert load.stdout is not None
            for begin, seconds in (("warm", 0.05), ("go", 0.1), ("go", 0.1)):
                time.sleep(0.3)
                tell(load, begin)
                time.sleep(seconds)
                tell(load, "stop")
                assert json.loads(load.stdout.readline()) == {"event": "stopped"}
            saw = rounds.result_of(load, "the broker")
    assert 0 < saw["requests"] < saw["total_requests"]
    assert saw["seconds"] > 0.1  # both turns count; on a busy machine a word on its way takes something from either
    # What was under way at a turn's end was answered in it: nobody waited for the next one.
    assert saw["max_us"] < 0.3e6 + saw["seconds"] * 1e6 - 0.2e6


def test_a_load_whose_target_goes_between_two_turns_says_so(program: Path, tmp_path: Path) -> None:
    with rounds.broker(program, tmp_path) as port:
        load = subprocess.Popen(
            [str(program), *chosen("hundred")[0].in_turns(f"127.0.0.1:{port}")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert load.stdout is not None
        tell(load, "go", "stop")
        assert load.stdout.readline()
    with load:
        rounds._take_turn(load, "go", rounds.SLOT_S)
        with pytest.raises(UnavailableError, match="the broker: load: connection "):
            rounds.result_of(load, "the broker")


def test_a_load_that_fails_is_said(program: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    running = rounds.Running(notleader.target(notleader.PLAIN), port, tmp_path)  # with no broker behind it
    try:
        with pytest.raises(UnavailableError, match="notleader: "):
            turns.measure(program, [running], chosen("one"), rounds=1, turns=1, slot_s=0.1, say=lambda line: None)
    finally:
        running.stop()
