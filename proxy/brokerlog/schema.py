"""The columns of a log that was read, and the Parquet files that hold it."""

from __future__ import annotations

import bisect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

LOG: Final = pa.schema(
    [
        ("run_id", pa.string()),
        ("event", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("timestamp_type", pa.string()),
        ("message_id", pa.string()),
        ("key_hash", pa.int64()),
        ("tombstone", pa.bool_()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("transaction", pa.string()),
        ("control_type", pa.string()),
        ("leader_epoch", pa.int32()),
        ("compression", pa.string()),
        ("log_start_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("last_stable_offset", pa.int64()),
        ("cleanup_policy", pa.string()),
        ("delete_retention_ms", pa.int64()),
        ("read_at_us", pa.int64()),
        ("problem", pa.string()),
    ],
    metadata={"notleader.schema_version": "1"},
)
"""The columns. `event` says what a row is: `record`; `control`, a marker of a transaction's end or another;
`unread`, offsets `offset` to `last_offset` that could not be read; `partition`, where its log began and ended.
"""

_NAMES: Final = tuple(LOG.names)
_TRANSACTION: Final = LOG.get_field_index("transaction")
_ROWS: Final = 50_000


class PartitionFile:
    """The rows of one partition, in a file that appears whole and takes the place of an earlier reading.

    `add` takes rows in offset order. What became of a transaction is only known from the marker behind its records, so
    `finish` writes a partition that had any once more, with that filled in; memory holds one marker per transaction.
    """

    def __init__(self, folder: Path, topic: str, partition: int, run_id: str | None) -> None:
        run = f"{run_id}-" if run_id else ""
        self._path = folder / f"log-{run}{topic}-{partition}.parquet"
        self._growing = folder / f".{self._path.name}.growing"
        self._common = {"run_id": run_id, "topic": topic, "partition": partition}
        self._rows: list[dict[str, Any]] = []
        self._writer = pq.ParquetWriter(self._growing, LOG, compression="zstd")
        self._markers: dict[int, tuple[list[int], list[str]]] = {}
        self._has_transactions = False

    def add(self, row: Mapping[str, Any]) -> None:
        """Take one row; what it doesn't name is null."""
        if row.get("transactional"):
            self._has_transactions = True
            if row["event"] == "control":
                offsets, ends = self._markers.setdefault(row["producer_id"], ([], []))
                offsets.append(row["offset"])
                ends.append(row["control_type"])
        self._rows.append({**self._common, **row})
        if len(self._rows) >= _ROWS:
            self._flush()

    def finish(self, partition: Mapping[str, Any]) -> dict[str, int]:
        """Write the partition's own row and close; how many records ended in each kind of transaction.

        The keys are `committed`, `aborted` and `open`.
        """
        self.add({"event": "partition", **partition})
        self._flush()
        self._writer.close()
        counts = dict.fromkeys(("committed", "aborted", "open"), 0)
        if self._has_transactions:
            self._resolve(counts)
        os.replace(self._growing, self._path)
        return counts

    def discard(self) -> None:
        """Leave nothing of this reading; an earlier one stays."""
        self._writer.close()
        self._growing.unlink(missing_ok=True)

    def _flush(self) -> None:
        columns = [[row.get(name) for row in self._rows] for name in _NAMES]
        self._writer.write_table(pa.table(columns, schema=LOG))
        self._rows.clear()

    def _resolve(self, counts: dict[str, int]) -> None:
        resolved = self._growing.with_suffix(".resolved")
        with pq.ParquetFile(self._growing) as whole, pq.ParquetWriter(resolved, LOG, compression="zstd") as writer:
            for batch in whole.iter_batches(_ROWS):
                columns = batch.select(["event", "transactional", "producer_id", "offset"]).to_pydict().values()
                told = [self._became(counts, *row) for row in zip(*columns, strict=True)]
                writer.write_table(
                    pa.Table.from_batches([batch]).set_column(
                        _TRANSACTION, LOG.field(_TRANSACTION), pa.array(told, pa.string())
                    )
                )
        os.replace(resolved, self._growing)

    def _became(
        self, counts: dict[str, int], event: str, transactional: bool | None, producer_id: int | None, offset: int
    ) -> str | None:
        """A producer has one transaction at a time: the first marker of its id behind a record tells its end."""
        if event != "record" or not transactional or producer_id is None:
            return None
        offsets, ends = self._markers.get(producer_id, ((), ()))
        index = bisect.bisect_right(offsets, offset)
        became = _ENDS.get(ends[index], "open") if index < len(offsets) else "open"
        counts[became] += 1
        return became


_ENDS: Final = {"commit": "committed", "abort": "aborted"}


def rows_of(folder: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Every row of a log that was read, for programs that look at it themselves."""
    files = sorted(folder.glob("log-*.parquet"))
    tables = [pq.read_table(file, columns=list(columns) if columns else None, partitioning=None) for file in files]
    return [row for table in tables for row in table.to_pylist()]
