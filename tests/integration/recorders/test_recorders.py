"""Every recorder in its real client, against a real broker through the proxy, read by the real analysis.

Each client sends ten messages and one that the broker refuses, reads the ten back and commits. Then Spark has to match
each send with the request that the proxy saw, by the id that the recorder put into its headers.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.lab import jars
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from tests.clients import builds
from tests.integration.proxy.conftest import proxy_for as proxy_for
from tests.integration.proxy.conftest import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories
from tests.tools.programs import need

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

HERE = Path(__file__).parent
TREE = HERE.parents[2]
PYTHON = ("aiokafka", "confluent-kafka", "kafka-python")
GO = ("sarama", "franz-go")
# Before KIP-512 an interceptor hears of an acknowledgement without the record's headers.
OLD_JAVA = "java-2.8.2"
CLIENTS = (*PYTHON, "java", *GO, OLD_JAVA)
COUNT = 10
# sarama's commits go past its interceptors.
COMMITS = set(CLIENTS) - {"sarama"}
# Interceptors and hooks aren't called when the call gives its caller back, nor is there a call with sarama's channels.
RETURNED = {**dict.fromkeys(PYTHON, COUNT), "sarama": COUNT - 3, "franz-go": COUNT // 2, "java": 0, OLD_JAVA: 0}


def commands(folder: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """client → how to run it, and what its environment needs."""
    _, packages = builds.python("with_aiokafka.py")
    path = os.pathsep.join([packages["PYTHONPATH"], str(TREE / "src")])
    wanted = {name: ([sys.executable, str(HERE / "python_clients.py"), name], {"PYTHONPATH": path}) for name in PYTHON}
    for name, version in (("java", "4.4.0"), (OLD_JAVA, "2.8.2")):
        wanted[name] = (java(folder, version), {})
    program = folder / "go-clients"
    subprocess.run([need("go"), "build", "-mod=readonly", "-o", str(program), "."], cwd=HERE / "go", check=True)
    return wanted | {name: ([str(program), name], {}) for name in GO}


def java(folder: Path, version: str, program: str = "Scenario") -> list[str]:
    """The jar as Maven builds it, and a program; `Scenario` knows nothing of it but its configuration."""
    project, classes = (folder / f"{part}-{version}" for part in ("java", "classes"))
    shutil.copytree(TREE / "recorders" / "java", project, ignore=shutil.ignore_patterns("target"))
    subprocess.run([need("mvn"), "-q", "-B", "package"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    (jar,) = (project / "target").glob("notleader-recorder-*.jar")
    classes.mkdir()
    lock = builds.PROGRAMS / "java" / "versions" / f"{version}.sha256"
    classpath = os.pathsep.join(map(str, [jar, classes, *jars.fetch(lock)]))
    javac = [need("javac"), "-nowarn", "-d", str(classes), "-cp", classpath, str(HERE / f"{program}.java")]
    subprocess.run(javac, check=True)
    return [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", classpath, program]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], dict[str, str]]]:
    return commands(tmp_path_factory.mktemp("recorders"))


async def test_every_recorder_s_words_meet_what_the_proxy_saw(
    kafka: KafkaCluster,
    proxy_for: Callable[..., AbstractAsyncContextManager[Proxy]],
    programs: dict[str, tuple[list[str], dict[str, str]]],
    tmp_path: Path,
) -> None:
    for client in CLIENTS:
        kafka.create_topic(f"recorded-{client}", config={"max.message.bytes": "10000"})
    capture = tmp_path / "capture"
    async with proxy_for(kafka.bootstrap, capture=str(capture), capture_level="record") as proxy:
        for client in CLIENTS:
            command, environment = programs[client]
            arguments = [str(proxy.listen), f"recorded-{client}", str(tmp_path / f"{client}.jsonl")]
            running = await asyncio.create_subprocess_exec(
                *command, *arguments, env={**os.environ, **environment}, stderr=asyncio.subprocess.PIPE
            )
            _, said = await asyncio.wait_for(running.communicate(), 120)
            assert running.returncode == 0, f"{client}: {said.decode()[-2000:]}"
    out = tmp_path / "out"
    document = analysed(capture, [tmp_path / f"{client}.jsonl" for client in CLIENTS], out)
    assert document["outcomes"]["bad_lines"] == 0
    # Of the clients in Python one send each went out without an acknowledgement; commits are met by what they commit.
    matched = {"message_id": len(CLIENTS) * (COUNT + 1) + len(PYTHON), "offset": len(COMMITS)}
    # The old client names no ids: its sends are found by their places, and the refused one by exclusion.
    assert {kind: rows for kind, rows in document["outcomes"]["matched"].items() if kind != "none"} == matched
    assert document["capture"]["unmatched_batches"] == 0
    rows = history(out)
    for client in CLIENTS:
        sends = [row for row in rows if row["client"] == f"{client}-writer" and row["operation"] == "send"]
        assert Counter(row["outcome"] for row in sends) == {"ok": COUNT, "fail": 1}, client
        acked = [row for row in sends if row["outcome"] == "ok"]
        assert sorted(row["offset"] for row in acked) == list(range(COUNT)), client
        # A consumer got each where the producer was told that it lies.
        assert all([place["offset"] for place in row["landed"]] == [row["offset"]] for row in acked), client
        assert all(row["attempts"][0]["base_offset"] <= row["offset"] for row in acked), client
        called = [row for row in sends if row["called_at_us"] is not None]
        assert len(called) == (0 if client == OLD_JAVA else COUNT + 1), client
        assert all(row["called_at_us"] <= row["completed_at_us"] for row in called), client
        assert sum(row["returned_at_us"] is not None for row in acked) == RETURNED[client], client
        unacknowledged = [row for row in rows if row["client"] == f"{client}-unacknowledged"]
        told = [(row["outcome"], row["offset"], row["completed_at_us"] is not None) for row in unacknowledged]
        assert told == ([("ok", None, True)] if client in PYTHON else []), client
        commits = [row for row in rows if row["client"] == f"{client}-reader" and row["operation"] == "commit"]
        seeks = [row for row in rows if row["client"] == f"{client}-reader" and row["operation"] == "seek"]
        sought = {(row["outcome"], row["partition"], row["offset"]) for row in seeks}
        assert sought == ({("ok", 0, None), ("ok", 0, 5)} if client in PYTHON else set()), client
        if client in COMMITS:
            assert {(row["outcome"], row["offset"]) for row in commits} == {("ok", COUNT)}, client


def test_what_passes_records_on_with_their_headers_has_a_line_for_each(tmp_path: Path) -> None:
    """One id goes to two topics at once, and twice to one of them: each acknowledgement is that of its own send."""
    subprocess.run([*java(tmp_path, "4.4.0", "PassesOn"), str(tmp_path / "said.jsonl")], check=True)
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    told = [(line["topic"], line["offset"], line["message_id"]) for line in said if line["outcome"] == "ok"]
    another = told[1][2]
    assert told == [("copies", 7, "read"), ("sums", 6, another), ("sums", 5, "read"), ("sums", 8, "read")]
    assert another not in ("read", None)
    assert [line["topic"] for line in said if line["outcome"] == "pending"] == ["sums", "copies", "sums", "sums"]


OLD_AND_NEW = (
    ("sarama", "1.24.1", "github.com/Shopify/sarama", "shopify/saramarecorder"),
    ("sarama", "1.37.2", "github.com/Shopify/sarama", "shopify/saramarecorder"),
    ("sarama", "1.61.1", "github.com/IBM/sarama", "saramarecorder"),
    ("franz_go", "1.0.0", "github.com/twmb/franz-go", "kgorecorder"),
    ("franz_go", "1.22.2", "github.com/twmb/franz-go", "kgorecorder"),
)


@pytest.mark.parametrize(("family", "version", "client", "package"), OLD_AND_NEW)
def test_a_go_recorder_takes_the_client_at_the_program_s_version(
    family: str, version: str, client: str, package: str, tmp_path: Path
) -> None:
    built(tmp_path, family, version, package, f'import _ "notleader.lab/recorder/{package}"\n\nfunc main() {{}}\n')
    used = subprocess.run([need("go"), "list", "-m", client], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert used.stdout.split() == [client, f"v{version}"]


def built(folder: Path, family: str, version: str, package: str, program: str) -> None:
    """`folder`/program, a Go program of package main with that recorder at that version of its client."""
    for name in ("go.mod", "go.sum"):
        shutil.copy(TREE / "faults" / "incidents" / "clients" / family / "versions" / version / name, folder)
    modules = {"notleader.lab/recorder": "go", f"notleader.lab/recorder/{package}": f"go/{package}"}
    for module, place in modules.items():
        edit = ["-require", f"{module}@v0.0.0", "-replace", f"{module}={TREE / 'recorders' / place}"]
        subprocess.run([need("go"), "mod", "edit", *edit], cwd=folder, check=True)
    (folder / "main.go").write_text(f"package main\n\n{program}")
    ran = subprocess.run(
        [need("go"), "build", "-mod=mod", "-o", "program", "."], cwd=folder, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


REFUSED_BY_ID = """import (
	"os"

	"github.com/twmb/franz-go/pkg/kmsg"
	"notleader.lab/recorder"
	"notleader.lab/recorder/kgorecorder"
)

func main() {
	lines, _ := recorder.Open(os.Args[1], "c")
	asked, answered := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetCommitResponse()
	for number := byte(1); number < 4; number++ {
		topic, told := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID, told.TopicID = string('a'+rune(number)), [16]byte{number}, [16]byte{number}
		partition, code := kmsg.NewOffsetCommitRequestTopicPartition(), kmsg.NewOffsetCommitResponseTopicPartition()
		topic.Partitions = append(topic.Partitions, partition)
		if number == 2 {
			code.ErrorCode = 25
		}
		told.Partitions = append(told.Partitions, code)
		asked.Topics = append(asked.Topics, topic)
		if number < 3 {
			answered.Topics = append(answered.Topics, told)
		}
	}
	kgorecorder.New(lines).Committed(nil, asked, answered, nil)
}
"""


def test_a_commit_that_is_answered_by_topic_id_is_told_as_it_was_answered(tmp_path: Path) -> None:
    """OffsetCommit v10 (KIP-848) names no topics, and franz-go leaves them out for a member that was thrown out."""
    built(tmp_path, "franz_go", "1.22.2", "kgorecorder", REFUSED_BY_ID)
    subprocess.run([tmp_path / "program", tmp_path / "said.jsonl"], check=True)
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [(line["topic"], line["outcome"]) for line in said] == [("b", "ok"), ("c", "info"), ("d", "info")]
    assert "UNKNOWN_MEMBER_ID" in said[1]["error"]


def test_the_recorder_of_sarama_before_it_moved_is_the_same() -> None:
    now, before = (
        (TREE / "recorders" / "go" / path / "saramarecorder" / "sarama.go").read_text().splitlines()[1:]
        for path in (".", "shopify")
    )
    assert [line.replace("github.com/IBM/", "github.com/Shopify/") for line in now] == before


def analysed(capture: Path, outcomes: list[Path], out: Path) -> dict[str, Any]:
    argv = [
        sys.executable,
        "-m",
        "notleader.spark_analysis",
        "analyze",
        "--json",
        "--capture",
        str(capture),
        "--out",
        str(out),
    ]
    ran = subprocess.run([*argv, "--outcomes", *map(str, outcomes)], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr + ran.stdout[-2000:]
    return json.loads(ran.stdout)  # type: ignore[no-any-return]


def history(out: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(out / "history").to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("client", PYTHON)
def test_a_python_recorder_needs_neither_the_proxy_nor_spark(client: str) -> None:
    """Its module is imported where nothing else of this project, and no PySpark, can be."""
    _, packages = builds.python("with_aiokafka.py")
    program = f"""
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        of_ours = name.startswith("notleader.") and not name.startswith("notleader.recorders")
        if of_ours or name.split(".")[0] in ("pyspark", "pyarrow", "pydantic"):
            raise ImportError(name)

sys.meta_path.insert(0, Nothing())
import notleader.recorders.{client.replace("-", "_")}
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([packages["PYTHONPATH"], str(TREE / "src")])}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
