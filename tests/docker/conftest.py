"""The images, built once each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.image import PROJECT, Image, can_build
from tests.tools.programs import unable


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    made = Path(tempfile.mkdtemp(prefix="notleader-image-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def proxy_image(folder: Path) -> Image:
    if not can_build():
        unable("building an image without an engine takes root and namespaces")
    return Image(PROJECT / "docker/proxy/Dockerfile", folder / "proxy")
