"""Reads capture folders and checks that they are what the proxy writes; knows paths, not meanings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from notleader.spark_analysis.schemas import EXCHANGE, EXCHANGE_REQUIRED, LOG, LOG_REQUIRED, SchemaError

_FOLDERS = tuple(StructField(name, StringType()) for name in ("date", "run"))


class InputError(Exception):
    """Input that cannot be analysed; the message is one line that says what to change."""


def is_local(path: str) -> bool:
    """True for a plain path or a file: URL, which can be looked at without Spark."""
    return "://" not in path or path.startswith("file://")


def local_path(path: str) -> Path:
    """The file system path behind a plain path or a file: URL."""
    return Path(path.removeprefix("file://"))


def size_bytes(paths: Iterable[str]) -> int:
    """Bytes below the local ones of `paths`; what lies elsewhere counts as nothing."""
    total = 0
    for path in filter(is_local, paths):
        root = local_path(path)
        if root.is_file():
            total += root.stat().st_size
        for folder, _, names in os.walk(root):
            total += sum((Path(folder) / name).stat().st_size for name in names if not name.startswith("."))
    return total


def check_paths(
    captures: Sequence[str], outcomes: Sequence[str], logs: Sequence[str] = (), *, growing: bool = False
) -> None:
    """InputError for the first local path that is missing or has nothing to read (`growing`: nothing to read yet)."""
    for path in filter(is_local, logs):
        root = local_path(path)
        if not root.is_dir():
            raise InputError(f"log folder {path} does not exist: notleader log read writes one")
        if next(root.rglob("*.parquet"), None) is None:
            raise InputError(f"log folder {path} holds no .parquet file")
    for path in filter(is_local, captures):
        root = local_path(path)
        if not root.exists():
            raise InputError(f"capture folder {path} does not exist")
        if not root.is_dir() and root.suffix != ".parquet":
            raise InputError(f"{path} is not a capture folder")
        if growing and not root.is_dir():
            raise InputError(f"{path} is not a folder: a live analysis follows the folder that the proxy writes to")
        if not growing and root.is_dir() and next(root.rglob("*.parquet"), None) is None:
            raise InputError(f"capture folder {path} holds no .parquet file (was the capture closed?)")
    for path in filter(is_local, () if growing else outcomes):
        if not any(character in path for character in "*?[") and not local_path(path).exists():
            raise InputError(f"outcomes file {path} does not exist")


def read_captures(
    spark: SparkSession, folders: Sequence[str], *, runs: Sequence[str] = (), dates: Sequence[str] = ()
) -> DataFrame:
    """Every row of the capture folders, in the columns of EXCHANGE; `runs` and `dates` prune whole folders.

    Columns the proxy does not know are left out, optional ones that are missing read as null; a missing required
    column or another type is a SchemaError.
    """
    return reduce(DataFrame.unionByName, [_read_folder(spark, folder, runs, dates) for folder in folders])


def _read_folder(spark: SparkSession, folder: str, runs: Sequence[str], dates: Sequence[str]) -> DataFrame:
    try:
        rows = _parquet(spark).option("recursiveFileLookup", "true").parquet(folder).schema
        # Not told what the folders' names are, Spark would make a number of run=15e361470418, with all its digits.
        frame = _parquet(spark).schema(StructType([*rows, *_FOLDERS])).parquet(folder)
    except AnalysisException as error:
        raise InputError(f"capture folder {folder}: {_first_line(error)}") from error
    if runs:
        frame = frame.filter(_below("run", runs) & F.coalesce("run", "run_id").isin(list(runs)))
    if dates:
        frame = frame.filter(_below("date", dates))
    return as_exchanges(frame, f"capture folder {folder}")


def _parquet(spark: SparkSession) -> DataFrameReader:
    return spark.read.option("pathGlobFilter", "*.parquet")


def _below(folder: str, names: Sequence[str]) -> Column:
    """What lies in a folder of these names, or in none of the kind; of others Spark opens no file."""
    return F.col(folder).isNull() | F.col(folder).isin(list(names))


def as_exchanges(frame: DataFrame, table: str) -> DataFrame:
    """`frame` with exactly EXCHANGE's columns and types; `partitions` may lack fields that it doesn't know."""
    return _as(frame, EXCHANGE, EXCHANGE_REQUIRED, table, "a capture of notleader")


def read_logs(spark: SparkSession, folders: Sequence[str]) -> DataFrame:
    """Every row of what `notleader log read` wrote into these folders, in the columns of LOG."""
    return reduce(DataFrame.unionByName, [_read_log(spark, folder) for folder in folders])


def _read_log(spark: SparkSession, folder: str) -> DataFrame:
    try:
        frame = _parquet(spark).option("recursiveFileLookup", "true").parquet(folder)
    except AnalysisException as error:
        raise InputError(f"log folder {folder}: {_first_line(error)}") from error
    return _as(frame, LOG, LOG_REQUIRED, f"log folder {folder}", "what `notleader log read` writes")


def _as(frame: DataFrame, schema: StructType, required: Sequence[str], table: str, what: str) -> DataFrame:
    """`frame` with exactly the columns of `schema`; those not required are null where they are missing."""
    found = {field.name: field.dataType for field in frame.schema.fields}
    missing = [name for name in required if name not in found]
    if missing:
        raise SchemaError(f"{table}: not {what}, column {missing[0]} is missing")
    columns = []
    for field in schema.fields:
        if field.name not in found:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
            continue
        if found[field.name].simpleString() != field.dataType.simpleString():
            raise SchemaError(
                f"{table}: column {field.name} is {found[field.name].simpleString()},"
                f" expected {field.dataType.simpleString()}"
            )
        columns.append(F.col(field.name))
    return frame.select(*columns)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
