"""The Parquet types of the capture's columns (``notleader.proxy.record.rows`` has their names and order)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from notleader.proxy.record.block import ALL_TOLD, NONE, WHAT, Packing, unpacked_bytes
from notleader.proxy.record.frames import WHO_FIELDS
from notleader.proxy.record.rows import COLUMN_KINDS, PARTITION_KINDS, Row
from notleader.proxy.recorder.columns import columns_of

_KINDS = {
    **{name: getattr(pa, name)() for name in ("string", "int16", "int32", "int64", "binary")},
    "strings": pa.list_(pa.string()),
    "int64s": pa.list_(pa.int64()),
}
PARTITION = pa.struct([(name, _KINDS[kind]) for name, kind in PARTITION_KINDS.items()])

EFFECT = pa.struct(
    [
        ("rule", pa.string()),
        ("kind", pa.string()),
        ("did", pa.string()),
        ("error_code", pa.int16()),
        ("partitions", pa.list_(pa.int32())),
        ("held_us", pa.int64()),
        ("offsets_before", pa.list_(pa.int64())),
    ]
)

_KINDS |= {"effects": pa.list_(EFFECT), "partitions": pa.list_(PARTITION)}
EXCHANGE = pa.schema([(name, _KINDS[kind]) for name, kind in COLUMN_KINDS.items()])


def coded(schema: pa.Schema) -> pa.Schema:
    """The same columns with text as places in dictionaries: the writer of Parquet takes these as they are."""
    return pa.schema([field.with_type(_coded(field.type)) for field in schema], schema.metadata)


@cache
def _coded(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.dictionary(pa.int32(), kind)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_coded(field.type)) for field in kind])
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return pa.list_(kind.value_field.with_type(_coded(kind.value_type)))
    return kind


CODED = coded(EXCHANGE)
_PARTS = _coded(PARTITION)
# Numbers hardly repeat, and what repeats among them is compressed well enough: dictionaries are for text alone.
TEXTS = [
    *(field.name for field in EXCHANGE if pa.types.is_string(field.type)),
    *(f"{name}.list.element" for name in ("fault_names", "fault_kinds")),
    *(f"effects.list.element.{field.name}" for field in EFFECT if pa.types.is_string(field.type)),
    *(f"partitions.list.element.{field.name}" for field in PARTITION if pa.types.is_string(field.type)),
]
# Times, counters and sizes differ by little from row to row.
OWN = (
    "exchange_seq",
    "correlation_id",
    "request_at_us",
    "forwarded_at_us",
    "broker_responded_at_us",
    "response_at_us",
    "request_bytes",
    "response_bytes",
)
GROWING = ["connection_id", *OWN, "seed"]
# What readers prune row groups by.
ASKED_FOR = ["request_at_us", "event", "api_name", "client_id", "group_id", "error_code", "outcome"]


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows as one record batch. Raises ArrowException, UnicodeError or OverflowError where a value doesn't fit."""
    arrays = []
    for column, field in zip(zip(*rows, strict=True), EXCHANGE, strict=True):
        arrays.append(_array(column, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=EXCHANGE)


def _array(column: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    # Many columns hold one value all along: seeing that costs a quarter of converting each.
    first = column[0]
    if first is None and column.count(None) == len(column):
        return pa.nulls(len(column), kind)
    if isinstance(first, (str, int)) and column.count(first) == len(column):
        return pa.repeat(pa.scalar(first, kind), len(column))
    return pa.array(column, type=kind)


TEMPLATE = (
    "topic",
    "topic_id",
    "partition_index",
    "producer_id",
    "producer_epoch",
    "compression",
    "error_code",
    "leader_epoch",
)
VARYING = ("base_sequence", "record_count", "batch_bytes", "base_offset")
_LONG_LIST = 300
_CHUNK_PARTITIONS = 20_000
_FEW = 100
_NONE = pa.scalar(NONE, pa.int64())
_TIMES = ("forwarded_at_us", "broker_responded_at_us", "response_at_us")


Column: TypeAlias = pa.Array | pa.ChunkedArray
_PLACE = ("place", pa.int64())
WHOS = pa.schema([_PLACE, *(EXCHANGE.field(name) for name in WHO_FIELDS)])
WHATS = pa.schema([_PLACE, *(EXCHANGE.field(name) for name in WHAT), EXCHANGE.field("partitions")])
TEMPLATES = pa.schema([_PLACE, *(PARTITION.field(name) for name in TEMPLATE)])
ENTRIES = (WHOS, WHATS, TEMPLATES)
"""Entries of the tables of blocks as columns, with their places in the tables."""
NO_ENTRIES: Sequence[pa.Table] = [kind.empty_table() for kind in ENTRIES]
_MISFIT = (pa.ArrowException, UnicodeError, OverflowError, TypeError)
Identity = tuple[str, str, int]
"""run_id, proxy_id, seed"""


class Packed(NamedTuple):
    """A block without its tables: the entries that it points to are columns, as ENTRIES has them.

    ``told`` as in a block. Those with the same number of ``tables`` point into the same ones.
    """

    numbers: Packing
    rows: int
    parts: int
    told: int
    tables: int
    entries: Sequence[pa.Table]
    known: Any = None
    """The same entries by their places, for `chunks`."""

    def __len__(self) -> int:
        return self.rows

    @property
    def unpacked_bytes(self) -> int:
        """About how much memory it takes as Arrow columns."""
        return unpacked_bytes(self.rows, self.parts + self.told)


def entries(kind: pa.Schema, rows: Sequence[Sequence[Any]]) -> tuple[pa.Table, set[int]]:
    """Entries, each beginning with its place, as a table of one of ENTRIES, and the places of those that don't fit it.

    Text that is no UTF-8 is made valid.
    """
    try:
        return _entries(kind, rows), set()
    except _MISFIT:
        found, misfits = [], set()
        for row in rows:
            try:
                found.append(_entries(kind, [[_valid(value) for value in row]]))
            except _MISFIT:
                misfits.add(int(row[0]))
        return pa.concat_tables([kind.empty_table(), *found]), misfits


def _entries(kind: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    if not rows:
        return kind.empty_table()
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), kind, strict=True)]
    return pa.Table.from_arrays(arrays, schema=kind)


def table_of_packed(blocks: Sequence[Packed], identity: Identity) -> pa.Table:
    """The rows of exchanges that are still numbers, with the columns of CODED.

    They point into the same tables, of which a later one knows more entries.
    """
    numbers, parts = map(_columns, columns_of([(block.numbers, block.rows, block.parts) for block in blocks]))
    rows = len(numbers[0])
    run_id, proxy_id, seed = identity
    # Repeating an empty list would cost more than all other columns together.
    zeros = pa.repeat(pa.scalar(0, pa.int32()), max(rows + 1, len(parts[0])))
    none = pa.ListArray.from_arrays(zeros[: rows + 1], pa.array([], pa.string()))
    columns: dict[str, Column] = {
        name: pa.DictionaryArray.from_arrays(zeros[:rows], pa.array([value]), safe=False)
        for name, value in (("run_id", run_id), ("proxy_id", proxy_id), ("event", "exchange"))
    }
    columns["seed"] = pa.repeat(pa.scalar(seed, pa.int64()), rows)
    columns["fault_names"] = columns["fault_kinds"] = none
    whos, whats, templates = blocks[-1].entries
    columns |= _spread(WHO_FIELDS, *_used(numbers[0], whos), zeros)
    used, places = _used(numbers[1], whats)
    columns |= _spread(WHAT, used, places, zeros)
    columns["exchange_seq"] = numbers[2]
    columns["correlation_id"] = numbers[3].cast(pa.int32())
    columns["request_at_us"] = numbers[4]
    for name, column in zip(_TIMES, numbers[5:8], strict=True):
        columns[name] = _without(column, _NONE)
    columns["request_bytes"], columns["response_bytes"] = numbers[8:10]
    columns["partitions"] = _partitions(_parts(parts, templates, zeros), numbers[10], places, used["partitions"])
    return pa.Table.from_arrays(_completed(columns, CODED, rows), schema=CODED)


def _completed(columns: Mapping[str, Column], fields: Iterable[pa.Field], rows: int) -> list[Column]:
    """The columns of all fields in their order; those that are not there say nothing."""
    nothing = {
        kind: pa.nulls(rows, kind) for kind in dict.fromkeys(one.type for one in fields if one.name not in columns)
    }
    return [columns[field.name] if field.name in columns else nothing[field.type] for field in fields]


def _columns(columns: Iterable[Any]) -> list[pa.Array]:
    return [
        pa.Array.from_buffers(pa.int64(), memoryview(column).nbytes // 8, [None, pa.py_buffer(column)])
        for column in columns
    ]


def _function(name: str, options: pc.FunctionOptions | None = None) -> Callable[..., Any]:
    """A function of Arrow; the methods of arrays look theirs up each time."""
    found = pc.get_function(name)
    return lambda *arguments: found.call(arguments, options)


_encode = _function("dictionary_encode")
_take = _function("take", pc.TakeOptions(boundscheck=False))


def _used(places: pa.Array, entries: pa.Table) -> tuple[pa.Table, pa.Array]:
    """The entries that are pointed to, and the places as places among these."""
    encoded = _encode(places)
    used = _take(entries, pc.index_in(encoded.dictionary, value_set=entries["place"]))
    return used.combine_chunks(), encoded.indices


def _spread(names: Sequence[str], entries: pa.Table, places: pa.Array, zeros: pa.Array) -> dict[str, pa.Array]:
    """The columns of these entries that say anything, each repeated where it is pointed to.

    ``zeros`` are at least as many.
    """
    rows = len(places)
    spread = {}
    for name in names:
        (values,) = entries[name].chunks
        if values.null_count == len(values):
            continue
        if pa.types.is_string(values.type):
            if _is_one(values):
                spread[name] = pa.DictionaryArray.from_arrays(zeros[:rows], values[:1], safe=False)
            else:
                found = _encode(values)
                indices = _take(found.indices, places)
                spread[name] = pa.DictionaryArray.from_arrays(indices, found.dictionary, safe=False)
        else:
            spread[name] = pa.repeat(values[0], rows) if _is_one(values) else _take(values, places)
    return spread


def _is_one(values: pa.Array) -> bool:
    """Whether all of them are known to be the same; of many that is not asked."""
    if len(values) > _FEW:
        return False
    known = values.to_pylist()
    return bool(known.count(known[0]) == len(known))


def _without(column: pa.Array, absent: pa.Scalar) -> pa.Array:
    """The column, null where it says ``absent``."""
    there = pc.not_equal(column, absent)
    if there.true_count == len(column):
        return column
    return pa.Array.from_buffers(column.type, len(column), [there.buffers()[1], column.buffers()[1]])


def _partitions(own: pa.Array | None, counts: pa.Array, whats: pa.Array, told: pa.ChunkedArray) -> Column:
    """The partitions of each row: those that its shape tells, or as many of its own as it says."""
    kind = CODED.field("partitions").type
    shapes = told.combine_chunks().cast(kind)
    if own is None:
        return pa.nulls(len(counts), kind) if shapes.null_count == len(shapes) else _repeated(shapes, whats)
    ends = pc.cumulative_sum(pc.max_element_wise(counts, 0)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    lists = pa.ListArray.from_arrays(offsets, own, type=kind, mask=pc.less_equal(counts, 0))
    if shapes.null_count == len(shapes):
        return lists
    # Shapes first, then the rows' own: each row points to one of them.
    both = pa.concat_arrays([shapes, lists])
    here = pc.add(pa.array(range(len(counts)), pa.int32()), len(shapes))
    return _repeated(both, pc.if_else(pc.equal(counts, ALL_TOLD), whats, here))


def _repeated(lists: pa.Array, places: pa.Array) -> pa.ChunkedArray:
    """``lists.take(places)``, a chunk for so many partitions; chunks that are the same are there once."""
    told = pc.sum(lists.value_lengths().take(places)).as_py() or 0
    if told < _LONG_LIST * len(places):
        return pa.chunked_array([lists.take(places)])
    rows = max(_CHUNK_PARTITIONS * len(places) // told, 1)
    wanted = places.to_pylist()
    chunks: dict[tuple[int, ...], pa.Array] = {}
    found = []
    for start in range(0, len(wanted), rows):
        some = tuple(wanted[start : start + rows])
        if some not in chunks:
            # Long ones are copied as wholes, at a third of the price of `take`.
            chunks[some] = pa.concat_arrays([lists[place : place + 1] for place in some])
        found.append(chunks[some])
    return pa.chunked_array(found)


def _parts(numbers: list[pa.Array], templates: pa.Table, zeros: pa.Array) -> pa.Array | None:
    if not len(numbers[0]):
        return None
    used, places = _used(numbers[0], templates)
    columns = _spread(TEMPLATE, used, places, zeros)
    for name, column in zip(VARYING, numbers[1:], strict=True):
        columns[name] = _without(column, _NONE).cast(PARTITION.field(name).type)
    return pa.StructArray.from_arrays(_completed(columns, _PARTS, len(places)), fields=list(_PARTS))


def in_time(table: pa.Table) -> pa.Table:
    """The rows in the order in which answers left and events happened."""
    whole = table.combine_chunks()  # taking from several chunks costs many times as much
    at = pc.coalesce(whole["response_at_us"], whole["request_at_us"], 0)
    return whole.take(pc.sort_indices(at))


def batches_of(rows: Sequence[Row]) -> tuple[list[pa.RecordBatch], int]:
    """The rows, text in them made valid where it has to be, and how many did not fit even so."""
    if not rows:
        return [], 0
    try:
        return [batch_of(rows)], 0
    except _MISFIT:
        valid = [tuple(map(_valid, row)) for row in rows]
        return _halved(valid)


def _halved(rows: Sequence[Row]) -> tuple[list[pa.RecordBatch], int]:
    """As many as fit: one that doesn't is found by halving, so that the others cost hardly more for it."""
    try:
        return [batch_of(rows)], 0
    except _MISFIT:
        if len(rows) == 1:
            return [], 1
        half = len(rows) // 2
        first, second = _halved(rows[:half]), _halved(rows[half:])
        return first[0] + second[0], first[1] + second[1]


def _valid(value: Any) -> Any:
    """Text that came with bytes that are no UTF-8 (lone surrogates) in a form that Parquet can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_valid(item) for item in value]
    if isinstance(value, dict):
        return {key: _valid(item) for key, item in value.items()}
    return value
