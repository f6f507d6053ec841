"""Programs that tests need besides Python: found, or the test fails and says what to install."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

# Where a program comes from on Debian and Ubuntu; scripts/test-tools.sh installs these where it may.
PACKAGES = {
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "mvn": "maven",
    "go": "golang-go",
    "node": "nodejs",
    "npm": "npm",
    "cargo": "cargo",
    "chromium": "chromium",
    "tshark": "tshark",
    "kcat": "kcat",
    "ip": "iproute2",
    "iptables": "iptables",
    "nft": "nftables",
    "gpg": "gnupg",
}


def need(program: str) -> str:
    """The path of a program. A missing one fails the test: what isn't tested isn't known to work."""
    found = shutil.which(program)
    if found is None:
        pytest.fail(f"{program} is not installed; `make test` installs {PACKAGES[program]} where it may", pytrace=False)
    return found


def unable(reason: str) -> NoReturn:
    """What this machine doesn't allow (root, mounts): skipped at home, a failure in CI, which allows it."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
