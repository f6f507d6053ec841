"""The rows that the recorder makes of what a proxy packs, by way of a journal."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from notleader.proxy.pump import Exchange
from notleader.proxy.record.block import Block
from notleader.proxy.record.frames import pack_exchange
from notleader.proxy.record.journal import Journal
from notleader.proxy.record.rows import Rows
from notleader.proxy.recorder.following import Contents
from tests.proxy.record.bench import head


def table_of_block(block: Block | None, rows: Rows, exchanges: list[Exchange] | None = None) -> Any:
    """The rows of a block and of exchanges, as ``rows`` would name and redact them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ".x.parquet.journal"
        journal = Journal(path, head(rows.level, run_id=rows.run_id, proxy_id=rows.proxy_id))
        journal.append(block, [pack_exchange(one, rows.level) for one in exchanges or ()], 1, 0, 0)
        journal.leave()
        contents = Contents(path)
        with contents.reader:
            contents.rows = rows
            frames = list(contents.frames())
            assert not contents.unmade
            return pa.concat_tables([contents.table_of(frames)])
