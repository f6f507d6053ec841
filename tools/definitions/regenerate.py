"""Regenerates Kafka's message definitions and name tables from the published kafka-clients jars.

    python tools/definitions/regenerate.py [--check] [--jars FOLDER]

Needs Maven and a JDK. Writes `proxy/wire/schemas/definitions.jsonl` (one message definition a line: of each
API the newest release's, then what only the older release still speaks) and `proxy/wire/enums.py`.
`--check` writes nothing and exits 1 when a file would change.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# Newest first: a version that several releases define is taken from the first.
RELEASES = ("4.4.0", "3.9.1")

HERE = Path(__file__).resolve().parent
WIRE = HERE.parents[1] / "proxy" / "wire"
DEFINITIONS = WIRE / "schemas" / "definitions.jsonl"
ENUMS = WIRE / "enums.py"

KEPT = ("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "default", "entityType")


def jars(release: str, folder: Path) -> list[Path]:
    """The kafka-clients jar of `release`, first, and what it needs, copied into `folder` by Maven where missing."""
    complete = folder / "complete"
    if not complete.exists():
        project = ["-f", str(HERE / "pom.xml"), f"-Dkafka.version={release}", f"-DoutputDirectory={folder}"]
        subprocess.run(["mvn", "-q", "-B", *project, "dependency:copy-dependencies"], check=True, stdout=sys.stderr)
        complete.touch()
    return sorted(folder.glob("*.jar"), key=lambda jar: (not jar.name.startswith("kafka-clients"), jar.name))


def messages(jar: Path) -> Iterator[dict[str, Any]]:
    """Every request and response definition in a kafka-clients jar."""
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if re.fullmatch(r"common/message/\w+\.json", name):
                text = archive.read(name).decode()
                # Kafka's JSON carries // comments, always on lines of their own.
                message = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))
                if message["type"] in ("request", "response") and message["validVersions"] != "none":
                    yield message


def slim(fields: Iterable[dict[str, Any]], common: dict[str, Any]) -> list[dict[str, Any]]:
    """Fields without prose and without what only Kafka's Java generator uses; common structs put in place."""
    kept = []
    for field in fields:
        small = {key: field[key] for key in KEPT if key in field}
        inner = field.get("fields") or common.get(field["type"].removeprefix("[]"))
        if inner:
            small["fields"] = slim(inner, common)
        kept.append(small)
    return kept


def versions(text: str) -> range:
    """The versions that `validVersions` text such as "3" or "0-12" names."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def definition_lines(jar_of: dict[str, Path]) -> str:
    """The contents of definitions.jsonl."""
    taken: dict[tuple[int, str], set[int]] = {}
    rows = []
    for release in RELEASES:
        for message in messages(jar_of[release]):
            key = (message["apiKey"], message["type"])
            valid = set(versions(message["validVersions"]))
            new = sorted(valid - taken.setdefault(key, set()))
            if not new:
                continue
            if new != list(range(new[0], new[-1] + 1)):
                raise SystemExit(f"{message['name']} {release}: versions {new} are not one range")
            taken[key] |= valid
            common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
            row = {
                "api_key": message["apiKey"],
                "direction": message["type"],
                "first": new[0],
                "last": new[-1],
                "flexible": message["flexibleVersions"],
                "kafka": release,
                "name": message["name"],
            }
            if message.get("latestVersionUnstable"):
                row["unstable"] = max(valid)
            row["fields"] = slim(message["fields"], common)
            rows.append(row)
    rows.sort(key=lambda row: (row["api_key"], row["direction"], row["first"]))
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def errors(classpath: list[Path]) -> list[tuple[int, str, bool]]:
    """Kafka's error table: (code, name, retriable), by code."""
    output = subprocess.run(
        ["java", "-cp", ":".join(map(str, classpath)), str(HERE / "DumpErrors.java")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = [line.split() for line in output.splitlines()]
    return sorted((int(code), name, retriable == "true") for code, name, retriable in rows)


def enums_source(definitions: str, table: list[tuple[int, str, bool]]) -> str:
    """The contents of enums.py."""
    names: dict[int, str] = {}
    for line in definitions.splitlines():
        row = json.loads(line)
        # Newer versions come later in the file, so a renamed API ends with its newest name.
        names[row["api_key"]] = row["name"].removesuffix("Request").removesuffix("Response")
    lines = [
        '"""API keys and error codes by Kafka\'s own names; written by tools/definitions/regenerate.py."""',
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ApiKey(IntEnum):",
        f'    """Every API that the clients of Kafka {" and ".join(reversed(RELEASES))} define."""',
        "",
        *(f"    {name} = {key}" for key, name in sorted(names.items())),
        "",
        "",
        "class ErrorCode(IntEnum):",
        f'    """Every error code of Kafka {RELEASES[0]}."""',
        "",
        *(f"    {name} = {code}" for code, name, _ in table),
        "",
        "",
        "# Those that Kafka's own clients retry (their exception is a RetriableException).",
        "RETRIABLE_CODES = frozenset(",
        "    {",
        *(f"        ErrorCode.{name}," for _, name, retriable in table if retriable),
        "    }",
        ")",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Writes both files, or with --check says whether they are what the jars give."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    parser.add_argument("--jars", type=Path, help="keep the jars there, in one folder a release, for the next run")
    arguments = parser.parse_args()
    check = arguments.check
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.jars or Path(temporary)
        found = {release: jars(release, folder / release) for release in RELEASES}
        definitions = definition_lines({release: paths[0] for release, paths in found.items()})
        enums = enums_source(definitions, errors(found[RELEASES[0]]))
    changed = 0
    for path, text in ((DEFINITIONS, definitions), (ENUMS, enums)):
        if path.exists() and path.read_text("utf-8") == text:
            continue
        changed += 1
        if check:
            sys.stderr.write(f"{path.name} differs from what Kafka {' and '.join(RELEASES)} define\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            sys.stderr.write(f"wrote {path}\n")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
