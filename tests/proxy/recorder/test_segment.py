"""A segment is written from dictionaries and numbers; who reads it finds plain columns, and statistics that hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from notleader.proxy.recorder.schema import ASKED_FOR, EXCHANGE
from tests.proxy.record.bench import Bench
from tests.proxy.record.blocks import block_of, tables
from tests.proxy.record.entries import METADATA, exchange


def recorded(folder: Path) -> Path:
    """A segment of rows and of blocks, some of them in one flush."""
    bench = Bench(folder)
    pointed_to = tables()
    for start in range(0, 120, 12):
        alone = [] if start % 36 else [exchange(start + 5, client_id=f"by itself {start}")]
        bench.put(alone, block_of(pointed_to, range(start, start + 12)))
    bench.close()
    (segment,) = folder.rglob("*.parquet")
    return segment


def test_the_file_is_what_its_rows_written_plainly_are(tmp_path: Path) -> None:
    segment = recorded(tmp_path / "capture")
    rows = pq.ParquetFile(segment).read().to_pylist()
    schema = EXCHANGE.with_metadata(METADATA)
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema), plain)
    ours, theirs = pq.ParquetFile(segment), pq.ParquetFile(plain)
    assert ours.schema.equals(theirs.schema)
    assert ours.metadata.metadata == theirs.metadata.metadata
    assert ours.schema_arrow.equals(theirs.schema_arrow, check_metadata=True)
    assert ours.read().equals(theirs.read())
    assert pq.read_table(plain).equals(pq.read_table(segment, partitioning=None))
    assert ds.dataset(segment).to_table().equals(ds.dataset(plain).to_table())
    assert len(rows) == 124


def test_readers_prune_by_statistics_that_hold_for_each_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notleader.proxy.recorder.following._ROW_GROUP_ROWS", 25)
    file = pq.ParquetFile(recorded(tmp_path))
    places = {file.metadata.schema.column(place).path: place for place in range(file.metadata.num_columns)}
    assert file.num_row_groups > 3
    for group in range(file.num_row_groups):
        read = file.read_row_group(group).to_pylist()
        assert 25 <= len(read) <= 40 or group == file.num_row_groups - 1
        for name in ASKED_FOR:
            values = [row[name] for row in read if row[name] is not None]
            found = file.metadata.row_group(group).column(places[name]).statistics
            assert (found.min, found.max, found.null_count) == (min(values), max(values), len(read) - len(values))
