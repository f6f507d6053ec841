"""What a node of the lab's Kafka is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from notleader.proxy.lab.node import KafkaError, Node, node_properties, properties_file


def node(folder: Path) -> Node:
    return Node(1, 1, 2, 3, folder)


def test_letters_that_a_properties_file_does_not_know_are_escaped() -> None:
    assert properties_file({"log.dirs": "/tmp/ü 𝄞\\x"}) == "log.dirs=/tmp/\\u00fc \\ud834\\udd1e\\u005cx\n"


def test_a_folder_that_kafka_would_take_for_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="no folder with a comma"):
        node_properties(node(tmp_path / "a,b"), [node(tmp_path)], True)
