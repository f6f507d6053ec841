"""What linters and schemas say of everything below docker/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.image import PROJECT

DOCKER = PROJECT / "docker"
MANIFESTS = sorted((DOCKER / "kubernetes").glob("*.yaml"))
BIN = Path(sys.executable).parent


def passes(*words: str | Path) -> None:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=PROJECT, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("image", ["proxy", "spark"])
def test_dockerfiles(image: str) -> None:
    passes(BIN / "hadolint", "--failure-threshold", "info", DOCKER / image / "Dockerfile")


def test_yaml() -> None:
    passes(BIN / "yamllint", "--strict", DOCKER)


def test_compose_file_has_its_schema() -> None:
    passes(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml")


def test_what_pins_the_images_has_its_schema() -> None:
    passes(BIN / "check-jsonschema", "--builtin-schema", "vendor.renovate", PROJECT / ".github/renovate.json")


@pytest.mark.parametrize("version", ["1.29", "1.34"])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_have_their_schemas(manifest: Path, version: str) -> None:
    passes(BIN / "kubernetes-validate", "--strict", "-k", version, manifest)
