"""What lies in the user's folder is run by no process that notleader starts for itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from notleader.proxy.record import helpers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file named like each module of Python's own, which says that it was run."""
    for name in sys.stdlib_module_names:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run.txt')!r}, 'a').write('{name} ')\n")
    return tmp_path


@pytest.mark.parametrize("options", [[], ["--workers", "2"]], ids=["alone", "workers"])
def test_no_file_in_the_working_folder_is_run_by_what_records(folder: Path, options: list[str]) -> None:
    command = helpers.command("notleader", "run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--json")
    recording = [*command, "--admin", "127.0.0.1:0", "--capture", "recorded", *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    with subprocess.Popen(recording, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert "listen" in json.loads(run.stdout.readline())
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == 0
    assert not (folder / "run.txt").exists()


def test_what_a_test_has_put_first_on_its_path_is_importable_and_stands_in_for_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "only_here.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    told = helpers.environment()
    program = "import queue, grp, pydantic, only_here; import notleader.proxy.recorder"
    subprocess.run([sys.executable, "-c", program], cwd=folder.parent, env=told, check=True)
    assert not (folder / "run.txt").exists()


def test_what_is_installed_is_all_that_is_told_where_there_is_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix)) and Path(path).is_dir()]
    monkeypatch.setattr(sys, "path", [str(Path(sys.executable).parent), *installed])
    assert helpers.environment({}) == {"PYTHONSAFEPATH": "1"}
