"""Spark's start, kept: an archive of the classes that a short run loads, so that the next one needn't parse them again.

Most of a short analysis is Java finding, checking and linking some twenty thousand classes. HotSpot can write them out
once and map them in later (JEP 350, dynamic archives). One archive per Spark and Java, below the user's cache folder;
a Java that can't, an archive that no longer fits and a folder that can't be written to mean a slower start, no more.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyspark

# Of other environments and earlier versions; each has some 190 MB.
_MOST_ARCHIVES = 3


def java_options() -> str:
    """What Java is to be started with: the archive when there is one, else what makes `keep` possible."""
    archive = _archive()
    if archive is None:
        return ""
    # What Java has to say of an archive it can't use would go to stdout, where the caller's answer goes.
    quiet = "-Xlog:disable -Xlog:all=error:stderr -Xshare:auto -XX:+IgnoreUnrecognizedVMOptions"
    wanted = f"-XX:SharedArchiveFile={archive}" if archive.exists() else "-XX:+RecordDynamicDumpInfo"
    return f"{quiet} {wanted}"


def keep(spark: Any) -> bool:
    """Write the classes that `spark`'s Java has loaded by now to the archive unless there is one; True when written."""
    archive = _archive()
    if archive is None or archive.exists():
        return False
    fresh = archive.with_name(f"{archive.stem}.{os.getpid()}.jsa")
    try:
        _dump(spark.sparkContext, fresh)
        fresh.replace(archive)
        for old in sorted(archive.parent.glob("*.jsa"), key=lambda file: -file.stat().st_mtime)[_MOST_ARCHIVES:]:
            old.unlink(missing_ok=True)
    except Exception:
        fresh.unlink(missing_ok=True)
        return False
    return True


def _dump(context: Any, to: Path) -> None:
    """Ask HotSpot's diagnostic command for it, through its public interface: the bean's class is not for us to see."""
    jvm, gateway = context._jvm, context._gateway

    def array(kind: Any, *values: Any) -> Any:
        made = gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made

    named = jvm.java.lang.Class.forName
    strings, objects = "[Ljava.lang.String;", "[Ljava.lang.Object;"
    types = [named(name) for name in ("javax.management.ObjectName", "java.lang.String", objects, strings)]
    invoke = named("javax.management.MBeanServer").getMethod("invoke", array(jvm.java.lang.Class, *types))
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    bean = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    command = array(jvm.Object, array(jvm.String, "dynamic_dump", str(to)))
    invoke.invoke(server, array(jvm.Object, bean, "vmCds", command, array(jvm.String, strings)))


def _archive() -> Path | None:
    """Where the archive of this Spark on this Java is or would be; None without a cache folder or a space-free path."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    try:
        stamp = java.resolve().stat()
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folder = Path(cache) / "notleader" / "spark"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    named = f"{pyspark.__version__} {pyspark.__file__} {java.resolve()} {stamp.st_size} {stamp.st_mtime_ns}"
    archive = folder / f"{hashlib.sha256(named.encode()).hexdigest()[:16]}.jsa"
    # A Java in a temporary folder (`session.ensure_java`) is another one each time.
    temporary = java.is_relative_to(tempfile.gettempdir())
    return None if temporary or " " in str(archive) else archive
