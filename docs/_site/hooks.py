"""MkDocs hooks: `cli.md` is made from the commands themselves, and pictures from outside `docs/` come along."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from notleader.proxy.cli.app import app

PROJECT = Path(__file__).resolve().parents[2]
# A page on the top level shows what a benchmark drew; on GitHub the same link leads to the same file.
PICTURES = re.compile(r"(!\[[^\]]*\]\()\.\./(benchmarks/[^)]+\.svg\))")

# What is told beside the sources is no page of the site.
BESIDE = re.compile(r"\[([^\]]+)\]\(\.\./\.\./testcontainers/[^)]+\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the page and the pictures."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="notleader"), name="notleader")
    files.append(File.generated(config, "cli.md", content=text))
    for picture in sorted((PROJECT / "benchmarks").rglob("*.svg")):
        name = picture.relative_to(PROJECT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to pictures outside `docs/` lead to where the site has them; other links to there are text."""
    return BESIDE.sub(r"\1", PICTURES.sub(r"\1\2", markdown))
