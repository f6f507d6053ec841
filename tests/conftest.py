"""For all tests: one Spark judges what their commands record, and no example has a deadline."""

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

from notleader.spark_analysis import resident

# How long an example takes depends on what else the machine does.
settings.register_profile("unhurried", parent=settings.default, deadline=None)
settings.load_profile("unhurried")

_SPARKS = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """As for a user the Spark of the first analysis does the next ones, too; it is theirs and ends with them."""
    os.environ.setdefault("NOTLEADER_SPARK_WARM", "keep")
    # A socket's path is short.
    config.stash[_SPARKS] = os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="nl-", dir="/tmp")


def pytest_unconfigure(config: pytest.Config) -> None:
    resident.stop()
    shutil.rmtree(config.stash[_SPARKS], ignore_errors=True)
