"""Kinds register themselves, and only what is described and new."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from notleader import faults
from notleader.faults.base import Fault

CATALOG = Path(faults.catalog.__file__).parent


def test_one_fault_one_file() -> None:
    files = {path.stem for path in CATALOG.glob("*.py")} - {"__init__"}
    assert set(Fault.kinds) >= files
    assert {kind: model.__module__.rpartition(".")[2] for kind, model in Fault.kinds.items() if kind in files} == {
        kind: kind for kind in files
    }


def test_kinds_are_loaded_when_they_are_used() -> None:
    program = """
import sys
from notleader.faults.base import Fault
from notleader.faults.schema import parse_faults
parse_faults([{"kind": "close"}, {"kind": "delay", "delay_ms": 1}])
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("notleader.faults.catalog.")))
try:
    from typing import Literal
    class Another(Fault):
        "Stalls as well."
        kind: Literal["stall"] = "stall"
except TypeError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["close delay", "fault kind 'stall' is defined twice: StallFault and Another"]


def test_a_kind_without_a_docstring_is_refused() -> None:
    with pytest.raises(TypeError, match="has no docstring"):

        class Silent(Fault):
            kind: Literal["silent"] = "silent"


def test_a_kind_is_defined_once() -> None:
    with pytest.raises(TypeError, match="'close' is defined twice"):

        class Another(Fault):
            """Closes as well."""

            kind: Literal["close"] = "close"


def test_a_kind_is_one_name() -> None:
    with pytest.raises(TypeError, match="a Literal of one name"):

        class Both(Fault):
            """Two at once."""

            kind: Literal["one", "two"] = "one"


def test_the_engine_imports_no_clock_no_socket_and_no_global_random() -> None:
    for path in Path(faults.__file__).parent.rglob("*.py"):
        if "incidents" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            assert not {"time", "random", "asyncio", "socket", "datetime"} & set(names), path
