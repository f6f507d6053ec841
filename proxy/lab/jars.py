"""Bring jars from a Maven repository into the cache, each checked against a lock file."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import certifi
import httpx

from proxy.lab.errors import LabError
from proxy.lab.paths import cache_folder

CENTRAL = "https://repo1.maven.org/maven2"
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


def locked_versions(artifact: str) -> list[str]:
    """Versions of an artifact that have a lock file, oldest first."""
    names = (lock.name.removeprefix(f"{artifact}-") for lock in _LOCKS.glob(f"{artifact}-*.sha256"))
    return sorted((name.removesuffix(".sha256") for name in names if name[0].isdigit()), key=version_key)


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def resolve(artifact: str, version: str, poms: Iterable[str], progress: Progress | None = None) -> list[Path]:
    """The jars of `artifact` at `version`, all present in the cache; raises `JarsError`.

    With a lock file the jars come from the local Maven repository or over HTTPS, and every byte is checked.
    Without one, or when no download gets through, Maven resolves `poms` (`group:artifact`, version implied,
    or `group:artifact:version`) under the user's own settings. The second use takes no network.
    """
    lock = _LOCKS / f"{artifact}-{version}.sha256"
    if not lock.exists():
        return _resolve_with_maven(artifact, version, list(poms), "no lock file for it")
    jars = read_lock(lock)
    try:
        return _fetch_all(jars, progress)
    except JarsError as error:
        if shutil.which("mvn") is None:
            raise
        _resolve_with_maven(artifact, version, list(poms), str(error))
        return _fetch_all(jars, progress)


def fetch(lock: Path, progress: Progress | None = None) -> list[Path]:
    """The jars that a lock file names, in the cache; raises `JarsError`."""
    return _fetch_all(read_lock(lock), progress)


def read_lock(lock: Path) -> list[LockedJar]:
    """A lock file's jars; its lines are those of `sha256sum`."""
    lines = (line.split(maxsplit=1) for line in lock.read_text().splitlines() if line)
    return [LockedJar(path=path.strip(), sha256=digest) for digest, path in lines]


def jar_folder() -> Path:
    """The cache's own Maven-style repository."""
    folder = cache_folder() / "jars"
    folder.mkdir(exist_ok=True)
    return folder


def _fetch_all(jars: list[LockedJar], progress: Progress | None) -> list[Path]:
    folder = jar_folder()
    # A jar gets its name by rename after its check, so one that is there is whole.
    missing = [jar for jar in jars if not (folder / jar.path).exists()]
    if missing:
        done = len(jars) - len(missing)
        if progress is not None:
            progress(done, len(jars))
        repository = _repository()
        with (
            httpx.Client(verify=_trust(), timeout=60, follow_redirects=True) as client,
            ThreadPoolExecutor(8) as pool,
        ):
            fetches = [pool.submit(_fetch, jar, folder, client, repository) for jar in missing]
            try:
                for fetch in as_completed(fetches):
                    fetch.result()
                    done += 1
                    if progress is not None:
                        progress(done, len(jars))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return [folder / jar.path for jar in jars]


def _fetch(jar: LockedJar, folder: Path, client: httpx.Client, repository: str) -> None:
    target = folder / jar.path
    target.parent.mkdir(parents=True, exist_ok=True)
    local = Path.home() / ".m2" / "repository" / jar.path
    if local.exists() and _store(local.read_bytes(), jar, target):
        return
    url = f"{repository}/{jar.path}"
    try:
        response = client.get(url)
        response.raise_for_status()
    except httpx.HTTPError as error:
        raise JarsError(f"cannot download {url}: {error}") from error
    if not _store(response.content, jar, target):
        raise JarsError(f"{url} is not the file that was locked (SHA-256 differs)")


def _store(content: bytes, jar: LockedJar, target: Path) -> bool:
    """Write the jar if it is the locked one; false when it is not."""
    if hashlib.sha256(content).hexdigest() != jar.sha256:
        return False
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".part-", delete=False) as part:
        part.write(content)
    os.replace(part.name, target)
    return True


def _trust() -> ssl.SSLContext:
    """The system's authorities (SSL_CERT_FILE included) and certifi's: either alone is missing somewhere."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _repository() -> str:
    """NOTLEADER_MAVEN_URL, else the user's Maven mirror of central, else central."""
    chosen = os.environ.get("NOTLEADER_MAVEN_URL") or _mirror_of_central() or CENTRAL
    return chosen.rstrip("/")


def _mirror_of_central() -> str | None:
    try:
        settings = ElementTree.parse(Path.home() / ".m2" / "settings.xml")
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in settings.iter():
        if mirror.tag.rpartition("}")[2] != "mirror":
            continue
        fields = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in mirror}
        of = fields.get("mirrorOf", "").split(",")
        if "!central" not in of and {"central", "*", "external:*"} & set(of):
            return fields.get("url")
    return None


def _resolve_with_maven(artifact: str, version: str, poms: list[str], why: str) -> list[Path]:
    """Let Maven copy the runtime jars of `poms` into the cache; a killed run leaves nothing that counts."""
    manifest = jar_folder() / f"{artifact}-{version}.list"
    if manifest.exists():
        return [jar_folder() / line for line in manifest.read_text().splitlines()]
    maven = shutil.which("mvn")
    if maven is None:
        known = ", ".join(locked_versions(artifact)) or "none"
        raise JarsError(f"{artifact} {version}: {why}, and there is no Maven (without it: {known})")
    with tempfile.TemporaryDirectory(dir=jar_folder(), prefix=".maven-") as work:
        (Path(work) / "pom.xml").write_text(_pom(poms, version))
        ran = subprocess.run(
            [
                maven,
                "--batch-mode",
                "--quiet",
                _COPY_DEPENDENCIES,
                "-DincludeScope=runtime",
                "-Dmdep.useRepositoryLayout=true",
                f"-DoutputDirectory={work}/jars",
            ],
            cwd=work,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if ran.returncode != 0:
            said = next((line for line in ran.stdout.splitlines() if "[ERROR]" in line), ran.stdout[-400:])
            raise JarsError(f"{artifact} {version}: {why}; Maven said: {said}")
        copied = sorted(path.relative_to(f"{work}/jars") for path in Path(work, "jars").rglob("*.jar"))
        for path in copied:
            target = jar_folder() / path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(Path(work, "jars", path), target)
        listing = Path(work) / "list"
        listing.write_text("".join(f"{path}\n" for path in copied))
        os.replace(listing, manifest)
    return [jar_folder() / path for path in copied]


def _pom(dependencies: list[str], version: str) -> str:
    blocks = []
    for dependency in dependencies:
        group, name, *own = dependency.split(":")
        blocks.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{own[0] if own else version}</version>"
            "<exclusions>"
            # kafka-tools drags in all of Connect, and older ones a second logging backend.
            "<exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId></exclusion>"
            "<exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion>"
            "</exclusions></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>notleader.lab</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{''.join(blocks)}</dependencies></project>\n"
    )
