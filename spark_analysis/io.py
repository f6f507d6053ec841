"""Reads capture folders and checks that they are what the proxy writes; knows paths, not meanings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from notleader.spark_analysis.paths import InputError
from notleader.spark_analysis.schemas import EXCHANGE, EXCHANGE_REQUIRED, LOG, LOG_REQUIRED, SchemaError

_FOLDERS = tuple(StructField(name, StringType()) for name in ("date", "run"))


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
