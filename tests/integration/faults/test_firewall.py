"""A black hole is what a firewall's DROP is: measured beside one, in a network namespace made for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).with_name("firewalled.py")
_PACKAGES = {"ip": "iproute2", "nft": "nftables"}


@pytest.fixture
def namespace() -> Iterator[str]:
    """The name of a network namespace with a loopback; what makes and walls it is installed where it is missing."""
    if os.geteuid() != 0:
        pytest.skip("only root may make a network namespace and a firewall")
    missing = [package for tool, package in _PACKAGES.items() if shutil.which(tool) is None]
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "install", "-y", "-q", *missing], check=True, env=environment, timeout=120)
    name = f"notleader-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_client_gives_up_as_soon_as_behind_a_firewall(namespace: str) -> None:
    ran = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, str(_SCRIPT)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    measured = json.loads(ran.stdout)
    for behind_drop, behind_ours in measured.values():
        assert behind_drop > 2.5, "the firewall was there"
        assert behind_ours == pytest.approx(behind_drop, rel=0.05)
