"""Pin a release of a client library that notleader doesn't come with: its whole tree of packages, written down once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from notleader.proxy.lab import clients, jars
from notleader.proxy.lab.bisect.asking import asked
from notleader.proxy.lab.bisect.releases import JAVA_ARTIFACTS, NODE_PACKAGES, PYTHON_PACKAGES, module_of
from notleader.proxy.lab.clients import ClientError
from notleader.proxy.lab.incident import CLIENTS
from notleader.proxy.lab.stages import Stages
from notleader.proxy.record import helpers


def pin(program: str, version: str, stages: Stages) -> None:
    """Have `program` built against that release from now on; raises ClientError when it can't be had.

    What comes with notleader stays as it is. The others' pins lie in the cache.
    """
    family = Path(program).parts[0]
    if clients.pins(family, version) is not None:
        return
    way = _WAYS.get(Path(program).suffix)
    if way is None:
        raise ClientError(f"{program}: releases of such programs can't be pinned here")
    folder = clients.cached_pins(family, version)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        stages.stage(f"{family} {version}: its packages"),
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pin-") as work,
    ):
        way(Path(work), program, version)
        if not folder.exists():
            shutil.copytree(work, f"{work}.whole")
            os.rename(f"{work}.whole", folder)


def _go(work: Path, program: str, version: str) -> None:
    family = Path(program).parts[0]
    module = module_of(family, version)
    major = f"{module} v{version}" + ("+incompatible" if _is_incompatible(module, version) else "")
    (work / "go.mod").write_text(f"module notleader.lab/{family}\n\ngo 1.21\n\nrequire {major}\n", "utf-8")
    clients.write_go_sources(CLIENTS / program, (work / "go.mod").read_text("utf-8"), work)
    asked(["go", "mod", "tidy"], work, f"{family} {version} can't be had")
    if f"{module} v{version}" not in (work / "go.mod").read_text("utf-8"):
        raise ClientError(f"{family} {version}: another package that the program needs asks for a newer one")
    for file in work.glob("*.go"):
        file.unlink()


def _is_incompatible(module: str, version: str) -> bool:
    """A major version above 1 whose path doesn't say so."""
    return int(version.split(".")[0]) > 1 and not module.endswith(f"/v{version.split('.')[0]}")


def _python(work: Path, program: str, version: str) -> None:
    family = Path(program).parts[0]
    wanted = f"{PYTHON_PACKAGES[family]}=={version}"
    argv = helpers.command("pip", "install", "--quiet", "--disable-pip-version-check", "--ignore-installed")
    said = asked([*argv, "--dry-run", "--report", "-", wanted], work, f"{wanted} can't be had")
    found = [each["metadata"] for each in json.loads(said)["install"]]
    (work / "requirements.txt").write_text("".join(f"{each['name']}=={each['version']}\n" for each in found), "utf-8")


def _node(work: Path, program: str, version: str) -> None:
    name = NODE_PACKAGES[Path(program).parts[0]]
    package = {"name": "program", "version": "1.0.0", "private": True, "dependencies": {name: version}}
    (work / "package.json").write_text(json.dumps(package, indent=2) + "\n", "utf-8")
    argv = ["npm", "install", "--package-lock-only", "--silent"]
    asked([*argv, "--no-audit", "--no-fund"], work, f"{name} {version} can't be had")


def _java(work: Path, program: str, version: str) -> None:
    artifact = JAVA_ARTIFACTS[Path(program).parts[0]]
    found = jars.resolve(artifact.split(":")[1], version, [artifact, "org.slf4j:slf4j-simple:1.7.36"])
    root = jars.jar_folder()
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in sorted(found))
    (work / "jars.sha256").write_text("".join(lines), "utf-8")


_WAYS = {".go": _go, ".py": _python, ".js": _node, ".java": _java}
