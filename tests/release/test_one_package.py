"""The wheel beside a user's own `proxy.py`, `faults.py`, `tools/` and `tests/`: each is the user's."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.release.conftest import Release
from tests.release.test_commands import notleader

NAMES = ("proxy", "faults", "spark_analysis", "recorders")


def test_a_project_with_modules_of_the_same_names_keeps_them(installed: Path, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("OWNER = 'user'\n")
    for name in ("tools", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'user'\n")
    (tmp_path / "tests" / "test_own.py").write_text(
        "import proxy, faults, spark_analysis, recorders, tests, tools\n"
        "import notleader.faults.plan, notleader.proxy.wire\n"
        "def test_own():\n"
        "    for module in (proxy, faults, spark_analysis, recorders, tests, tools):\n"
        "        assert module.OWNER == 'user'\n"
    )
    pip = ["-m", "pip", "--python", str(installed / "python"), "install", "-q", "--no-compile", "pytest>=9"]
    subprocess.run([sys.executable, *pip], check=True, timeout=300)
    ran = subprocess.run(
        [str(installed / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={"PATH": str(installed), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
    code, out, err = notleader(installed, "fault", "kinds", "--json", folder=tmp_path)
    assert (code, err) == (0, ""), err
    assert "leader_election" in out


def test_the_wheel_writes_over_nobody(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"notleader"}
