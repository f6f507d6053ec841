"""The Parquet types of the capture's columns (see ``proxy.capture.rows.COLUMNS`` for their order)."""

from __future__ import annotations

import contextlib
import time
from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from proxy.capture.block import ALL_TOLD, NONE, NUMBERS, PART_NUMBERS, WHAT, Block, flat
from proxy.capture.rows import Row

PARTITION = pa.struct(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition_index", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("record_count", pa.int32()),
        ("batch_bytes", pa.int64()),
        ("compression", pa.string()),
        ("base_offset", pa.int64()),
        ("error_code", pa.int16()),
        ("leader_epoch", pa.int32()),
        ("message_ids", pa.list_(pa.string())),
        ("key_hashes", pa.list_(pa.int64())),
    ]
)

EXCHANGE = pa.schema(
    [
        ("run_id", pa.string()),
        ("proxy_id", pa.string()),
        ("connection_id", pa.int64()),
        ("exchange_seq", pa.int64()),
        ("event", pa.string()),
        ("client_addr", pa.string()),
        ("listener", pa.string()),
        ("node_id", pa.int32()),
        ("client_id", pa.string()),
        ("client_software_name", pa.string()),
        ("client_software_version", pa.string()),
        ("principal", pa.string()),
        ("api_key", pa.int16()),
        ("api_name", pa.string()),
        ("api_version", pa.int16()),
        ("correlation_id", pa.int32()),
        ("request_at_us", pa.int64()),
        ("forwarded_at_us", pa.int64()),
        ("broker_responded_at_us", pa.int64()),
        ("response_at_us", pa.int64()),
        ("request_bytes", pa.int64()),
        ("response_bytes", pa.int64()),
        ("outcome", pa.string()),
        ("error_code", pa.int16()),
        ("throttle_time_ms", pa.int32()),
        ("fault_names", pa.list_(pa.string())),
        ("fault_kinds", pa.list_(pa.string())),
        ("fault_phase", pa.string()),
        ("seed", pa.int64()),
        ("transactional_id", pa.string()),
        ("group_id", pa.string()),
        ("acks", pa.int16()),
        ("partitions", pa.list_(PARTITION)),
        ("detail", pa.string()),
        ("request_frame", pa.binary()),
        ("response_frame", pa.binary()),
    ]
)

# Numbers hardly repeat, and what repeats among them is compressed well enough: dictionaries are for text alone.
TEXTS = [
    *(field.name for field in EXCHANGE if pa.types.is_string(field.type)),
    *(f"{name}.list.element" for name in ("fault_names", "fault_kinds")),
    *(f"partitions.list.element.{field.name}" for field in PARTITION if pa.types.is_string(field.type)),
]
# Times, counters and sizes differ by little from row to row.
GROWING = [
    "connection_id",
    "exchange_seq",
    "correlation_id",
    "request_at_us",
    "forwarded_at_us",
    "broker_responded_at_us",
    "response_at_us",
    "request_bytes",
    "response_bytes",
    "seed",
]
# What readers prune row groups by.
ASKED_FOR = ["request_at_us", "event", "api_name", "client_id", "group_id", "error_code", "outcome"]


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows as one record batch. Raises ArrowException, UnicodeError or OverflowError where a value doesn't fit."""
    arrays = []
    for column, field in zip(zip(*rows, strict=True), EXCHANGE, strict=True):
        arrays.append(_array(column, field.type))
        time.sleep(0)  # whoever waits for the interpreter may have it between two columns
    return pa.RecordBatch.from_arrays(arrays, schema=EXCHANGE)


def _array(column: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    # Many columns hold one value all along: seeing that costs a quarter of converting each.
    first = column[0]
    if first is None and column.count(None) == len(column):
        return pa.nulls(len(column), kind)
    if isinstance(first, (str, int)) and column.count(first) == len(column):
        return pa.repeat(pa.scalar(first, kind), len(column))
    return pa.array(column, type=kind)


_WHO = (
    "connection_id",
    "client_addr",
    "listener",
    "node_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "principal",
)
_TEMPLATE = (
    "topic",
    "topic_id",
    "partition_index",
    "producer_id",
    "producer_epoch",
    "compression",
    "error_code",
    "leader_epoch",
)
_VARYING = ("base_sequence", "record_count", "batch_bytes", "base_offset")
_TIMES = ("forwarded_at_us", "broker_responded_at_us", "response_at_us")


def batch_of_block(block: Block, run_id: str, proxy_id: str, seed: int) -> pa.RecordBatch:
    """The same as ``batch_of(list(block.rows(…)))``, column by column. Raises what that raises."""
    rows = len(block)
    counted = flat(block.numbers)
    numbers = [_column(counted, place, NUMBERS) for place in range(NUMBERS)]
    columns: dict[str, pa.Array] = {
        name: pa.repeat(pa.scalar(value, EXCHANGE.field(name).type), rows)
        for name, value in (("run_id", run_id), ("proxy_id", proxy_id), ("event", "exchange"), ("seed", seed))
    }
    # Repeating an empty list would cost more than all other columns together.
    none = pa.ListArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows + 1), pa.array([], pa.string()))
    columns["fault_names"] = columns["fault_kinds"] = none
    whos, places = _used(numbers[0], block.tables.whos)
    columns |= _spread(EXCHANGE, _WHO, whos, places)
    whats, places = _used(numbers[1], block.tables.whats)
    columns |= _spread(EXCHANGE, WHAT, [what.values for what in whats], places)
    columns["exchange_seq"] = numbers[2]
    columns["correlation_id"] = numbers[3].cast(pa.int32())
    columns["request_at_us"] = numbers[4]
    for name, column in zip(_TIMES, numbers[5:8], strict=True):
        columns[name] = _without(column, 0)
    columns["request_bytes"], columns["response_bytes"] = numbers[8:10]
    columns["partitions"] = _partitions(block, numbers[10], places, [what.partitions for what in whats])
    return pa.RecordBatch.from_arrays(
        [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in EXCHANGE],
        schema=EXCHANGE,
    )


def _column(numbers: array[int], place: int, width: int) -> pa.Array:
    column = numbers[place::width]
    return pa.Array.from_buffers(pa.int64(), len(column), [None, pa.py_buffer(column)])


def _used(places: pa.Array, table: Sequence[Any]) -> tuple[list[Any], pa.Array]:
    """The entries of a table that are pointed to, and the places as places among these."""
    encoded = places.dictionary_encode()
    return [table[place] for place in encoded.dictionary.to_pylist()], encoded.indices


def _spread(
    kinds: Any, names: Sequence[str], entries: Sequence[Sequence[Any]], places: pa.Array
) -> dict[str, pa.Array]:
    """The columns of these entries, each repeated where it is pointed to."""
    spread = {}
    for name, values in zip(names, zip(*entries, strict=True), strict=True):
        kind = kinds.field(name).type
        if values.count(values[0]) == len(values):
            spread[name] = (
                pa.nulls(len(places), kind) if values[0] is None else pa.repeat(pa.scalar(values[0], kind), len(places))
            )
        else:
            spread[name] = pa.array(values, kind).take(places)
    return spread


def _without(column: pa.Array, absent: int) -> pa.Array:
    """The column, null where it says ``absent``."""
    there = pc.not_equal(column, absent)
    return column if there.true_count == len(column) else pc.if_else(there, column, None)


def _partitions(block: Block, counts: pa.Array, whats: pa.Array, told: list[Any]) -> pa.Array:
    """The partitions of each row: those that its shape tells, or as many of the block's parts as it says."""
    kind = EXCHANGE.field("partitions").type
    own = _parts(block)
    if own is None:
        if all(one is None for one in told):
            return pa.nulls(len(counts), kind)
        return pa.array(told, kind).take(whats)
    ends = pc.cumulative_sum(pc.max_element_wise(counts, 0)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    lists = pa.ListArray.from_arrays(offsets, own, type=kind, mask=pc.less_equal(counts, 0))
    if all(one is None for one in told):
        return lists
    # Shapes first, then the rows' own: each row points to one of them.
    both = pa.concat_arrays([pa.array(told, kind), lists])
    here = pc.add(pa.array(range(len(counts)), pa.int32()), len(told))
    return both.take(pc.if_else(pc.equal(counts, ALL_TOLD), whats, here))


def _parts(block: Block) -> pa.Array | None:
    if not block.parts:
        return None
    counted = flat(block.parts)
    numbers = [_column(counted, place, PART_NUMBERS) for place in range(PART_NUMBERS)]
    templates, places = _used(numbers[0], block.tables.templates)
    columns = _spread(PARTITION, _TEMPLATE, templates, places)
    for name, column in zip(_VARYING, numbers[1:], strict=True):
        columns[name] = _without(column, NONE).cast(PARTITION.field(name).type)
    rows = len(places)
    return pa.StructArray.from_arrays(
        [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in PARTITION],
        fields=list(PARTITION),
    )


def in_time(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all; where there are several, in the order in which answers left and events happened."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, EXCHANGE)
    at = pc.coalesce(table["response_at_us"], table["request_at_us"], 0)
    return table.take(pc.sort_indices(at)).combine_chunks().to_batches()[0]


def batch_of_odd(rows: Sequence[Row]) -> tuple[pa.RecordBatch, int]:
    """The rows of which some don't fit the types: text made valid, the rest left out; and how many were."""
    batches = []
    for row in rows:
        with contextlib.suppress(pa.ArrowException, UnicodeError, OverflowError):
            batches.append(batch_of([tuple(map(_valid, row))]))
    if not batches:
        return batch_of_nothing(), len(rows)
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0], len(rows) - len(batches)


def batch_of_nothing() -> pa.RecordBatch:
    """A batch without rows."""
    return pa.RecordBatch.from_pylist([], schema=EXCHANGE)


def _valid(value: Any) -> Any:
    """Text that came with bytes that are no UTF-8 (lone surrogates) in a form that Parquet can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_valid(item) for item in value]
    if isinstance(value, dict):
        return {key: _valid(item) for key, item in value.items()}
    return value
