"""A black hole is what a firewall's DROP is: measured beside one, in a network namespace made for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.programs import need, unable

_SCRIPT = Path(__file__).with_name("firewalled.py")


@pytest.fixture
def namespace() -> Iterator[str]:
    """The name of a network namespace with a loopback, in which a firewall can be put up."""
    if os.geteuid() != 0:
        unable("only root may make a network namespace and a firewall")
    need("ip"), need("nft")
    name = f"notleader-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.kafka
def test_a_client_gives_up_as_soon_as_behind_a_firewall(namespace: str) -> None:
    ran = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, str(_SCRIPT)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )
    measured = json.loads(ran.stdout)
    print(json.dumps(measured))
    assert len(measured) == 4
    for what, (behind_drop, behind_ours) in measured.items():
        assert behind_drop > 2.5, f"{what}: the firewall was there"
        assert behind_ours == pytest.approx(behind_drop, rel=0.05), what
