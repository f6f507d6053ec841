"""The libraries for Testcontainers: their own tests, run in front of a real Kafka and a real `notleader run`.

There is no container engine here: each library takes the notleader that the environment names in its container's place.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from tests.tools.programs import need
from tools.fault_builders.__main__ import files

pytestmark = pytest.mark.kafka

TREE = Path(__file__).parents[3]
LIBRARIES = TREE / "testcontainers"
QUOTED = {
    "java": LIBRARIES / "java/src/test/java/notleader/shop/OrdersTest.java",
    "go": LIBRARIES / "go/example/shop_test.go",
}


@pytest.fixture(scope="module")
def environment(kafka: KafkaCluster) -> Iterator[dict[str, str]]:
    kafka.create_topic("orders")
    words = ["run", "--json", "--kafka", kafka.bootstrap, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    env = {**os.environ, "NOTLEADER_TOKEN": "test", "PYTHONPATH": str(TREE / "src")}
    command = [sys.executable, "-m", "notleader", *words]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield {**env, "NOTLEADER_ADMIN": json.loads(process.stdout.readline())["admin"]}
        finally:
            process.terminate()


def passed(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_java(environment: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "java"
    shutil.copytree(LIBRARIES / "java", project, ignore=shutil.ignore_patterns("target"))
    told = passed([need("mvn"), "-B", "package"], project, environment)
    assert re.search(r"Tests run: 1[0-9], Failures: 0, Errors: 0, Skipped: 0$", told, flags=re.MULTILINE), told
    assert list((project / "target").glob("notleader-testcontainers-*.jar"))


@pytest.mark.parametrize("folder", ["go", "go/example"])
def test_go(environment: dict[str, str], folder: str) -> None:
    # One package after the other: they share the notleader.
    told = passed(
        [need("go"), "test", "-p", "1", "-count", "1", "-mod", "readonly", "./..."], LIBRARIES / folder, environment
    )
    assert told.count("ok  \t") == told.count("\n")


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_the_builders_of_faults_are_what_the_schemas_make_of_them(path: Path) -> None:
    assert path.read_text() == files()[path], "run: .venv/bin/python -m tools.fault_builders"


@pytest.mark.parametrize("language", QUOTED)
def test_what_the_pages_quote_is_what_is_run(language: str) -> None:
    run = QUOTED[language].read_text()
    for page in (LIBRARIES / language / "README.md", TREE / "docs/how-to/testcontainers.md"):
        (quoted,) = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert run.endswith(quoted), page


def test_all_have_the_project_s_version() -> None:
    version = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["version"]
    assert f"<version>{version}</version>" in (LIBRARIES / "java/pom.xml").read_text()
    for language in QUOTED:
        assert f"ersion {version}" in (LIBRARIES / language / "README.md").read_text()
