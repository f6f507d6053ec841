"""A Toxiproxy server as its authors make it, and `notleader toxiproxy`: both are asked the same."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from notleader.proxy.lab.ports import free_ports
from tests.tools.programs import need

VERSION = "2.12.0"
_MODULE = f"github.com/Shopify/toxiproxy/v2@v{VERSION}"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "notleader" / "toxiproxy"


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of Toxiproxy's Go module, tests included, that may be written to."""
    done = subprocess.run(
        (need("go"), "mod", "download", "-json", _MODULE), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    copy = tmp_path_factory.mktemp("toxiproxy") / "module"
    shutil.copytree(json.loads(done.stdout)["Dir"], copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    return copy


@contextlib.contextmanager
def _served(*command: str) -> Iterator[str]:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen((*command, "-port", str(port)), stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{url}/version", trust_env=False)
                break
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """The address of `notleader toxiproxy`."""
    with _served(sys.executable, "-m", "notleader.proxy", "toxiproxy", "-proxy-metrics") as url:
        yield url


@pytest.fixture(scope="module")
def theirs(module: Path) -> Iterator[str]:
    """The address of a Toxiproxy server, built once per machine."""
    binary = _CACHE / f"server-{VERSION}"
    if not binary.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run((need("go"), "build", "-o", str(binary), "./cmd/server"), cwd=module, check=True, timeout=600)
    with _served(str(binary), "-proxy-metrics") as url:
        yield url
