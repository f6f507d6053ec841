"""Captures of any size, made by DuckDB: what a proxy and its clients would have left, with skew and planted faults.

Of all exchanges about a third are Produce with one record, half are Fetch and a tenth Metadata; one partition of 64 has
half of all records, one client of 51 sends two fifths of everything (`skewed=False`: all the same share). One send in a
hundred met NOT_LEADER_OR_FOLLOWER first; one in about a hundred thousand was acknowledged and never read, as many lie
in the log twice. The same size gives the same rows.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
from pyspark.sql.types import ArrayType, DataType, StructType

from notleader.spark_analysis.schemas import EFFECT, EXCHANGE, PARTITION

_START_US = 1_750_000_000_000_000
_EVERY_US = 50
LOST_EVERY, DOUBLED_EVERY = 100_003, 100_019
_ROWS_PER_SEGMENT = 500_000
_NAMES = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "int": "INTEGER",
    "smallint": "SMALLINT",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
}

# Decided by the number alone: kind, partition, client, time. The first of 126 halves of a dice go to partition 0.
_FACTS = """
create or replace view facts as
select id, {start} + id * {every} as at_us, {partition}::INTEGER as part, {client} as client,
  case when hash(id) % 100 < 33 then 'Produce' when hash(id) % 100 < 90 then 'Fetch' else 'Metadata' end as api,
  hash(id, 3) % 100 = 0 as retried,
  hash(id, 4) % {lost} = 0 as lost, not lost and hash(id, 5) % {doubled} = 0 as doubled
from (select range::BIGINT as id from range({low}, {high}))
"""
_SKEWED = {
    "partition": "greatest((hash(id, 1) % 126)::INTEGER - 62, 0)",
    "client": "case when hash(id, 2) % 1000 < 400 then 'chatty' else 'client-' || hash(id, 2) % 50 end",
}
_EVEN = {"partition": "hash(id, 1) % 64", "client": "'client-' || hash(id, 2) % 51"}

# An answered exchange for every number, and before it the refused attempt of a send that was retried.
_EXCHANGES = """
select {columns} from (
  select *, false as hit, at_us as asked_us from facts
  union all select *, true, at_us - 150 from facts where api = 'Produce' and retried
)
"""
_SENDS = """
select client, 'send' as operation, 'm' || id as message_id, 'orders' as topic, part as "partition", id as "offset",
  at_us - 200 as called_at_us, at_us - 190 as returned_at_us,
  at_us - 200 + case when retried then 2000 else 1200 end as completed_at_us, 'ok' as outcome, 'main' as thread
from facts where api = 'Produce'
"""
_POLLS = """
select 'reader' as client, 'poll' as operation, 'm' || id as message_id, 'orders' as topic, part as "partition",
  id + again as "offset", at_us + 5000 as completed_at_us, 'ok' as outcome
from (select *, 0 as again from facts where not lost union all select *, {exchanges} from facts where doubled)
where api = 'Produce'
"""


@dataclass(frozen=True, slots=True)
class Planted:
    """What the analysis has to find in a generated capture."""

    exchanges: int
    sends: int
    retried: int
    lost: int
    doubled: int


def generate(
    exchanges: int,
    capture: str,
    outcomes: str,
    *,
    skewed: bool = True,
    lost_every: int = LOST_EVERY,
    doubled_every: int = DOUBLED_EVERY,
) -> Planted:
    """Write about `exchanges` exchanges and the clients' words for them, segment by segment; what is in them."""
    segments, said = Path(capture) / "date=2025-06-15" / "run=benchmark", Path(outcomes)
    for folder in (segments, said):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    database = duckdb.connect(config={"threads": 2, "memory_limit": "2GB"})
    database.execute("set enable_progress_bar = false")
    counts = [0, 0, 0, 0]
    for number, low in enumerate(range(0, exchanges, _ROWS_PER_SEGMENT)):
        given = {"start": _START_US, "every": _EVERY_US, "lost": lost_every, "doubled": doubled_every}
        high = min(low + _ROWS_PER_SEGMENT, exchanges)
        database.execute(_FACTS.format(**given, **(_SKEWED if skewed else _EVEN), low=low, high=high))
        rows = _EXCHANGES.format(columns=_columns())
        database.execute(
            f"copy ({rows}) to '{segments}/proxy-1-{number:06}.parquet' (format parquet, compression zstd)"
        )
        database.execute(f"copy ({_SENDS}) to '{said}/sends-{number:06}.jsonl' (format json)")
        polls = _POLLS.format(exchanges=exchanges)
        database.execute(f"copy ({polls}) to '{said}/polls-{number:06}.jsonl' (format json)")
        summed = database.sql(
            "select count(*), count_if(retried), count_if(lost), count_if(doubled) from facts where api = 'Produce'"
        ).fetchall()[0]
        counts = [before + more for before, more in zip(counts, summed, strict=True)]
    return Planted(exchanges + counts[1], *counts)


def _columns() -> str:
    """The columns of EXCHANGE over `facts`; what a Produce has no word for is null."""
    batch = {
        "topic": "'orders'",
        "partition_index": "part",
        "producer_id": "-1",
        "producer_epoch": "-1",
        "base_sequence": "-1",
        "record_count": "1",
        "batch_bytes": "180",
        "base_offset": "if(hit, -1, id)",
        "error_code": "if(hit, 6, 0)",
        "message_ids": "['m' || id]",
    }
    effect = {"rule": "'lost-leader'", "kind": "'error'", "did": "'answered'", "error_code": "6"}
    row = {
        "run_id": "'benchmark'",
        "proxy_id": "'proxy-1'",
        "connection_id": "hash(client) % 1000",
        "exchange_seq": "id * 2 + if(hit, 1, 0)",
        "event": "'exchange'",
        "client_addr": "'10.0.0.1:40000'",
        "listener": "'broker-1'",
        "node_id": "part % 3",
        "client_id": "client",
        "api_key": "case api when 'Produce' then 0 when 'Fetch' then 1 else 3 end",
        "api_name": "api",
        "api_version": "11",
        "correlation_id": "id % 2147483647",
        "request_at_us": "asked_us",
        "forwarded_at_us": "asked_us",
        "broker_responded_at_us": "asked_us + 900",
        "response_at_us": "asked_us + if(hit, 40, 1000)",
        "request_bytes": "260",
        "response_bytes": "90",
        "outcome": "if(hit, 'injected', 'answered')",
        "error_code": "if(hit, 6, 0)",
        "fault_names": "if(hit, ['lost-leader'], [])",
        "fault_kinds": "if(hit, ['error'], [])",
        "fault_phase": "if(hit, 'before_broker', null)",
        "effects": f"if(hit, [{_packed(EFFECT, effect)}], null)",
        "acks": "if(api = 'Produce', -1, null)",
        "partitions": f"if(api = 'Produce', [{_packed(PARTITION, batch)}], [])",
    }
    return ", ".join(f"({row.get(f.name, 'null')})::{_duck(f.dataType)} as {f.name}" for f in EXCHANGE.fields)


def _packed(kind: StructType, given: dict[str, str]) -> str:
    """A struct whose fields are null where none is given."""
    fields = ", ".join(f"{f.name} := {given.get(f.name, 'null')}::{_duck(f.dataType)}" for f in kind.fields)
    return f"struct_pack({fields})"


def _duck(kind: DataType) -> str:
    """Spark's type in DuckDB's words."""
    if isinstance(kind, ArrayType):
        return f"{_duck(kind.elementType)}[]"
    if isinstance(kind, StructType):
        return f"struct({', '.join(f'{field.name} {_duck(field.dataType)}' for field in kind.fields)})"
    return _NAMES[kind.simpleString()]
