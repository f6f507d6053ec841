"""Bring jars into the cache, with Maven or jgo, each checked against a lock file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.paths import cache_folder

_LOCKS = Path(__file__).parent / "locks"
_COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

Progress = Callable[[int, int], None]
"""Called with (jars there, jars in all)."""


class JarsError(LabError):
    """The jars can't be had; the text names the first one that failed, and why."""


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One jar by its path in a Maven repository and the SHA-256 of its bytes."""

    path: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`, with `:classifier` where it has one, as its path spells them."""
        *group, name, version, file = self.path.split("/")
        classifier = file.removeprefix(f"{name}-{version}").removesuffix(".jar").removeprefix("-")
        return ":".join(filter(None, (".".join(group), name, version, classifier)))


def locked_versions(artifact: str) -> list[str]:
    """Versions of an artifact that have a lock file, oldest first."""
    names = (lock.name.removeprefix(f"{artifact}-") for lock in _LOCKS.glob(f"{artifact}-*.sha256"))
    return sorted((name.removesuffix(".sha256") for name in names if name[0].isdigit()), key=version_key)


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def resolve(artifact: str, version: str, poms: Iterable[str], progress: Progress | None = None) -> list[Path]:
    """The jars of `artifact` at `version`, all present in the cache; raises `JarsError`.

    With a lock file every byte is checked. Without one Maven resolves `poms` (`group:artifact`, version implied, or
    `group:artifact:version`) under the user's own settings. The second use takes no network.
    """
    lock = _LOCKS / f"{artifact}-{version}.sha256"
    if not lock.exists():
        return _resolve_with_maven(artifact, version, list(poms))
    return fetch(lock, progress)


def fetch(lock: Path, progress: Progress | None = None) -> list[Path]:
    """The jars that a lock file names, in the cache; raises `JarsError`.

    What isn't there comes from the local Maven repository, else with jgo, else with Maven under the user's own
    settings; Maven goes first where there are settings.
    """
    jars = read_lock(lock)
    folder = jar_folder()
    # A jar gets its name by rename after its check, so one that is there is whole.
    missing = [jar for jar in jars if not (folder / jar.path).exists()]
    missing = [jar for jar in missing if not _kept_by_maven(jar)]
    if missing:
        if progress is not None:
            progress(len(jars) - len(missing), len(jars))
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as work:
            for done, (jar, file) in enumerate(_download(missing, Path(work)), len(jars) - len(missing) + 1):
                if not _store(file.read_bytes(), jar):
                    raise JarsError(f"{jar.path} is not the file that was locked (SHA-256 differs)")
                if progress is not None:
                    progress(done, len(jars))
    return [folder / jar.path for jar in jars]


def kept(lock: Path) -> list[Path] | None:
    """The jars that a lock file names where all of them are in the cache already, else None."""
    paths = [jar_folder() / jar.path for jar in read_lock(lock)]
    return paths if all(path.exists() for path in paths) else None


def read_lock(lock: Path) -> list[LockedJar]:
    """A lock file's jars; its lines are those of `sha256sum`."""
    lines = (line.split(maxsplit=1) for line in lock.read_text("utf-8").splitlines() if line)
    return [LockedJar(path=path.strip(), sha256=digest) for digest, path in lines]


def jar_folder() -> Path:
    """The cache's own Maven-style repository."""
    folder = cache_folder() / "jars"
    folder.mkdir(exist_ok=True)
    return folder


def _kept_by_maven(jar: LockedJar) -> bool:
    local = Path.home() / ".m2" / "repository" / jar.path
    return local.exists() and _store(local.read_bytes(), jar)


def _store(content: bytes, jar: LockedJar) -> bool:
    """Put the jar into the cache if it is the locked one; false when it is not."""
    if hashlib.sha256(content).hexdigest() != jar.sha256:
        return False
    target = jar_folder() / jar.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".part-", delete=False) as part:
        part.write(content)
    os.replace(part.name, target)
    return True


def _download(jars: list[LockedJar], work: Path) -> Iterator[tuple[LockedJar, Path]]:
    """Bring the jars somewhere below `work`, and yield each that is there."""
    ways = []
    if importlib.util.find_spec("jgo") is not None:
        ways.append(_download_with_jgo)
    if shutil.which("mvn") is not None:
        # Who has settings has reasons: a mirror, a proxy. Without them jgo is quicker than Maven's first start.
        ways.insert(0 if (Path.home() / ".m2" / "settings.xml").exists() else 1, _download_with_maven)
    if not ways:
        raise JarsError(
            f"{jars[0].path}: there is neither Maven nor jgo to fetch it. Install Maven, or let pip do it:"
            " pip install 'notleader[lab]'"
        )
    for way in ways:
        try:
            yield from way([jar for jar in jars if not (jar_folder() / jar.path).exists()], work / way.__name__)
        except JarsError:
            if way is ways[-1]:
                raise
        else:
            return


def _download_with_maven(jars: list[LockedJar], work: Path) -> Iterator[tuple[LockedJar, Path]]:
    # One project: exactly these, and nothing that they depend on.
    _copy_with_maven([(jar.coordinates, "*:*") for jar in jars], work)
    yield from ((jar, work / jar.path) for jar in jars)


def _download_with_jgo(jars: list[LockedJar], work: Path) -> Iterator[tuple[LockedJar, Path]]:
    """jgo knows Maven Central by itself; NOTLEADER_MAVEN_URL names another repository."""
    maven = importlib.import_module("jgo.maven")
    # requests, below jgo, trusts its own list of authorities only, unless told of the system's.
    system = ssl.get_default_verify_paths().cafile
    if system is not None:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", system)
    chosen = os.environ.get("NOTLEADER_MAVEN_URL")
    context = maven.MavenContext(
        repo_cache=work, remote_repos={"chosen": chosen.rstrip("/")} if chosen else None, timeout=60
    )

    def bring(jar: LockedJar) -> tuple[LockedJar, Path]:
        group, name, version, *classifier = jar.coordinates.split(":")
        try:
            context.project(group, name).at_version(version).artifact(*classifier).resolve()
        except (RuntimeError, OSError) as error:  # OSError: requests' own are
            raise JarsError(f"cannot download {jar.path}: {error}") from error
        return jar, work / jar.path

    failed: JarsError | None = None
    with ThreadPoolExecutor(8) as pool:
        fetches = [pool.submit(bring, jar) for jar in jars]
        try:
            for fetched in as_completed(fetches):
                try:
                    yield fetched.result()
                except CancelledError:
                    continue
                except JarsError as error:
                    # Those on their way are kept: the next try has less to do.
                    failed = failed or error
                    pool.shutdown(wait=False, cancel_futures=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failed is not None:
        raise failed


def _resolve_with_maven(artifact: str, version: str, poms: list[str]) -> list[Path]:
    """Let Maven copy the runtime jars of `poms` into the cache; a killed run leaves nothing that counts."""
    manifest = jar_folder() / f"{artifact}-{version}.list"
    if manifest.exists():
        return [jar_folder() / line for line in manifest.read_text("utf-8").splitlines()]
    if shutil.which("mvn") is None:
        known = ", ".join(locked_versions(artifact)) or "none"
        raise JarsError(f"{artifact} {version}: no lock file for it, and there is no Maven (without it: {known})")
    # kafka-tools drags in all of Connect, and older ones a second logging backend.
    without = ("org.apache.kafka:connect-runtime", "org.slf4j:slf4j-reload4j")
    with tempfile.TemporaryDirectory(dir=jar_folder(), prefix=".maven-") as work:
        wanted = [pom if pom.count(":") == 2 else f"{pom}:{version}" for pom in poms]
        _copy_with_maven([(each, *without) for each in wanted], Path(work, "jars"))
        copied = sorted(path.relative_to(f"{work}/jars") for path in Path(work, "jars").rglob("*.jar"))
        for path in copied:
            target = jar_folder() / path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(Path(work, "jars", path), target)
        listing = Path(work) / "list"
        listing.write_text("".join(f"{path}\n" for path in copied), "utf-8")
        os.replace(listing, manifest)
    return [jar_folder() / path for path in copied]


def _copy_with_maven(dependencies: list[tuple[str, ...]], folder: Path) -> None:
    """Copy the jars of `group:artifact:version[:classifier]` (without what each isn't to bring along) into `folder`."""
    maven = shutil.which("mvn")
    assert maven is not None
    with tempfile.TemporaryDirectory(prefix="notleader-maven-") as project:
        Path(project, "pom.xml").write_text(_pom(dependencies), "utf-8")
        ran = subprocess.run(
            [
                maven,
                "--batch-mode",
                "--quiet",
                _COPY_DEPENDENCIES,
                "-DincludeScope=runtime",
                "-Dmdep.useRepositoryLayout=true",
                f"-DoutputDirectory={folder}",
            ],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if ran.returncode != 0:
        said = next((line for line in ran.stdout.splitlines() if "[ERROR]" in line), ran.stdout[-400:])
        raise JarsError(f"{dependencies[0][0]}: Maven said: {said}")


def _pom(dependencies: list[tuple[str, ...]]) -> str:
    blocks = []
    for coordinates, *without in dependencies:
        group, name, version, *classifier = coordinates.split(":")
        exclusions = (each.split(":") for each in without)
        blocks.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            + "".join(f"<classifier>{each}</classifier>" for each in classifier)
            + "<exclusions>"
            + "".join(
                f"<exclusion><groupId>{g}</groupId><artifactId>{a}</artifactId></exclusion>" for g, a in exclusions
            )
            + "</exclusions></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>notleader.lab</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{''.join(blocks)}</dependencies></project>\n"
    )
