"""What is in the wheel and the sdist, and what is not."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import PurePosixPath

from tests.release.conftest import PROJECT, Release

PACKAGES = ("proxy", "faults", "spark_analysis", "recorders")
VERSION: str = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]


def test_the_wheel_has_all_files_of_the_packages(release: Release) -> None:
    """Code, message definitions, incidents with their client programs, dashboard, report assets, py.typed."""
    with zipfile.ZipFile(release.wheel) as wheel:
        inside = {name for name in wheel.namelist() if not name.endswith("/")}
    packed = {name for name in inside if ".dist-info/" not in name}
    ours = {
        f"notleader/{path.relative_to(release.source).as_posix()}"
        for package in PACKAGES
        for path in (release.source / package).rglob("*")
        if path.is_file()
    }
    assert ours <= packed
    assert {PurePosixPath(name).parts[0] for name in packed} == {"notleader"}
    assert {f"notleader/{package}/py.typed" for package in PACKAGES} <= packed
    for needed in ("proxy/admin/static/", "proxy/wire/schemas/", "faults/incidents/clients/", "proxy/lab/locks/"):
        assert any(name.startswith(f"notleader/{needed}") for name in packed), needed
    assert not [name for name in packed if name.endswith((".pyc", ".class", ".jar"))]


def test_the_wheel_says_what_it_is(release: Release) -> None:
    folder = f"notleader-{VERSION}.dist-info"
    with zipfile.ZipFile(release.wheel) as wheel:
        metadata = HeaderParser().parsestr(wheel.read(f"{folder}/METADATA").decode())
        names = set(wheel.namelist())
        assert b"notleader = notleader.proxy.__main__:main" in wheel.read(f"{folder}/entry_points.txt")
    assert metadata["Name"] == "notleader"
    assert metadata["Version"] == VERSION
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {f"{folder}/licenses/LICENSE", f"{folder}/licenses/NOTICE"} <= names
    extras = {"capture", "analysis", "lab", "explore", "otel", "all", "spark", "kafka"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras


def test_the_sdist_can_be_built_and_tested_and_has_nothing_that_lies_around(release: Release) -> None:
    with tarfile.open(release.sdist) as sdist:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in sdist.getnames()}
    for needed in ("pyproject.toml", "LICENSE", "NOTICE", "CHANGELOG.md", "Makefile", "tests/__init__.py"):
        assert needed in names
    unwanted = (".venv", "out", "notleader-demo", "build", "dist", "node_modules", ".git")
    assert not [name for name in names if PurePosixPath(name).parts[:1] in [(part,) for part in unwanted]]
    assert not [name for name in names if "__pycache__" in name]
    assert release.sdist.stat().st_size < 10 << 20
    assert release.wheel.stat().st_size < 10 << 20


def test_the_changelog_has_this_version() -> None:
    assert f"## {VERSION}" in (PROJECT / "CHANGELOG.md").read_text()
