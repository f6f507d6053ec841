"""The API keeps what its OpenAPI document promises: schemathesis makes up the requests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.admin.conftest import Controlled

CONFIG = Path(__file__).with_name("schemathesis.toml")


async def test_schemathesis_finds_nothing(
    controlled: Controlled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # it starts recordings, too, in folders with made-up names
    child = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file",
        str(CONFIG),
        "--no-color",
        "run",
        f"{controlled.url}/openapi.json",
        "--max-examples=10",
        "--seed=1",
        "--request-timeout=300",
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(child.communicate(), 1200)
    assert child.returncode == 0, output.decode()
