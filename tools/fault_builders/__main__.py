"""python -m tools.fault_builders: writes both files anew; a test compares them with what is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from notleader.proxy.admin import documents_api
from tools.fault_builders import golang, java
from tools.fault_builders.shapes import objects

LIBRARIES = Path(__file__).resolve().parents[2] / "testcontainers"
JAVA = LIBRARIES / "java/src/main/java/notleader/client/Faults.java"
GO = LIBRARIES / "go/faults.go"


def files() -> dict[Path, str]:
    """What each file should hold, by the schemas that the HTTP API describes itself with."""
    fault, named = documents_api.components()
    document: dict[str, Any] = {"components": {"schemas": {**named, "Fault": fault}}}
    made = objects(document)
    return {JAVA: java.source(made), GO: golang.source(made)}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
