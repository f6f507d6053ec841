"""What a release needs to know of itself: `release.py version` (checks the tag in $TAG), `release.py notes VERSION`."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def version(tag: str) -> str:
    """The project's version. Raises SystemExit where a tag says another, or the changelog has no section for it."""
    stated: str = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    if tag:
        if tag != f"v{stated}":
            raise SystemExit(f"the tag {tag} is not v{stated}, the version in pyproject.toml")
        notes(stated)
    return stated


def notes(stated: str) -> str:
    """The changelog's section for a version, which must not be called unreleased any more. Raises SystemExit."""
    text = (PROJECT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## {re.escape(stated)}(.*?)$\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section for {stated}")
    if "unreleased" in found[1]:
        raise SystemExit(f"CHANGELOG.md calls {stated} unreleased: give it its date")
    return found[2].strip() + "\n"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["version"]:
            print(f"version={version(os.environ.get('TAG', ''))}")
        case ["notes", stated]:
            print(notes(stated), end="")
        case _:
            raise SystemExit(__doc__)
