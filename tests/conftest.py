"""For all tests: one Spark judges what their commands record, and no example has a deadline."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

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
    sparks = Path(config.stash[_SPARKS])
    if any(sparks.iterdir()):
        from notleader.spark_analysis import resident

        resident.stop()
    shutil.rmtree(sparks, ignore_errors=True)
