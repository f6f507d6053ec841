"""How to start a client program: each family by the machine's own toolchain, built once per version."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from notleader.proxy.lab import jars
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import CLIENTS, Program
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.paths import cache_folder
from notleader.proxy.lab.process import Child, executable
from notleader.proxy.lab.stages import Stages
from notleader.proxy.record import helpers

_DUMP_S = 2.0
_GO_SHARED = CLIENTS / "outcome.go"
_JAVA_SHARED = (CLIENTS / "Arguments.java", CLIENTS / "Outcome.java")
_MOVED_MODULES = {
    "github.com/IBM/sarama": "github.com/Shopify/sarama",
    "github.com/confluentinc/confluent-kafka-go/v2": "github.com/confluentinc/confluent-kafka-go",
}


class ClientError(LabError):
    """A client program can't be built or started; the text says what is missing."""


def versions(family: str) -> list[str]:
    """The pinned versions of a family, oldest first; none for one that runs as it is installed."""
    return sorted((path.name for path in (CLIENTS / family / "versions").glob("[0-9]*")), key=jars.version_key)


def command(program: Program, stages: Stages) -> list[str]:
    """The command that starts the program, without its arguments; builds it first where that was never done."""
    if program.command:
        executable(program.command, Path(program.folder))
        return program.command
    source = CLIENTS / program.program
    if not source.is_file():
        raise ClientError(f"client program {program.program} does not exist")
    if source.suffix == ".py" and program.version in ("", "installed"):
        return [sys.executable, str(source)]
    start = _STARTS.get(source.suffix)
    if start is None:
        raise ClientError(f"client program {program.program}: nothing is known about '{source.suffix}' programs")
    argv = start(source, program, stages)
    # The programs that also run as they are installed say their version themselves.
    said = [] if source.parent.name == "aiokafka" else [f"client_version={source.parent.name} {program.version}"]
    return [*argv, *said]


def dump_stacks(program: Program, child: Child) -> None:
    """Have a program that hangs write the stacks of its threads into its log, where its runtime can."""
    if program.program.endswith(".go"):
        child.send_signal(signal.SIGQUIT)  # the Go runtime's own way; it ends the program
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_DUMP_S)


def cached_pins(family: str, version: str) -> Path:
    """Where the packages of a version lie that was pinned on this machine."""
    return cache_folder() / "pins" / family / version


def pins(family: str, version: str) -> Path | None:
    """The folder that says what this version is built against; None where nobody has pinned it."""
    for folder in (CLIENTS / family / "versions" / version, cached_pins(family, version)):
        if version and folder.is_dir():
            return folder
    return None


def _pins(source: Path, version: str) -> Path:
    found = pins(source.parent.name, version)
    if found is None:
        known = ", ".join(versions(source.parent.name))
        raise ClientError(f"{source.parent.name} {version or '(no version)'} is not pinned (known: {known})")
    return found


def _java(source: Path, program: Program, stages: Stages) -> list[str]:
    """Compile a `.java` file, and what all share, against the jars of its version (`jars.sha256`); how to run it."""
    lock = _pins(source, program.version) / "jars.sha256"
    name = f"{source.parent.name} {program.version}"
    if (found := jars.kept(lock)) is None:
        with stages.stage(f"jars of {name}") as say:
            found = jars.fetch(lock, lambda done, total: say(f"{done}/{total}"))
    classpath = os.pathsep.join(map(str, found))

    def build(work: Path) -> None:
        javac = _tool("javac", f"{name} is compiled on this machine")
        run_builder(
            [javac, "-nowarn", "-d", str(work), "-cp", classpath, str(source), *map(str, _JAVA_SHARED)], work, name
        )

    classes = _built(f"{source.parent.name}-{program.version}", [source, *_JAVA_SHARED, lock], build, stages)
    options = source.parent / "java.options"
    own = [f"@{options}"] if options.exists() else []
    heap = [] if program.heap_mb is None else [f"-Xmx{program.heap_mb}m"]  # the last one counts
    java = [str(find_java().executable), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", *own, *heap]
    return [*java, "-cp", f"{classes}{os.pathsep}{classpath}", source.stem]


def _python(source: Path, program: Program, stages: Stages) -> list[str]:
    """A Python program with the packages that `versions/<version>/requirements.txt` pins, beside this Python's own."""
    requirements = _pins(source, program.version) / "requirements.txt"

    def build(work: Path) -> None:
        pip = helpers.command("pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        run_builder(
            [*pip, "--target", str(work), "--requirement", str(requirements)],
            work,
            f"{source.parent.name} {program.version}",
        )

    packages = _built(f"{source.parent.name}-{program.version}", [requirements], build, stages)
    return ["env", f"PYTHONPATH={packages}", sys.executable, str(source)]


def _node(source: Path, program: Program, stages: Stages) -> list[str]:
    """A Node program beside the packages that `versions/<version>/package-lock.json` pins."""
    pinned = _pins(source, program.version)
    name = f"{source.parent.name} {program.version}"
    files = [source, pinned / "package.json", pinned / "package-lock.json"]

    def build(work: Path) -> None:
        npm = _tool("npm", f"{name} is a Node client; install Node.js 18 or newer with npm")
        for path in files:
            shutil.copy(path, work)
        run_builder([npm, "ci", "--silent", "--no-audit", "--no-fund"], work, name)

    folder = _built(f"{source.parent.name}-{program.version}", files, build, stages)
    return [_tool("node", f"{name} runs on Node.js"), str(folder / source.name)]


def _rust(source: Path, program: Program, stages: Stages) -> list[str]:
    """A Rust program, built with the crates that `versions/<version>/Cargo.lock` pins."""
    pinned = _pins(source, program.version)
    name = f"{source.parent.name} {program.version}"
    files = [source, pinned / "Cargo.toml", pinned / "Cargo.lock"]

    def build(work: Path) -> None:
        cargo = _tool("cargo", f"{name} is a Rust client; install Rust 1.85 or newer (rustup.rs)")
        package = work / "package"
        (package / "src").mkdir(parents=True)
        shutil.copy(source, package / "src")
        for path in files[1:]:
            shutil.copy(path, package)
        # The crates stay built for the next change of the program.
        target = cache_folder() / "clients" / f".cargo-{source.parent.name}-{program.version}"
        places = ["--manifest-path", str(package / "Cargo.toml"), "--target-dir", str(target)]
        run_builder([cargo, "build", "--quiet", "--locked", *places], work, name)
        shutil.copy(target / "debug" / "program", work / "program")
        shutil.rmtree(package)

    return [str(_built(f"{source.parent.name}-{program.version}", files, build, stages) / "program")]


def _go(source: Path, program: Program, stages: Stages) -> list[str]:
    """Build one `main.go` against the module versions that `versions/<version>/go.mod` and `go.sum` pin."""
    pinned = _pins(source, program.version)

    def build(work: Path) -> None:
        go = _tool("go", f"{source.parent.name} clients are Go programs")
        write_go_sources(source, (pinned / "go.mod").read_text("utf-8"), work)
        for name in ("go.mod", "go.sum"):
            shutil.copy(pinned / name, work)
        run_builder(
            [go, "build", "-mod=readonly", "-trimpath", "-o", "program", "."],
            work,
            f"{source.parent.name} {program.version}",
        )

    files = [source, _GO_SHARED, _go_ended(), pinned / "go.mod", pinned / "go.sum"]
    return [str(_built(f"{source.parent.name}-{program.version}", files, build, stages) / "program")]


def write_go_sources(source: Path, pinned: str, folder: Path) -> None:
    """The program and what all Go programs share, with the imports that its `go.mod` asks for."""
    text = source.read_text("utf-8")
    # Modules that moved between the pinned versions; the program is the same.
    for now, before in _MOVED_MODULES.items():
        if f"{before} " in pinned:
            text = text.replace(now, before)
    (folder / "main.go").write_text(text, "utf-8")
    shutil.copy(_GO_SHARED, folder)
    (folder / "ended.go").write_text(
        _go_ended().read_text("utf-8").replace("package recorder", "package main"), "utf-8"
    )


def _go_ended() -> Path:
    return Path(str(importlib.resources.files("notleader.recorders"))) / "go" / "ended.go"


_STARTS = {".py": _python, ".go": _go, ".java": _java, ".js": _node, ".mjs": _node, ".rs": _rust}


def _built(name: str, sources: list[Path], build: Callable[[Path], None], stages: Stages) -> Path:
    """The folder that `build` filled for exactly these sources; it appears whole or not at all."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = cache_folder() / "clients" / f"{name}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with (
            stages.stage(f"building {name}"),
            tempfile.TemporaryDirectory(dir=folder.parent, prefix=".build-") as work,
        ):
            build(Path(work))
            try:
                os.rename(work, folder)
            except OSError:
                if not folder.exists():  # else somebody else was quicker
                    raise
            else:
                Path(work).mkdir()  # for its own clean-up
    return folder


def _tool(name: str, why: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ClientError(f"{why}, and there is no '{name}' on PATH")
    return found


def run_builder(argv: list[str], folder: Path, what: str) -> None:
    """Run a builder; with its compilers, and what these leave in the temporary folder, it ends when we do."""
    with tempfile.TemporaryDirectory(prefix="notleader-build-") as temporary:
        log = Path(temporary) / "build.log"
        builder = Child(argv, log=log, cwd=folder, env={**os.environ, "TMPDIR": temporary})
        try:
            code = builder.wait()
        except BaseException:
            builder.kill()
            raise
        words = log.read_text(errors="replace", encoding="utf-8")
    if code != 0:
        raise ClientError(f"{what} can't be built: {' '.join(words.split())[-600:]}")
