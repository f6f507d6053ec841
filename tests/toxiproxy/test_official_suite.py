"""Toxiproxy's own test suite, aimed at `notleader toxiproxy`: every test of it that speaks to a server.

The suite makes its servers and proxies in its own process. `remote.go` takes the place of what it makes them with: the
same names, but each call goes over HTTP to the server at hand. Left out are the tests of the insides (links, stubs).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.programs import need
from tests.toxiproxy.conftest import VERSION

pytestmark = pytest.mark.toxiproxy

_INSIDES = ("link_test.go", "metrics_test.go")
_TURNS = 5
_OF_TOXICS = "Latency|BandwidthToxic|Reset|TimeoutToxic|Persistent|AddRemove"


def _aimed(module: Path) -> Path:
    for source in module.glob("*.go"):
        if not source.name.endswith("_test.go") or source.name in _INSIDES:
            source.unlink()
    shutil.copy(Path(__file__).parent / "remote.go", module)
    api = module / "api_test.go"
    # A build of one's own is of the version "git".
    api.write_text(api.read_text().replace('\\"git\\"', f'\\"{VERSION}\\"'))
    return module


def _outcomes(module: Path, url: str, package: str, tests: str) -> dict[str, str]:
    """How each test ended, by its name. What failed has more turns: some allow 10 ms, which a busy machine may take."""
    ended: dict[str, str] = {}
    for _ in range(_TURNS):
        command = (need("go"), "test", "-count=1", "-json", "-timeout", "300s", "-run", tests, package)
        environment = {**os.environ, "TOXIPROXY_URL": url}
        done = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, timeout=600)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for event in events:
            if "Test" in event and event["Action"] in ("pass", "fail"):
                ended[event["Test"]] = event["Action"]
        failed = sorted(name for name, action in ended.items() if action == "fail")
        if not failed and done.returncode == 0:
            break
        print("".join(event.get("Output", "") for event in events), done.stderr)
        tests = "|".join(f"^{name}$" for name in failed) or tests
    return ended


def test_all_of_it_that_speaks_to_a_server_passes(module: Path, ours: str) -> None:
    aimed = _aimed(module)
    port = ours.rpartition(":")[2]
    api = aimed / "api_test.go"
    api.write_text(api.read_text().replace("8475", port))
    of_the_server = _outcomes(aimed, ours, ".", ".")
    assert set(of_the_server.values()) == {"pass"}
    assert len(of_the_server) == 50  # 34 of the API, 11 of proxies, 5 of their collection
    of_toxics = _outcomes(aimed, ours, "./toxics", _OF_TOXICS)
    assert set(of_toxics.values()) == {"pass"}
    assert len(of_toxics) == 18
