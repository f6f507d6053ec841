"""Reads capture folders and checks that they are what the proxy writes; knows paths, not meanings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from notleader.spark_analysis.paths import InputError
from notleader.spark_analysis.plans import settled
from notleader.spark_analysis.schemas import (
    EXCHANGE,
    EXCHANGE_REQUIRED,
    LOG,
    LOG_REQUIRED,
    SchemaError,
    as_field,
    nothing_as,
)
from notleader.spark_analysis.transforms.attempts import with_touches

_CAPTURE = "a capture of notleader"
_LOG = "what `notleader log read` writes"
_FOLDERS = tuple(StructField(name, StringType()) for name in ("date", "run"))


def read_captures(
    spark: SparkSession, folders: Sequence[str], *, runs: Sequence[str] = (), dates: Sequence[str] = ()
) -> DataFrame:
    """Every row of the capture folders, as EXCHANGE and with `touches`; `runs` and `dates` prune whole folders.

    Columns the proxy does not know are left out, optional ones that are missing read as null; a missing required
    column or another type is a SchemaError.
    """
    alike = _alike(spark, folders, EXCHANGE, EXCHANGE_REQUIRED, "capture folder", _CAPTURE)
    if runs or dates:
        frames = [_pruned(spark, folder, rows, runs, dates) for rows, group in alike for folder in group]
    else:
        # One scan for all that look alike: a plan of two hundred scans takes Spark longer than what they hold.
        frames = [_whole(spark, group, rows) for rows, group in alike]
    rows = reduce(DataFrame.unionByName, [as_exchanges(frame, "capture folders") for frame in frames])
    return settled(with_touches(rows))


def _alike(
    spark: SparkSession, folders: Sequence[str], schema: StructType, required: Sequence[str], kind: str, what: str
) -> list[tuple[StructType, list[str]]]:
    """The folders by the columns that they have. InputError or SchemaError for one that is not `what`."""
    alike: dict[str, tuple[StructType, list[str]]] = {}
    for folder in folders:
        try:
            found = _whole(spark, [folder]).schema
        except AnalysisException as error:
            raise InputError(f"{kind} {folder}: {_first_line(error)}") from error
        _columns(found, schema, required, f"{kind} {folder}", what)
        alike.setdefault(found.json(), (found, []))[1].append(folder)
    return list(alike.values())


def _whole(spark: SparkSession, folders: Sequence[str], rows: StructType | None = None) -> DataFrame:
    reader = _parquet(spark).option("recursiveFileLookup", "true")
    return (reader if rows is None else reader.schema(rows)).parquet(*folders)


def _pruned(spark: SparkSession, folder: str, rows: StructType, runs: Sequence[str], dates: Sequence[str]) -> DataFrame:
    # Not told what the folders' names are, Spark would make a number of run=15e361470418, with all its digits.
    frame = _parquet(spark).schema(StructType([*rows, *_FOLDERS])).parquet(folder)
    if runs:
        frame = frame.filter(_below("run", runs) & F.coalesce("run", "run_id").isin(list(runs)))
    if dates:
        frame = frame.filter(_below("date", dates))
    return frame


def _parquet(spark: SparkSession) -> DataFrameReader:
    return spark.read.option("pathGlobFilter", "*.parquet")


def _below(folder: str, names: Sequence[str]) -> Column:
    """What lies in a folder of these names, or in none of the kind; of others Spark opens no file."""
    return F.col(folder).isNull() | F.col(folder).isin(list(names))


def as_exchanges(frame: DataFrame, table: str) -> DataFrame:
    """`frame` with exactly EXCHANGE's columns and types; `partitions` may lack fields that it doesn't know."""
    return _as(frame, EXCHANGE, EXCHANGE_REQUIRED, table, _CAPTURE)


def read_logs(spark: SparkSession, folders: Sequence[str]) -> DataFrame:
    """Every row of what `notleader log read` wrote into these folders, in the columns of LOG."""
    alike = _alike(spark, folders, LOG, LOG_REQUIRED, "log folder", _LOG)
    frames = [_whole(spark, group, rows) for rows, group in alike]
    rows = [_as(each, LOG, LOG_REQUIRED, "log folders", _LOG) for each in frames]
    return settled(reduce(DataFrame.unionByName, rows))


def _as(frame: DataFrame, schema: StructType, required: Sequence[str], table: str, what: str) -> DataFrame:
    """`frame` with exactly the columns of `schema`; those not required are null where they are missing."""
    return frame.select(*_columns(frame.schema, schema, required, table, what))


def _columns(rows: StructType, schema: StructType, required: Sequence[str], table: str, what: str) -> list[Column]:
    """The columns of `schema` by those of `rows`. SchemaError for one that is missing or of another type."""
    found = {field.name: field.dataType for field in rows.fields}
    missing = [name for name in required if name not in found]
    if missing:
        raise SchemaError(f"{table}: not {what}, column {missing[0]} is missing")
    columns = []
    for field in schema.fields:
        if field.name not in found:
            columns.append(nothing_as(field))
            continue
        if (filled := _filled(F.col(field.name), found[field.name], field.dataType)) is not None:
            columns.append(filled.alias(field.name))
            continue
        if found[field.name].simpleString() != field.dataType.simpleString():
            raise SchemaError(
                f"{table}: column {field.name} is {found[field.name].simpleString()},"
                f" expected {field.dataType.simpleString()}"
            )
        columns.append(F.col(field.name))
    return columns


def _filled(column: Column, found: DataType, wanted: DataType) -> Column | None:
    """A list of structs of another version that lacks some of the fields, with these as nulls; None for all else."""
    if not (isinstance(found, ArrayType) and isinstance(wanted, ArrayType)):
        return None
    inner, outer = found.elementType, wanted.elementType
    if not (isinstance(inner, StructType) and isinstance(outer, StructType)):
        return None
    there = {f.name: f.dataType.simpleString() for f in inner.fields}
    known = {f.name: f.dataType.simpleString() for f in outer.fields}
    if there == known or not there.items() <= known.items():
        return None

    def whole(row: Column) -> Column:
        return F.struct(*[as_field(f, row[f.name]) if f.name in there else nothing_as(f) for f in outer.fields])

    return F.transform(column, whole)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
