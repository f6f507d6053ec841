"""Builds each client program once per version, with the machine's own toolchain, into the cache folder.

What is missing is an error that says so: a matrix with silent holes proves nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from notleader.proxy.lab import jars
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.kafka import full_version
from notleader.proxy.lab.paths import cache_folder

PROGRAMS = Path(__file__).parent / "programs"
_JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx256m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

Command = tuple[list[str], dict[str, str]]
"""Arguments, and what the environment needs beyond the scenario's own variables."""


class BuildError(Exception):
    """A client program can't be built here; the text says what is missing or what the build said."""


def python(program: str) -> Command:
    """A Python program of `programs/python`, with the packages that its requirements.txt pins."""
    folder = PROGRAMS / "python"
    requirements = folder / "requirements.txt"

    def build(work: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--target", str(work), "--requirement", str(requirements)], work, "Python clients")

    packages = _built("python", [requirements], build)
    return [sys.executable, str(folder / program)], {"PYTHONPATH": str(packages)}


def script(path: str, *tools: str) -> list[str]:
    """A program that drives command-line tools which have to be on PATH."""
    for tool in tools:
        _tool(tool, f"programs/{path} drives it")
    return [sys.executable, str(PROGRAMS / path)]


def java(family: str, version: str, program: str) -> list[str]:
    """`programs/<family>/<program>.java`, compiled against the jars that `versions/<version>.sha256` names."""
    source = PROGRAMS / family / f"{program}.java"
    lock = PROGRAMS / family / "versions" / f"{version}.sha256"
    classpath = os.pathsep.join(map(str, jars.fetch(lock)))

    def build(work: Path) -> None:
        javac = _tool("javac", f"{family} {version} is compiled here; install a JDK 17 or newer")
        _run(
            [javac, "-nowarn", "-Xlint:none", "-d", str(work), "-cp", classpath, str(source)],
            work,
            f"{family} {version}",
        )

    classes = _built(f"{family}-{version}", [source, lock], build)
    return [str(find_java().executable), *_JVM_FLAGS, "-cp", f"{classes}{os.pathsep}{classpath}", program]


def go(family: str, version: str) -> list[str]:
    """`programs/<family>/main.go`, built with the modules that `versions/<version>/go.mod` and `go.sum` pin."""
    source = PROGRAMS / family / "main.go"
    pins = PROGRAMS / family / "versions" / version

    def build(work: Path) -> None:
        tool = _tool("go", f"{family} is a Go client; install Go (go.dev)")
        text = source.read_text()
        # sarama moved from Shopify to IBM between the pinned versions; the program is the same.
        if "github.com/Shopify/sarama " in (pins / "go.mod").read_text():
            text = text.replace("github.com/IBM/sarama", "github.com/Shopify/sarama")
        (work / "main.go").write_text(text)
        for name in ("go.mod", "go.sum"):
            shutil.copy(pins / name, work)
        _run([tool, "build", "-mod=readonly", "-trimpath", "-o", "program", "."], work, f"{family} {version}")

    return [str(_built(f"{family}-{version}", [source, pins / "go.mod", pins / "go.sum"], build) / "program")]


def node(family: str) -> Command:
    """`programs/<family>/main.js`, with the packages that its package-lock.json pins."""
    folder = PROGRAMS / family
    pins = [folder / "package.json", folder / "package-lock.json"]

    def build(work: Path) -> None:
        npm = _tool("npm", f"{family} is a Node client; install Node.js 18 or newer with npm")
        for pin in pins:
            shutil.copy(pin, work)
        _run([npm, "ci", "--silent", "--no-audit", "--no-fund"], work, family)

    packages = _built(family, pins, build)
    # Node looks for packages beside the program, so the program goes where they are.
    shutil.copy(folder / "main.js", packages)
    return [_tool("node", f"{family} runs on Node.js"), str(packages / "main.js")], {}


def rust(family: str) -> list[str]:
    """`programs/<family>`, a Cargo package with its lock file."""
    folder = PROGRAMS / family
    sources = [folder / "Cargo.toml", folder / "Cargo.lock", folder / "src" / "main.rs"]

    def build(work: Path) -> None:
        cargo = _tool("cargo", f"{family} is a Rust client; install Rust 1.85 or newer (rustup.rs)")
        shutil.copytree(folder, work / "package")
        manifest = str(work / "package" / "Cargo.toml")
        _run([cargo, "build", "--quiet", "--locked", "--manifest-path", manifest], work, family)
        shutil.move(work / "package" / "target" / "debug" / "scenario", work / "program")
        shutil.rmtree(work / "package")

    return [str(_built(family, sources, build) / "program")]


def kafka_tools(kafka: str) -> Command:
    """Kafka's own tools of that version, by the main classes in its jars."""
    version = full_version(kafka)
    lock = Path(jars.__file__).parent / "locks" / f"kafka-{version}.sha256"
    # Two of them moved from the core's jar to the tools'.
    moved = not version.startswith("3.")
    return [sys.executable, str(PROGRAMS / "kafka_tools" / "scenario.py")], {
        "TOOLS": os.pathsep.join(map(str, jars.fetch(lock))),
        "JAVA": str(find_java().executable),
        "CONSOLE_PRODUCER": f"{'org.apache.' if moved else ''}kafka.tools.ConsoleProducer",
        "API_VERSIONS": f"{'org.apache.kafka.tools' if moved else 'kafka.admin'}.BrokerApiVersionsCommand",
    }


def _built(name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """The folder that `build` filled for exactly these sources; it appears whole or not at all."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = cache_folder() / "invisible" / f"{name}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".build-"))
        try:
            build(work)
            try:
                work.rename(folder)
            except OSError:
                if not folder.exists():  # else somebody else was quicker
                    raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def _tool(name: str, why: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise BuildError(f"there is no '{name}' on PATH: {why}")
    return found


def _run(argv: list[str], folder: Path, what: str) -> None:
    ran = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        raise BuildError(f"{what} can't be built: {ran.stdout.strip()[-1500:]}")
