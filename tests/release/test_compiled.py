"""What is compiled: in the wheel where a compiler works, left out, with one line that says so, where none does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.release.conftest import PROJECT, Release


def libraries(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as opened:
        return [name for name in opened.namelist() if name.endswith((".so", ".pyd", ".c"))]


def test_the_wheel_is_for_this_python_and_compiled(release: Release, installed: Path, tmp_path: Path) -> None:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{tag}-{tag}-manylinux_2_" in release.wheel.name
    assert sorted(name.partition(".")[0] for name in libraries(release.wheel)) == [
        "notleader/proxy/pump/probe",
        "notleader/proxy/pump/pump",
        "notleader/proxy/record/block_writer",
        "notleader/proxy/recorder/pages",
    ]
    asked = "import notleader.proxy.pump as p; print(p.Pump.__module__, p.Probe.__module__)"
    told = subprocess.run(
        [str(installed / "python"), "-c", asked], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert told.stdout == "notleader.proxy.pump.pump notleader.proxy.pump.probe\n"


def test_the_wheel_runs_where_its_name_says(release: Release) -> None:
    """By auditwheel, which decides it for the Python Packaging Authority."""
    told = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(release.wheel)], capture_output=True, text=True, timeout=120
    )
    assert told.returncode == 0, told.stderr
    (found,) = set(re.findall(r'platform tag: "(manylinux_2_[0-9]+_\w+)"', " ".join(told.stdout.split())))
    assert release.wheel.stem.endswith(found)


def test_the_sdist_has_what_it_is_compiled_from(release: Release) -> None:
    with tarfile.open(release.sdist) as sdist:
        names = [name.partition("/")[2] for name in sdist.getnames()]
    compiled = {f"proxy/pump/{name}.{kind}" for name in ("probe", "pump") for kind in ("pyx", "pxd")}
    compiled |= {"proxy/record/block_writer.pyx", "proxy/recorder/pages.pyx"}
    assert {*compiled, "scripts/build_native.py"} <= set(names)
    assert not [name for name in names if name.endswith((".so", ".c", ".o")) or name.startswith("build/")]


@pytest.fixture(scope="module")
def build_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has what pyproject.toml says a build takes."""
    folder = tmp_path_factory.mktemp("tools") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    wanted = tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]["requires"]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q"]
    subprocess.run([*pip, *wanted], check=True, timeout=300)
    return folder / "bin/python"


def test_a_checkout_that_was_copied_builds_in_itself(build_tools: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "proxy").mkdir(parents=True)
    package = "build/package/notleader"
    for name in ("first", "second"):
        ask = f"import pathlib, build_native; build_native.packages(pathlib.Path({str(tmp_path / name)!r}))"
        subprocess.run([str(build_tools), "-c", ask], cwd=PROJECT / "scripts", check=True)
        assert (tmp_path / name / package / "proxy").resolve() == tmp_path / name / "proxy"
        if name == "first":
            # As it was made once: by its whole path, which a copy keeps.
            (tmp_path / "second" / package).mkdir(parents=True)
            (tmp_path / "second" / package / "proxy").symlink_to(tmp_path / "first/proxy")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [({"CC": "/bin/false"}, "/bin/false"), ({"NOTLEADER_PURE": "1"}, "as NOTLEADER_PURE asks")],
    ids=["no compiler", "not wanted"],
)
def test_without_it_the_wheel_is_for_any_python(
    release: Release, build_tools: Path, tmp_path: Path, setting: dict[str, str], reason: str
) -> None:
    source = tmp_path / "source"
    shutil.copytree(release.source, source)
    (source / "proxy/record/block_writer.cpython-39-of-another-day.so").touch()
    built = subprocess.run(
        [str(build_tools), "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=source,
        env={**os.environ, **setting},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert libraries(wheel) == []
    (line,) = [line for line in built.stderr.splitlines() if line.startswith("notleader: ")]
    assert "without its compiled part" in line
    assert reason in line
