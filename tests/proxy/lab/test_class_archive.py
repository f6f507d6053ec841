"""What the first broker leaves for the next one's start."""

from collections.abc import Callable
from pathlib import Path

import pytest

from notleader.proxy.lab import class_archive
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.kafka import KafkaCluster


def _archives_mapped(kafka: KafkaCluster) -> set[str]:
    (pid,) = kafka.pids.values()
    files = {line.split(maxsplit=5)[-1].strip() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()}
    return {file for file in files if file.endswith(".jsa")}


def test_the_second_broker_maps_the_classes_that_the_first_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "cache_folder", lambda: tmp_path)
    with KafkaCluster() as first:
        assert str(tmp_path) not in str(_archives_mapped(first))
    (archive,) = tmp_path.rglob("*.jsa")
    written = archive.stat().st_mtime_ns
    with KafkaCluster() as second:
        assert str(archive) in _archives_mapped(second)
    assert archive.stat().st_mtime_ns == written


def test_an_archive_that_is_torn_only_makes_the_start_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(KafkaCluster, "_java_command", _with_a_torn_archive(KafkaCluster._java_command))
    with KafkaCluster() as kafka:
        assert kafka.bootstrap


def _with_a_torn_archive(command: Callable[[KafkaCluster], list[str]]) -> Callable[[KafkaCluster], list[str]]:
    def torn(self: KafkaCluster) -> list[str]:
        assert self._java is not None
        archive = class_archive.archive_of(self._java, self._classpath)
        assert archive is not None
        archive.write_bytes(b"torn")
        return command(self)

    return torn


def test_a_folder_that_cannot_be_written_to_means_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brokers").write_text("a file")
    monkeypatch.setattr(class_archive, "cache_folder", lambda: tmp_path)
    assert class_archive.archive_of(find_java(), "a.jar") is None
    assert class_archive.flags(None) == []
    assert not class_archive.keep(None, find_java(), 1)
