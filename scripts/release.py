"""What a release needs to know of itself.

`release.py version` checks the tag in $TAG, `release.py notes VERSION` prints the changelog's section. Where the
project lives is told by $NOTLEADER_URL (https://github.com/OWNER/NAME), and is in no file: `release.py pom FILE` writes
it into a POM as Maven Central wants it, `release.py go FOLDER` makes a Go module's path that of its place there.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

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


def published_pom(text: str, url: str) -> str:
    """A POM in the namespace that Maven Central gives to who owns the repository, with its address.

    <https://central.sonatype.org/publish/requirements/>
    """
    parts = urlsplit(url)
    owner = parts.path.strip("/").partition("/")[0]
    if parts.hostname != "github.com" or not owner:
        raise SystemExit(f"{url} is not https://github.com/OWNER/NAME")
    about = f"""\
  <url>{url}</url>
  <developers><developer><name>{owner}</name><url>https://github.com/{owner}</url></developer></developers>
  <scm>
    <connection>scm:git:{url}.git</connection>
    <developerConnection>scm:git:{url}.git</developerConnection>
    <url>{url}</url>
  </scm>
"""
    text = text.replace("<groupId>notleader</groupId>", f"<groupId>io.github.{owner.lower()}</groupId>", 1)
    before, end, after = text.partition("</description>\n")
    return before + end + about + after


def publish_go(folder: Path, url: str) -> str:
    """Give the module in `folder`, below the repository's root, the path that `go get` finds it by, and return that."""
    (declared,) = re.findall(r"^module (\S+)$", (folder / "go.mod").read_text(), flags=re.MULTILINE)
    published = f"{url.removeprefix('https://')}/{folder.as_posix()}"
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".go", ".mod", ".md"):
            file.write_text(file.read_text().replace(str(declared), published))
    return published


def _url() -> str:
    try:
        return os.environ["NOTLEADER_URL"].rstrip("/")
    except KeyError:
        raise SystemExit("say by NOTLEADER_URL where the project lives") from None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["version"]:
            print(f"version={version(os.environ.get('TAG', ''))}")
        case ["notes", stated]:
            print(notes(stated), end="")
        case ["pom", file]:
            Path(file).write_text(published_pom(Path(file).read_text(), _url()))
        case ["go", folder]:
            print(publish_go(Path(folder), _url()))
        case _:
            raise SystemExit(__doc__)
