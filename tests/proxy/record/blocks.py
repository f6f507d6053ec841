"""Blocks of exchanges as the loop hands them to the recorder, and the rows they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from notleader.proxy.record.block import (
    ALL_TOLD,
    NONE,
    Block,
    Part,
    Summary,
    Tables,
    exchanges_of,
)
from notleader.proxy.record.rows import COLUMNS, PARTITION_FIELDS
from tests.proxy.record.entries import PROXY, RUN
from tests.proxy.record.packing import Packer

TOLD = [dict.fromkeys(PARTITION_FIELDS) | {"topic": f"t{number}", "partition_index": number} for number in range(3)]
HEARTBEAT, PRODUCE, METADATA_ANSWER = range(3)


def tables(client_id: str = "c") -> Tables:
    made = Tables()
    made.whos += [(number, f"127.0.0.1:{number}", "bootstrap", None, client_id, *(None,) * 3) for number in range(4)]
    made.whats += [
        Summary((12, "Heartbeat", 4, "answered", 0, 0, None, "billing", None, None)),
        Summary((0, "Produce", 9, "answered", 6, None, None, None, -1, None)),
        Summary((3, "Metadata", 12, "answered", 0, None, None, None, None, None), TOLD),
    ]
    made.templates += [("orders", None, number, 7, 0, "none", number, None) for number in range(4)]
    return made


def block_of(pointed_to: Tables, sequence: range) -> Block:
    """Heartbeats, produces of none, one or two partitions, and answers to Metadata, in turn."""
    block = Block(pointed_to)
    packer = Packer(block)
    for number in sequence:
        what = number % 3
        count = number % 9 // 3 if what == PRODUCE else ALL_TOLD if what == METADATA_ANSWER else 0
        at = number * 1000
        parts = [(part + number % 2, number, 1, 100, NONE if part else number) for part in range(max(count, 0))]
        row = (number % 4, what, number, number, at, at + 1, at + 2, at + 500, 60, 20, count)
        packer.put(*row, parts=tuple(parts))
        block.told += len(TOLD) if what == METADATA_ANSWER else 0
    return block


def expected(block: Block) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows_of(block, RUN, PROXY, 7)]


def rows_of(block: Block, run_id: str, proxy_id: str, seed: int) -> Iterator[tuple[Any, ...]]:
    """Each exchange as a row, in the order of ``rows.COLUMNS``."""
    tables = block.tables
    for one, parts in exchanges_of(block.numbers):
        who, what = tables.whos[one[0]], tables.whats[one[1]]
        api_key, api_name, version, outcome, error, throttle, transactional_id, group_id, acks, detail = what.values
        count = one[10]
        partitions = what.partitions if count == ALL_TOLD else _partitions(tables, parts) or None
        yield (
            run_id,
            proxy_id,
            who[0],
            one[2],
            "exchange",
            *who[1:],
            api_key,
            api_name,
            version,
            one[3],
            one[4],
            *(None if at == NONE else at for at in one[5:8]),
            one[8],
            one[9],
            outcome,
            error,
            throttle,
            [],
            [],
            None,
            None,
            seed,
            transactional_id,
            group_id,
            acks,
            partitions,
            detail,
            None,
            None,
        )


def _partitions(tables: Tables, parts: list[Part]) -> list[dict[str, Any]]:
    found = []
    for number, *values in parts:
        sequence, count, size, offset = (None if value == NONE else value for value in values)
        topic, topic_id, index, producer_id, producer_epoch, compression, error, epoch = tables.templates[number]
        one = {
            "topic": topic,
            "topic_id": topic_id,
            "partition_index": index,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "base_sequence": sequence,
            "record_count": count,
            "batch_bytes": size,
            "compression": compression,
            "base_offset": offset,
            "error_code": error,
            "leader_epoch": epoch,
            "message_ids": None,
            "key_hashes": None,
        }
        found.append(one)
    return found
