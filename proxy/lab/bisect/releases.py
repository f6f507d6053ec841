"""Which releases a client library has, asked of its registry by that registry's own client."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from notleader.proxy.lab import clients
from notleader.proxy.lab.bisect.asking import asked
from notleader.proxy.lab.clients import ClientError
from notleader.proxy.lab.jars import version_key
from notleader.proxy.record import helpers

GO_MODULES = {
    # The newer name of a module that moved comes first.
    "sarama": ("github.com/IBM/sarama", "github.com/Shopify/sarama"),
    "librdkafka": ("github.com/confluentinc/confluent-kafka-go/v2", "github.com/confluentinc/confluent-kafka-go"),
    "franz_go": ("github.com/twmb/franz-go",),
    "kafka_go": ("github.com/segmentio/kafka-go",),
}
PYTHON_PACKAGES = {"aiokafka": "aiokafka", "kafka_python": "kafka-python"}
NODE_PACKAGES = {"kafkajs": "kafkajs"}
JAVA_ARTIFACTS = {"java": "org.apache.kafka:kafka-clients"}
_STABLE = re.compile(r"\d+(\.\d+)+")
_ASKING_S = 120.0


def releases(family: str) -> list[str]:
    """The stable releases of a client library, oldest first; raises ClientError when its registry can't be asked.

    Of a family whose registry tells nothing, those that are pinned here.
    """
    for families, ask in _ASKS.items():
        if family in families:
            return sorted({each for each in ask(family) if _STABLE.fullmatch(each)}, key=version_key)
    return clients.versions(family)


def module_of(family: str, version: str) -> str:
    """The path of the Go module that has this release of the family."""
    for module in GO_MODULES[family]:
        if version in _go_versions(module):
            return module
    raise ClientError(f"no module of {family} has a release {version}")


def _of_go(family: str) -> list[str]:
    return [version for module in GO_MODULES[family] for version in _go_versions(module)]


def _go_versions(module: str) -> list[str]:
    words = _said(["go", "list", "-m", "-versions", module]).split()[1:]
    return [word.removeprefix("v") for word in words]


def _of_python(family: str) -> list[str]:
    said = _said(helpers.command("pip", "index", "versions", "--disable-pip-version-check", PYTHON_PACKAGES[family]))
    line = next((line for line in said.splitlines() if line.startswith("Available versions:")), "")
    return [word.strip() for word in line.removeprefix("Available versions:").split(",")]


def _of_node(family: str) -> list[str]:
    found = json.loads(_said(["npm", "view", NODE_PACKAGES[family], "versions", "--json"]))
    return [found] if isinstance(found, str) else list(found)


def _of_java(family: str) -> list[str]:
    """Maven has no command that lists; a range of versions makes it fetch the artifact's index, which is read then."""
    group, artifact = JAVA_ARTIFACTS[family].split(":")
    with tempfile.TemporaryDirectory(prefix="notleader-releases-") as work:
        pom = Path(work, "pom.xml")
        pom.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>notleader.lab</groupId><artifactId>releases</artifactId><version>1</version><dependencies>"
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>[0,)</version>"
            "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
            "</dependency></dependencies></project>\n"
            "utf-8",
        )
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:resolve"
        local = Path(work, "repository")
        _said(["mvn", "--batch-mode", "--quiet", "-f", str(pom), f"-Dmaven.repo.local={local}", plugin])
        found: set[str] = set()
        for index in local.joinpath(*group.split("."), artifact).glob("maven-metadata-*.xml"):
            found |= {each.text or "" for each in ElementTree.parse(index).iter("version")}
    return sorted(found)


_ASKS: dict[tuple[str, ...], Callable[[str], list[str]]] = {
    tuple(GO_MODULES): _of_go,
    tuple(PYTHON_PACKAGES): _of_python,
    tuple(NODE_PACKAGES): _of_node,
    tuple(JAVA_ARTIFACTS): _of_java,
}


def _said(argv: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="notleader-releases-") as work:
        try:
            return asked(argv, Path(work), "the releases can't be listed", _ASKING_S)
        except ClientError as error:
            raise ClientError(f"{error} (name them by --versions)") from error
