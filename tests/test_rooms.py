"""The rooms of the sources: tests stand where what they test stands, and no name of a module as text turns an arrow.

`.importlinter` holds the imports themselves. What it can't see is a module that is named in a string: imported late,
or started as a process.
"""

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
MIRRORED = ("proxy", "faults", "spark_analysis")

# (who, whom): a process of its own, which is started from below.
STARTED = {("proxy/record/process.py", "notleader.proxy.recorder")}


def modules(tree: str) -> dict[str, set[Path]]:
    """Of a source tree: the name of each module and folder, and the folders that hold one of that name."""
    found: dict[str, set[Path]] = {}
    for path in (PROJECT / tree).rglob("*"):
        if path.suffix in (".py", ".pyx") or (path.is_dir() and (path / "__init__.py").exists()):
            found.setdefault(path.stem, set()).add(path.parent.relative_to(PROJECT))
            if path.is_dir():
                found[path.stem].add(path.relative_to(PROJECT))
    return found


@pytest.mark.parametrize("tree", MIRRORED)
def test_tests_mirror_the_sources(tree: str) -> None:
    homes = modules(tree)
    astray = []
    for file in sorted((PROJECT / "tests" / tree).rglob("test_*.py")):
        here = file.parent.relative_to(PROJECT / "tests")
        meant = homes.get(file.stem.removeprefix("test_"), set())
        if not (PROJECT / here).is_dir():
            astray.append(f"{file.relative_to(PROJECT)}: there is no {here}")
        elif meant and here not in meant:
            astray.append(f"{file.relative_to(PROJECT)}: that module is in {', '.join(map(str, sorted(meant)))}")
    assert not astray, "\n".join(astray)


def layers() -> list[set[str]]:
    """The rooms of proxy/ as `.importlinter` has them, from the top."""
    rules = configparser.ConfigParser()
    rules.read(PROJECT / ".importlinter")
    text = rules["importlinter:contract:rooms"]["layers"]
    return [{room.strip() for room in line.split("|")} for line in text.strip().splitlines()]


def named(file: Path) -> Iterator[str]:
    """The modules of the proxy that a source names in a string, other than in prose."""
    text = file.read_text("utf-8")
    if file.suffix == ".pyx":
        yield from re.findall(r'"(notleader\.proxy\.[\w.]+)"', text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^notleader\.proxy(?:\.\w+)+$", node.value)


def test_no_string_names_a_module_of_a_higher_layer() -> None:
    level = {room: number for number, rooms in enumerate(layers()) for room in rooms}
    upward = []
    for file in sorted((PROJECT / "proxy").rglob("*.py*")):
        if file.suffix not in (".py", ".pyx"):
            continue
        who = str(file.relative_to(PROJECT))
        mine = level.get(Path(who).with_suffix("").parts[1], 0)
        upward += [
            f"{who} names {whom}"
            for whom in named(file)
            if level[whom.split(".")[2]] < mine and (who, whom) not in STARTED
        ]
    assert not upward, "\n".join(upward)


def test_nothing_but_the_map_and_the_entry_points_is_at_the_top() -> None:
    loose = {file.name for file in (PROJECT / "proxy").glob("*.py")}
    assert loose <= {"__init__.py", "__main__.py", "pytest_plugin.py"}, sorted(loose)
