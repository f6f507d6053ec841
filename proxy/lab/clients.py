"""How to start a client program: each family by the machine's own toolchain, built once per version."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from proxy.lab import jars
from proxy.lab.errors import LabError
from proxy.lab.incident import CLIENTS, Program
from proxy.lab.java import find_java
from proxy.lab.paths import cache_folder
from proxy.lab.process import Child
from proxy.lab.stages import Stages

_DUMP_S = 2.0


class ClientError(LabError):
    """A client program can't be built or started; the text says what is missing."""


def versions(family: str) -> list[str]:
    """The pinned versions of a family, oldest first; none for one that runs as it is installed."""
    return sorted((path.name for path in (CLIENTS / family / "versions").glob("[0-9]*")), key=jars.version_key)


def command(program: Program, stages: Stages) -> list[str]:
    """The command that starts the program, without its arguments; builds it first where that was never done."""
    source = CLIENTS / program.program
    if not source.is_file():
        raise ClientError(f"client program {program.program} does not exist")
    if source.suffix == ".py":
        return [sys.executable, str(source)]
    if source.suffix == ".go":
        return [str(_go(source, program.version, stages) / "program"), f"client_version=sarama {program.version}"]
    if source.suffix == ".java":
        return [*_java(source, program.version, stages), f"client_version={source.parent.name} {program.version}"]
    raise ClientError(f"client program {program.program}: nothing is known about '{source.suffix}' programs")


def dump_stacks(program: Program, child: Child) -> None:
    """Have a program that hangs write the stacks of its threads into its log, where its runtime can."""
    if program.program.endswith(".go"):
        child.send_signal(signal.SIGQUIT)  # the Go runtime's own way; it ends the program
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_DUMP_S)


def _pins(source: Path, version: str) -> Path:
    """The folder that says what this version is built against."""
    pins = source.parent / "versions" / version
    if not version or not pins.is_dir():
        known = ", ".join(versions(source.parent.name))
        raise ClientError(f"{source.parent.name} {version or '(no version)'} is not pinned (known: {known})")
    return pins


def _java(source: Path, version: str, stages: Stages) -> list[str]:
    """Compile one `.java` file against the jars that `versions/<version>/jars.sha256` names; how to run it."""
    lock = _pins(source, version) / "jars.sha256"
    name = f"{source.parent.name} {version}"
    with stages.stage(f"jars of {name}") as say:
        found = jars.fetch(lock, lambda done, total: say(f"{done}/{total}"))
    classpath = os.pathsep.join(map(str, found))

    def build(work: Path) -> None:
        javac = _tool("javac", f"{name} is compiled on this machine")
        _run([javac, "-nowarn", "-d", str(work), "-cp", classpath, str(source)], work, name)

    classes = _built(f"{source.parent.name}-{version}", [source, lock], build, stages)
    java = [str(find_java().executable), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    return [*java, "-cp", f"{classes}{os.pathsep}{classpath}", source.stem]


def _go(source: Path, version: str, stages: Stages) -> Path:
    """Build one `main.go` against the module versions that `versions/<version>/go.mod` and `go.sum` pin."""
    pins = _pins(source, version)

    def build(work: Path) -> None:
        go = _tool("go", f"{source.parent.name} clients are Go programs")
        text = source.read_text()
        # The module moved from Shopify to IBM between the pinned versions; the program is the same.
        if "github.com/Shopify/sarama " in (pins / "go.mod").read_text():
            text = text.replace("github.com/IBM/sarama", "github.com/Shopify/sarama")
        (work / "main.go").write_text(text)
        for name in ("go.mod", "go.sum"):
            shutil.copy(pins / name, work)
        _run([go, "build", "-mod=readonly", "-trimpath", "-o", "program", "."], work, f"{source.parent.name} {version}")

    return _built(f"{source.parent.name}-{version}", [source, pins / "go.mod", pins / "go.sum"], build, stages)


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


def _run(argv: list[str], folder: Path, what: str) -> None:
    ran = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        raise ClientError(f"{what} can't be built: {' '.join(ran.stdout.split())[-600:]}")
