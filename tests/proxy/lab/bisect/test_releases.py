"""The releases of a library are those that its registry's own client tells, oldest first, without what isn't stable."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from notleader.proxy.lab.bisect import pinning, releases
from notleader.proxy.lab.bisect.cli import _chosen
from notleader.proxy.lab.clients import ClientError, cached_pins, pins
from notleader.proxy.lab.stages import Stages

GO = """#!/bin/sh
case "$4" in
*IBM/sarama) echo "$4 v1.40.1 v1.43.2 v1.50.0-rc1" ;;
*Shopify/sarama) echo "$4 v1.9.0 v1.37.2 v1.38.0" ;;
*) echo "no such module" >&2; exit 1 ;;
esac
"""


def tool(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is first on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_module_that_moved_has_the_releases_of_both_names(tools: Path) -> None:
    tool(tools, "go", GO)
    assert releases.releases("sarama") == ["1.9.0", "1.37.2", "1.38.0", "1.40.1", "1.43.2"]
    assert releases.module_of("sarama", "1.37.2") == "github.com/Shopify/sarama"
    assert releases.module_of("sarama", "1.43.2") == "github.com/IBM/sarama"
    with pytest.raises(ClientError, match="no module of sarama has a release 2"):
        releases.module_of("sarama", "2")


def test_what_npm_says_is_read_also_where_there_is_one_release(tools: Path) -> None:
    tool(tools, "npm", """#!/bin/sh\necho '["1.0.0", "2.0.0-beta.1", "1.10.0", "1.9.0"]'\n""")
    assert releases.releases("kafkajs") == ["1.0.0", "1.9.0", "1.10.0"]
    tool(tools, "npm", """#!/bin/sh\necho '"1.0.0"'\n""")
    assert releases.releases("kafkajs") == ["1.0.0"]


def test_a_family_without_a_registry_has_what_is_pinned() -> None:
    assert releases.releases("scala") == ["0.8.2.2"]


@pytest.mark.parametrize(
    ("text", "says"), [(None, "there is no 'npm' on PATH"), ("#!/bin/sh\necho no network >&2; exit 3\n", "no network")]
)
def test_a_registry_that_can_t_be_asked_is_said_with_the_way_out(
    tools: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, says: str
) -> None:
    monkeypatch.setenv("PATH", str(tools))
    if text is not None:
        tool(tools, "npm", text)
    with pytest.raises(ClientError, match=says) as failed:
        releases.releases("kafkajs")
    assert "--versions" in str(failed.value)


def test_a_release_is_pinned_once_with_all_that_it_needs(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = [{"name": "aiokafka", "version": "0.11.0"}, {"name": "x", "version": "2"}]
    report = json.dumps({"install": [{"metadata": each} for each in metadata]})
    counter = tools / "asked"
    tool(tools, "python", f"#!/bin/sh\necho once >> {counter}\necho '{report}'\n")
    monkeypatch.setattr(sys, "executable", str(tools / "python"))
    assert pins("aiokafka", "0.11.0") is None
    for _ in range(2):
        pinning.pin("aiokafka/producer.py", "0.11.0", Stages(quiet=True))
    assert pins("aiokafka", "0.11.0") == cached_pins("aiokafka", "0.11.0")
    assert (cached_pins("aiokafka", "0.11.0") / "requirements.txt").read_text() == "aiokafka==0.11.0\nx==2\n"
    assert counter.read_text() == "once\n"


def test_what_can_t_be_had_leaves_nothing(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tools, "python", "#!/bin/sh\necho no matching distribution >&2; exit 1\n")
    monkeypatch.setattr(sys, "executable", str(tools / "python"))
    with pytest.raises(ClientError, match=r"aiokafka==9\.9\.9 can't be had: no matching distribution"):
        pinning.pin("aiokafka/producer.py", "9.9.9", Stages(quiet=True))
    assert pins("aiokafka", "9.9.9") is None
    assert list(cached_pins("aiokafka", "9.9.9").parent.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("1.3, 1.10,1.4,1.3", ["1.3", "1.4", "1.10"]),
        ("v2,v10,v1.9", ["v1.9", "v2", "v10"]),
        ("before,1.10,1.4", ["before", "1.10", "1.4"]),
    ],
)
def test_releases_that_are_named_are_tried_in_the_order_of_their_versions(given: str, chosen: list[str]) -> None:
    """Unless they are none: then whoever names them says the order."""
    assert _chosen(given, None, "", "", Stages(quiet=True)) == chosen
