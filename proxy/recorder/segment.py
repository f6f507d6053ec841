"""A segment as a Parquet file: row groups that Arrow writes of tables, and such that are encoded from numbers.

Arrow says what the schema and the footer of such a file are, and what the row groups of tables; these are put one after
the other with those that `chunks` makes. The format: https://parquet.apache.org/docs/file-format/.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from notleader.proxy.recorder import thrift
from notleader.proxy.recorder.schema import ASKED_FOR, EXCHANGE, GROWING, TEXTS, coded

_MAGIC: Final = b"PAR1"
_LENGTH_BYTES: Final = 4
_WRITE_BATCH: Final = 50_000
_BUFFER_BYTES: Final = 256 << 10
# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData in parquet.thrift.
_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _TOTAL_BYTES, _GROUP_ROWS, _GROUP_AT, _GROUP_BYTES, _ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_AT, _META = 2, 3
_OFFSETS: Final = (9, 10, 11)
_ALL_STORED = 7
# file_offset 0, and the beginning of meta_data. Its fields 9, 11 and 12 follow, each after so many that aren't there.
_CHUNK_HEAD: Final = b"\x26\0\x1c"


_FOOTERS: Final[dict[tuple[tuple[bytes, bytes], ...], thrift.Struct]] = {}


class Chunk(NamedTuple):
    """A column of one row group: its pages, and what the footer says of it, around where these begin.

    A footer has fifty of them for each row group: they are written once, not made into a struct first.
    """

    pages: bytes
    dictionary_bytes: int
    """How many of these are the page of the dictionary, which comes first."""
    unpacked_bytes: int
    said: bytes
    """The fields of its ColumnMetaData in front of data_page_offset, as they are written."""
    statistics: bytes
    """The struct of that name as it is written; empty where there is none."""

    def column(self, at: int) -> bytes:
        """Its ColumnChunk, where its pages begin there."""
        pieces = [_CHUNK_HEAD, self.said, b"\x26", thrift.number(at + self.dictionary_bytes)]
        if self.dictionary_bytes:
            pieces += [b"\x26", thrift.number(at)]
        if self.statistics:
            pieces += [b"\x1c" if self.dictionary_bytes else b"\x3c", self.statistics]
        return b"".join((*pieces, b"\0\0"))


class Segment:
    """Writes the file at ``path``; it is one once it is closed."""

    def __init__(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Raises OSError."""
        kept = {key.encode(): value.encode() for key, value in metadata.items()}
        schema = EXCHANGE.with_metadata(kept)
        # Dictionaries are our way to write: who reads the file finds text.
        self._schema = coded(schema)
        self._kept = {b"ARROW:schema": b64encode(schema.serialize()), **kept}
        self._groups: list[thrift.Struct] = []
        self._rows = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: Any = pa.output_stream(str(path), compression=None, buffer_size=_BUFFER_BYTES)
        self._at = 0
        self._put(_MAGIC)

    def write_table(self, table: pa.Table) -> None:
        """A row group of a table as `coded` has it. Raises OSError and ArrowException."""
        made = self._by_arrow(table)
        footer = _footer(made)
        _, groups = footer[_ROW_GROUPS][1]
        shift = self._at - len(_MAGIC)
        end = 0
        for group in groups:
            for chunk in group[_COLUMNS][1][1]:
                if chunk.get(_CHUNK_AT, (0, 0))[1]:
                    chunk[_CHUNK_AT] = thrift.i64(chunk[_CHUNK_AT][1] + shift)
                meta = chunk[_META][1]
                starts = [meta[field][1] for field in _OFFSETS if field in meta]
                end = max(end, min(starts) + meta[_ALL_STORED][1])
                for field in _OFFSETS:
                    if field in meta:
                        meta[field] = thrift.i64(meta[field][1] + shift)
            if _GROUP_AT in group:
                group[_GROUP_AT] = thrift.i64(group[_GROUP_AT][1] + shift)
            self._add(group)
        self._put(made[len(_MAGIC) : end])
        self._rows += len(table)

    def write_chunks(self, rows: int, chunks: Sequence[Chunk]) -> None:
        """A row group of all columns in their order. Raises OSError."""
        began, unpacked = self._at, 0
        columns = []
        for chunk in chunks:
            columns.append(chunk.column(self._at))
            unpacked += chunk.unpacked_bytes
            self._put(chunk.pages)
        self._add(
            {
                _COLUMNS: thrift.many(thrift.STRUCT, columns),
                _TOTAL_BYTES: thrift.i64(unpacked),
                _GROUP_ROWS: thrift.i64(rows),
                _GROUP_AT: thrift.i64(began),
                _GROUP_BYTES: thrift.i64(self._at - began),
            }
        )
        self._rows += rows

    def close(self) -> None:
        """Write the footer. Raises OSError."""
        footer = dict(self._footer_of_none())
        footer[_NUM_ROWS] = thrift.i64(self._rows)
        footer[_ROW_GROUPS] = thrift.many(thrift.STRUCT, self._groups)
        written = thrift.written(footer)
        self._put(written + len(written).to_bytes(_LENGTH_BYTES, "little") + _MAGIC)
        self._file.close()

    def discard(self) -> None:
        """Let go of the file as it is. Raises OSError."""
        self._file.close()

    def _footer_of_none(self) -> thrift.Struct:
        """What the footer of a file without rows says: the same for all segments of a run."""
        key = tuple(self._kept.items())
        if key not in _FOOTERS:
            _FOOTERS.clear()
            _FOOTERS[key] = _footer(self._by_arrow(None))
        return _FOOTERS[key]

    def _put(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._at += len(data)

    def _add(self, group: thrift.Struct) -> None:
        group[_ORDINAL] = (thrift.I16, len(self._groups))
        self._groups.append(group)

    def _by_arrow(self, table: pa.Table | None) -> memoryview:
        """The file that Arrow makes of one table, or of none."""
        sink = io.BytesIO()
        writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            use_dictionary=TEXTS,
            column_encoding=dict.fromkeys(GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=ASKED_FOR,
            write_batch_size=_WRITE_BATCH,
            store_schema=False,
        )
        writer.add_key_value_metadata(self._kept)
        if table is not None:
            writer.write_table(table, row_group_size=max(len(table), 1))
        writer.close()
        return sink.getbuffer()


def _footer(file: memoryview) -> thrift.Struct:
    end = len(file) - len(_MAGIC) - _LENGTH_BYTES
    size = int.from_bytes(file[end : end + _LENGTH_BYTES], "little")
    return thrift.read(file[end - size : end])
