"""Jars: whole or absent, the locked bytes or none, and no network the second time."""

from __future__ import annotations

import gc
import hashlib
import http.server
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from notleader.proxy.lab import jars
from notleader.proxy.lab.kafka import KafkaError, full_version

# jgo leaves an answer that says no unread, and its connection open.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
CONTENT = {"org/a/1/a-1.jar": b"first", "org/b/2/b-2.jar": b"second"}


class Repository(http.server.BaseHTTPRequestHandler):
    content: dict[str, bytes]
    asked: list[str]

    def do_GET(self) -> None:
        if not self.path.endswith(".sha1"):
            self.asked.append(self.path)
        body = self.content.get(self.path.removeprefix("/maven/"))
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Repository]]:
    """A Maven repository on loopback, an empty cache, a lock for `thing 1.0`, and no Maven."""
    handler = type("Handler", (Repository,), {"content": dict(CONTENT), "asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("NOTLEADER_MAVEN_URL", f"http://127.0.0.1:{server.server_port}/maven/")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PATH", "")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(jars, "_LOCKS", tmp_path)
        digests = (f"{hashlib.sha256(body).hexdigest()}  {path}\n" for path, body in CONTENT.items())
        (tmp_path / "thing-1.0.sha256").write_text("".join(digests))
        yield handler
        gc.collect()
        server.shutdown()


def maven_that_copies(content: dict[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only Maven there is brings exactly this, and leaves the project it was given in the file returned."""
    store, asked = folder / "store", folder / "asked"
    for path, body in content.items():
        (store / path).parent.mkdir(parents=True, exist_ok=True)
        (store / path).write_bytes(body)
    maven = folder / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(
        "#!/bin/sh\nfor each; do case $each in -DoutputDirectory=*) to=${each#*=};; esac; done\n"
        f'/bin/cat pom.xml >{asked}; /bin/cp -r {store}/. "$to"\n'
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(maven.parent))
    return asked


def test_the_second_use_asks_nobody(repository: type[Repository]) -> None:
    steps: list[tuple[int, int]] = []
    lock = jars._LOCKS / "thing-1.0.sha256"
    assert jars.kept(lock) is None
    first = jars.resolve("thing", "1.0", [], lambda done, total: steps.append((done, total)))
    assert jars.kept(lock) == first
    assert [path.read_bytes() for path in first] == [b"first", b"second"]
    assert steps == [(0, 2), (1, 2), (2, 2)]
    repository.content.clear()
    assert jars.resolve("thing", "1.0", []) == first
    assert len(repository.asked) == 2


@pytest.mark.parametrize("maven", [False, True])
def test_jars_that_only_a_classifier_tells_apart_are_brought_each(
    repository: type[Repository], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maven: bool
) -> None:
    both = {f"org/c/3/c-3-{system}.jar": system.encode() for system in ("linux-x86_64", "osx-aarch_64")}
    digests = (f"{hashlib.sha256(body).hexdigest()}  {path}\n" for path, body in both.items())
    (tmp_path / "native-1.0.sha256").write_text("".join(digests))
    if maven:
        asked = maven_that_copies(both, tmp_path, monkeypatch)
    else:
        repository.content.update(both)
    assert [path.read_bytes() for path in jars.resolve("native", "1.0", [])] == [*both.values()]
    if maven:
        assert "<version>3</version><classifier>osx-aarch_64</classifier>" in asked.read_text()


def test_other_bytes_than_the_locked_ones_are_refused(repository: type[Repository]) -> None:
    repository.content["org/b/2/b-2.jar"] = b"tampered"
    with pytest.raises(jars.JarsError, match=r"b-2\.jar is not the file that was locked"):
        jars.resolve("thing", "1.0", [])
    assert not (jars.jar_folder() / "org/b/2/b-2.jar").exists()


def test_what_was_there_already_is_kept_after_a_failure(repository: type[Repository]) -> None:
    del repository.content["org/b/2/b-2.jar"]
    with pytest.raises(jars.JarsError, match=r"cannot download org/b/2/b-2\.jar: .*not found"):
        jars.resolve("thing", "1.0", [])
    repository.content.update(CONTENT)
    assert len(jars.resolve("thing", "1.0", [])) == 2
    assert repository.asked.count("/maven/org/a/1/a-1.jar") == 1


def test_a_local_maven_repository_serves_too(repository: type[Repository], tmp_path: Path) -> None:
    for path, body in CONTENT.items():
        local = tmp_path / "home" / ".m2" / "repository" / path
        local.parent.mkdir(parents=True)
        local.write_bytes(body)
    assert len(jars.resolve("thing", "1.0", [])) == 2
    assert repository.asked == []


def test_an_unlocked_version_needs_maven(repository: type[Repository]) -> None:
    with pytest.raises(jars.JarsError, match=r"thing 2\.0: no lock .* there is no Maven \(without it: 1\.0\)"):
        jars.resolve("thing", "2.0", [])


@pytest.mark.parametrize("settings", [True, False])
def test_maven_is_asked_where_it_has_settings_or_nobody_else_can(
    repository: type[Repository], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: bool
) -> None:
    """The repository on loopback lacks one jar."""
    copied = maven_that_copies(CONTENT, tmp_path, monkeypatch)
    if settings:
        (tmp_path / "home" / ".m2").mkdir(parents=True)
        (tmp_path / "home" / ".m2" / "settings.xml").write_text("<settings/>")
    del repository.content["org/b/2/b-2.jar"]
    assert len(jars.resolve("thing", "1.0", [])) == 2
    assert ("/maven/org/b/2/b-2.jar" in repository.asked) is not settings
    asked = copied.read_text()
    assert "<groupId>org</groupId><artifactId>b</artifactId><version>2</version>" in asked
    assert "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>" in asked


def test_without_both_it_says_what_to_install(repository: type[Repository], monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jgo" else find(name))
    with pytest.raises(jars.JarsError, match=r"neither Maven nor jgo .* pip install 'notleader\[lab\]'"):
        jars.resolve("thing", "1.0", [])


def test_a_version_that_is_known_only_as_a_whole_is_said_to_need_all_its_numbers() -> None:
    assert full_version("3.5.2") == "3.5.2"
    assert full_version("3.9") == jars.locked_versions("kafka")[0]
    with pytest.raises(
        KafkaError, match=r"version 3\.5: the beginning .* 3\.9\.\d, .*; of any other say all three numbers"
    ):
        full_version("3.5")


def test_every_shipped_lock_is_whole() -> None:
    for version in ("3.9.2", "4.3.1"):
        assert version in jars.locked_versions("kafka")
        locked = jars.read_lock(Path(jars.__file__).parent / "locks" / f"kafka-{version}.sha256")
        assert all(len(jar.sha256) == 64 and jar.path.endswith(".jar") for jar in locked)
        assert any(jar.path.endswith(f"kafka_2.13-{version}.jar") for jar in locked)
