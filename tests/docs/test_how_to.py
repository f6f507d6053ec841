"""The shell blocks of the tutorial and the how-tos, run as they stand: one script per page, in an empty folder.

Only ports are others, since those of the pages may be taken, and what installs something is left out: there is
nothing to install here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from notleader.proxy.lab.ports import free_ports
from tests.docker.image import PROJECT
from tests.tools.programs import need

pytestmark = pytest.mark.kafka
DOCS = PROJECT / "docs"


def script(page: Path) -> str:
    """All ```sh blocks of a page, on ports of their own."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    text = re.sub(r"^pip install .*$", ":", "\n".join(blocks), flags=re.MULTILINE)
    # The proxy takes its port and the next; so four in a row, of which the second is for the one broker.
    kafka, listen, broker, admin, toxic = free_ports(5)
    for port, ours in ((19092, listen), (29092, toxic), (8474, admin)):
        text = text.replace(str(port), str(ours))
    text = re.sub(r"\b9092\b", str(kafka), text)
    text = text.replace(f"--listen localhost:{listen}", f"--listen localhost:{listen} --broker-ports {broker}")
    return f"set -euo pipefail\nexport NOTLEADER_ADMIN=127.0.0.1:{admin}\n{text}"


@pytest.mark.parametrize(
    "page",
    [
        "tutorial.md",
        "http-api.md",
        "how-to/ci-leader-election.md",
        "how-to/move-from-toxiproxy.md",
        "how-to/replay.md",
        "uses/sidecar.md",
        "uses/fault-server.md",
        "uses/capture-tool.md",
    ],
)
def test_the_commands_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    for program in ("bash", "curl", "kcat"):
        need(program)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "XDG_STATE_HOME": str(tmp_path)}
    # Files and not pipes: what a failing page leaves running would keep a pipe open.
    with open(tmp_path / "out", "w+") as told, open(tmp_path / "err", "w+") as complained:
        ran = subprocess.Popen(
            ["bash", "-c", script(DOCS / page)],
            cwd=tmp_path,
            env=env,
            stdout=told,
            stderr=complained,
            start_new_session=True,
        )
        try:
            ran.wait(timeout=600)
        finally:
            if ran.returncode != 0:
                with contextlib.suppress(ProcessLookupError):  # what failed may have left nothing running
                    os.killpg(ran.pid, signal.SIGTERM)
    out, err = (tmp_path / "out").read_text(), (tmp_path / "err").read_text()
    assert ran.returncode == 0, out + err
    assert "never hit" not in err
    if page == "tutorial.md":
        assert re.search(r"^100$", out, flags=re.MULTILINE)
        assert re.search(r"^200$", out, flags=re.MULTILINE)
    if page == "uses/capture-tool.md":
        (query,) = re.findall(r"^```sql\n(.*?)^```$", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)
        asked = duckdb.sql(query.replace("'traffic/", f"'{tmp_path}/traffic/")).fetchall()
        assert {api for _, api, *_ in asked} >= {"Produce", "Fetch", "Metadata"}


def test_the_bill_of_materials(tmp_path: Path) -> None:
    """`sh docker/sbom.sh PYTHON OUT`, on a small environment."""
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    sh = shutil.which("sh")
    assert sh
    subprocess.run([sh, "docker/sbom.sh", str(python), str(tmp_path / "bill.json")], cwd=PROJECT, env=env, check=True)
    assert '"name": "pip"' in (tmp_path / "bill.json").read_text()
