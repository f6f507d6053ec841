"""Growing text files as a stream of Spark's: each whole line once, whatever is appended while the stream runs.

Spark's own file stream takes a file once, when it first sees it; outcome files grow. The offset is how many bytes of
each file have been read, always at a line's end, so a restart goes on where the checkpoint says. Local files only.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

_CHUNK_BYTES = 4 * 1024 * 1024
_SCHEMA = pa.schema([("value", pa.string()), ("file", pa.string()), ("at_byte", pa.int64())])


class GrowingFiles(DataSource):  # type: ignore[misc]
    """`spark.readStream.format("growing_files")` with the option `paths`: a JSON list of files, folders and globs."""

    @classmethod
    def name(cls) -> str:
        return "growing_files"

    def schema(self) -> str:
        return "value string, file string, at_byte long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _Reader(json.loads(self.options["paths"]))


@dataclass
class _Piece(InputPartition):  # type: ignore[misc]
    """The bytes of one file from one line's beginning to a later line's end."""

    file: str
    first: int
    end: int


class _Reader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Every file's length up to its last line's end; a file that is gone or shorter stays where it was."""
        found = {file: whole_lines(Path(file), start.get(file, 0)) for file in files(self._paths)}
        return {**start, **{file: end for file, end in found.items() if end}}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [_Piece(file, start.get(file, 0), until) for file, until in end.items() if until > start.get(file, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Piece)
        with Path(partition.file).open("rb") as file:
            file.seek(partition.first)
            at = partition.first
            while at < partition.end:
                lines = file.readlines(min(_CHUNK_BYTES, partition.end - at))
                values, places = [], []
                for line in lines:
                    if at >= partition.end:
                        break
                    values.append(line.rstrip(b"\r\n").decode(errors="replace"))
                    places.append(at)
                    at += len(line)
                columns = [values, [partition.file] * len(values), places]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, kind.type) for column, kind in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
                )
                if not lines:
                    return


def files(paths: Sequence[str]) -> list[str]:
    """The files that the paths (files, folders, globs) stand for now, sorted; hidden ones aside."""
    found: set[str] = set()
    for path in paths:
        for match in glob.glob(path, recursive=True):
            inside = Path(match).rglob("*") if Path(match).is_dir() else [Path(match)]
            found.update(str(file.absolute()) for file in inside if file.is_file() and not file.name.startswith("."))
    return sorted(found)


def whole_lines(file: Path, known: int) -> int:
    """How many bytes of `file` end with a line's end; `known` were already known to."""
    try:
        with file.open("rb") as opened:
            at = opened.seek(0, 2)
            while at > known:
                size = min(_CHUNK_BYTES, at - known)
                opened.seek(at - size)
                newline = opened.read(size).rfind(b"\n")
                if newline >= 0:
                    return at - size + newline + 1
                at -= size
    except OSError:
        pass
    return known


def line_number(file: Path, at_byte: int) -> int:
    """The 1-based number of the line that begins at that byte."""
    with file.open("rb") as opened:
        lines, left = 1, at_byte
        while left > 0 and (chunk := opened.read(min(_CHUNK_BYTES, left))):
            lines += chunk.count(b"\n")
            left -= len(chunk)
    return lines
