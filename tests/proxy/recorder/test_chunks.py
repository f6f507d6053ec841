"""Columns that are encoded from numbers say what a table of the same numbers says, which Arrow writes."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from notleader.proxy.record.block import ALL_TOLD, NONE, Block, Summary, Tables, exchanges_of
from notleader.proxy.record.frames import Entries, unpack
from notleader.proxy.record.rows import COLUMNS, PARTITION_FIELDS
from notleader.proxy.recorder import columns, following
from notleader.proxy.recorder.schema import ASKED_FOR
from tests.proxy.record.bench import Bench
from tests.proxy.record.blocks import rows_of
from tests.proxy.record.entries import PROXY, RUN, exchange, read
from tests.proxy.record.packing import Packer

NAME = st.none() | st.text("ab\u20ac\udcff", max_size=3)
INT16 = st.none() | st.sampled_from([0, 1, -1, 6, (1 << 15) - 1, -(1 << 15)])
INT32 = st.sampled_from([0, 1, -1, 7, (1 << 31) - 1, 1 - (1 << 31)])
INT64 = st.sampled_from([0, 1, -1, 1 << 40, (1 << 63) - 1, 1 - (1 << 63)])
SINCE = st.sampled_from([None, 0, 1, 500, (1 << 32) - 2])
WHO = st.tuples(st.integers(0, 3), NAME, st.just("b"), st.none() | st.integers(0, 3), NAME, NAME, NAME, NAME)
TEMPLATE = st.tuples(NAME, NAME, INT32, st.none() | INT64, INT16, NAME, INT16, st.none() | INT32)
SOME = st.none() | INT32
PART = st.tuples(SOME, SOME, SOME, st.none() | INT64)


@st.composite
def told(draw: st.DrawFn) -> dict[str, Any]:
    names = ("topic", "topic_id", "partition_index", "producer_id", "producer_epoch", "compression", "error_code")
    values = dict(zip((*names, "leader_epoch"), draw(TEMPLATE), strict=True))
    numbers = dict(zip(("base_sequence", "record_count", "batch_bytes", "base_offset"), draw(PART), strict=True))
    return {**dict.fromkeys(PARTITION_FIELDS), **values, **numbers}


WHAT = st.builds(
    Summary,
    st.tuples(INT16, NAME, INT16, st.just("answered"), INT16, SOME, NAME, NAME, INT16, NAME),
    st.none() | st.lists(told(), min_size=1, max_size=3),
)


@st.composite
def blocks(draw: st.DrawFn) -> list[Block]:
    """Of some tables; rows come in runs, as they do, for encodings go by them."""
    tables = Tables()
    tables.whos = draw(st.lists(WHO, min_size=1, max_size=3))
    tables.whats = draw(st.lists(WHAT, min_size=1, max_size=3))
    tables.templates = draw(st.lists(TEMPLATE, min_size=1, max_size=3))
    found, seq = [], draw(INT64.filter(lambda number: number < 1 << 62))
    for _ in range(draw(st.integers(1, 3))):
        block = Block(tables)
        packer = Packer(block)
        for _ in range(draw(st.integers(1, 4))):
            who, what = draw(st.integers(0, len(tables.whos) - 1)), draw(st.integers(0, len(tables.whats) - 1))
            count = ALL_TOLD if tables.whats[what].partitions else draw(st.integers(0, 3))
            parts = [
                (draw(st.integers(0, len(tables.templates) - 1)), *(NONE if n is None else n for n in draw(PART)))
                for _ in range(max(count, 0))
            ]
            at, correlation = draw(st.sampled_from([1, 1 << 50])), draw(INT32)
            times = [NONE if since is None else at + since for since in draw(st.tuples(SINCE, SINCE, SINCE))]
            sizes = draw(st.tuples(*[st.sampled_from([0, 4, (1 << 32) - 1])] * 2))
            for _ in range(draw(st.sampled_from([1, 2, 7, 8, 17, 140]))):
                seq += 1
                packer.put(who, what, seq, correlation, at, *times, *sizes, count, parts=tuple(parts))
                block.told += len(tables.whats[what].partitions or ())
        found.append(block)
    return found


def written(given: list[Block], folder: Path) -> pq.ParquetFile:
    bench = Bench(folder)
    for block in given:
        bench.put([], block)
    bench.close()
    (segment,) = folder.rglob("*.parquet")
    return pq.ParquetFile(segment)


@given(blocks())
@settings(max_examples=60, deadline=None)
def test_both_ways_say_the_same(given: list[Block]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = written(given, Path(folder) / "ours")
        with patch.object(following, "IS_COMPILED", False):
            theirs = written(given, Path(folder) / "theirs")
        table = ours.read()
        table.validate(full=True)
        assert table.equals(theirs.read())
        groups = range(ours.num_row_groups)
        assert [ours.metadata.row_group(n).num_rows for n in groups] == [len(table)] * (len(table) > 0)
        for place in range(ours.metadata.num_columns):
            mine, other = (file.metadata.row_group(0).column(place) for file in (ours, theirs))
            assert mine.num_values == other.num_values
            if mine.path_in_schema in ASKED_FOR:
                for name in ("min", "max", "null_count", "has_min_max"):
                    assert getattr(mine.statistics, name) == getattr(other.statistics, name), mine.path_in_schema


@given(blocks())
@settings(max_examples=20, deadline=None)
def test_row_groups_one_after_the_other_say_what_one_says(given: list[Block]) -> None:
    """They share their buffers."""
    with tempfile.TemporaryDirectory() as folder:
        one = written(given, Path(folder) / "one")
        with patch.object(following, "_ROW_GROUP_ROWS", 1):
            many = written(given, Path(folder) / "many")
        assert many.num_row_groups == len(given)
        assert many.read().equals(one.read())


@given(blocks())
@settings(max_examples=30, deadline=None)
def test_numbers_become_the_same_columns_in_python_and_compiled(given: list[Block]) -> None:
    packed = [(block.numbers, block.rows, block.parts) for block in given]
    for pure, compiled in zip(columns.columns_in_python(packed), columns.columns_of(packed), strict=True):
        assert [bytes(column) for column in pure] == [bytes(column) for column in compiled]
    for one in packed:
        assert columns.whats_among(one) == Counter(row[1] for row, _ in exchanges_of(one[0]))


def test_what_a_journal_says_is_what_was_packed() -> None:
    """The rows that a block stands for, read back from the frame that it becomes."""
    tables = Tables()
    tables.whos, tables.templates = [(1, *(None,) * 7)], [("t", None, 0, None, None, None, 0, None)]
    tables.whats = [Summary((0, "Produce", 9, "answered", 0, None, None, None, -1, None))]
    block = Block(tables)
    Packer(block).put(0, 0, 5, -7, 1000, 1001, NONE, 1005, 60, 20, 1, parts=((0, -1, NONE, 10, NONE),))
    sizes, records, _ = Entries().pack(block)
    found = unpack(b"".join((sizes, block.numbers, *records)))
    assert (bytes(found.numbers), found.rows, found.parts) == (block.numbers, 1, 1)
    (row,) = [dict(zip(COLUMNS, row, strict=True)) for row in rows_of(block, RUN, PROXY, 7)]
    times = ("request_at_us", "forwarded_at_us", "broker_responded_at_us", "response_at_us")
    assert [row[name] for name in times] == [1000, 1001, None, 1005]
    (part,) = row["partitions"]
    assert [part[name] for name in ("base_sequence", "record_count", "batch_bytes", "base_offset")] == [
        -1,
        None,
        10,
        None,
    ]


def test_a_place_that_a_journal_never_told_costs_nobody_else_anything(
    tmp_path: Path,
) -> None:
    tables = Tables()
    tables.whos, tables.templates = [(1, *(None,) * 7)], [("t", None, 0, None, None, None, 0, None)]
    tables.whats = [Summary((0, "Produce", 9, "answered", 0, None, None, None, -1, None))]
    block = Block(tables)
    packer = Packer(block)
    for who in (0, 5):
        packer.put(who, 0, who, 1, 1000, NONE, NONE, NONE, 4, 0, 0)
    block.used[0].remove(5)
    bench = Bench(tmp_path)
    bench.put([], block)
    bench.put([exchange(9)])
    bench.close()
    assert {row["exchange_seq"]: row["connection_id"] for row in read(tmp_path)} == {0: 1, 5: None, 9: 1}
