"""What `spark-submit` takes: the file that it starts, and for a driver elsewhere the package that this imports."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

_HERE = Path(__file__).resolve().parent
ENTRY = Path(__file__).absolute().parent / "submit" / "notleader_analyze.py"


def pack(target: Path) -> None:
    """Write the analysis, and no more of notleader, as an archive for `--py-files`. OSError where that can't be."""
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        archive.writestr("notleader/__init__.py", "")
        for file in sorted(_HERE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path("notleader", "spark_analysis", file.relative_to(_HERE)))
