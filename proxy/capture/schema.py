"""The Parquet types of the capture's columns (see ``proxy.capture.rows.COLUMNS`` for their order)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

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
SCHEMA_VERSION = 1


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
