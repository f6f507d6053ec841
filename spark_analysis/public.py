"""The tables that are interfaces: which columns each has, what a row is, and where its files are."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import StructType

from notleader.spark_analysis.schemas import EXCHANGE, FINDING, HISTORY, LOG, OPERATION, OPERATION_CAUSES


class Public(NamedTuple):
    """One table; `rows` says in Markdown what a row is, `files` where they are, below the folder that it is given."""

    name: str
    columns: StructType
    rows: str
    files: str
    version_is: str


_FOOTER = "`notleader.schema_version` in each file's metadata"
_JSON = "`schema_version` in `findings.json`"

TABLES = (
    Public(
        "capture",
        EXCHANGE,
        "One row per exchange (a request and what became of it) and per event of a connection or a listener, as"
        " `notleader run --capture DIR` writes it: [the capture](../capture.md). With `--capture-redact` a field may be"
        " null or a hash besides. Times come from a clock that never runs backwards within a run.",
        "date=*/run=*/*.parquet",
        _FOOTER,
    ),
    Public(
        "log",
        LOG,
        "What is in the brokers' log, one file per partition, as `notleader log read` writes it: [where the record"
        " really is](../analysis.md#where-the-record-really-is).",
        "log-*.parquet",
        _FOOTER,
    ),
    Public(
        "operations",
        OPERATION,
        "One row per operation that an outcome line tells of, as it was understood, and one per bad line. Of an"
        " operation that was told twice, pending and then done, the last word counts. Times are the client's own.",
        "operations/*.parquet",
        _JSON,
    ),
    Public(
        "history",
        HISTORY,
        "One row per client operation but the records that polls got, with every attempt on the wire and what rules did"
        " to it.",
        "history/*.parquet",
        _JSON,
    ),
    Public(
        "causes",
        OPERATION_CAUSES,
        "One row for each operation that went wrong, slow or out again and had a rule in its way: which, how, and for"
        " how long. Which of them a finding names is [another question](../verdicts.md#causes). Empty where no rule"
        " struck.",
        "causes/*.parquet",
        _JSON,
    ),
    Public(
        "findings",
        FINDING,
        "What the questions found: alike cases summed up in one row, and a row for each question that found none."
        " `findings.json` has the same as JSON.",
        "findings/*.parquet",
        _JSON,
    ),
)
