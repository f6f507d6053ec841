"""The documentation builds without a warning: every link and anchor leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.image import PROJECT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=PROJECT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    pages = {path.relative_to(PROJECT / "docs").with_suffix(".html") for path in (PROJECT / "docs").rglob("*.md")}
    assert pages
    assert not [page for page in pages if not (site / page).is_file()]


def test_the_command_line_is_there_as_it_is(site: Path) -> None:
    page = (site / "cli.html").read_text()
    for words in ("notleader run", "notleader fault wait", "notleader capture show", "--log-format"):
        assert words in page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """A page works offline."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'src="http' not in text, page
        assert '<link rel="stylesheet" href="http' not in text, page


def test_what_a_page_links_to_is_in_the_repository_too() -> None:
    """Whoever reads on GitHub has no page that only the site makes."""
    dead = [
        f"{page.relative_to(PROJECT)}: {to}"
        for page in [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
        for to in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / to).exists()
    ]
    assert not dead
