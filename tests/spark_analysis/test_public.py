"""What real runs left, and what was made of it, is as the pages of the public tables say."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from notleader.spark_analysis.docs import columns_of
from notleader.spark_analysis.jobs.analyze import analyze
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.public import TABLES, Public
from notleader.spark_analysis.report.files import write_report
from notleader.spark_analysis.schemas import OPERATION_CAUSES, SCHEMA_VERSION

from .conftest import tables_of
from .synthetic import Story

pytestmark = pytest.mark.spark

_RECORDINGS = Path(__file__).parents[1] / "truth" / "recordings.tar.xz"
# Real clients at a real Kafka: two with gaps, one in transactions, one that a rule sent to the wrong leader.
_RUNS = (
    "a-gap",
    "a-gap-and-groups",
    "transactions-with-aborts-aiokafka",
    "wrong-leader-kafka-python",
)


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`capture` and `log` as recorded, and below `out` what the analysis wrote."""
    folder = tmp_path_factory.mktemp("public")
    with tarfile.open(_RECORDINGS) as recordings:
        wanted = [member for member in recordings if member.name.split("/")[0] in _RUNS]
        recordings.extractall(folder, wanted, filter="data")
    below = {name: [str(folder / run / name) for run in _RUNS] for name in ("capture", "outcomes", "log")}
    out = str(folder / "out")
    judged = analyze(
        spark, below["capture"], below["outcomes"], out, Options(by_run=True), logs=below["log"]
    )  # fmt: skip
    write_report(spark, judged, out)
    return folder


def _files(folder: Path, table: Public) -> list[Path]:
    below = {"capture": "*/capture", "log": "*/log"}.get(table.name, "out")
    return sorted(folder.glob(f"{below}/{table.files}"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_file_has_the_columns_of_the_page_in_their_order(folder: Path, table: Public) -> None:
    wanted = [(field.name, field.dataType.simpleString()) for field in table.columns.fields]
    files = _files(folder, table)
    assert files
    for file in files:
        found = pq.read_schema(file)
        assert [(field.name, from_arrow_type(field.type).simpleString()) for field in found] == wanted


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_is_never_null_is_not_and_every_word_is_known(folder: Path, table: Public) -> None:
    rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in _files(folder, table)]).to_pylist()
    assert rows
    for name, _, told in columns_of(table.columns):
        values = [value for row in rows for value in _values(row, name.split("."))]
        if not told.null:
            assert None not in values, name
        if told.words:
            assert {value for value in values if value is not None} <= set(told.words), name


def test_the_version_of_the_columns_is_where_the_page_says(folder: Path) -> None:
    for table in TABLES:
        if table.name in ("capture", "log"):
            continue
        assert json.loads((folder / "out" / "findings.json").read_text())["schema_version"] == SCHEMA_VERSION
    for file in folder.glob("*/capture/**/*.parquet"):
        assert pq.read_schema(file).metadata[b"notleader.schema_version"] == b"1"


def test_where_no_rule_struck_causes_are_there_and_empty(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.produce(1, message_ids=["m0"], base_offset=0)
    story.send(0, "m0", offset=0)
    tables_of(spark, tmp_path, story, Options())
    rows = spark.read.parquet(str(tmp_path / "causes"))
    assert rows.schema.fieldNames() == OPERATION_CAUSES.fieldNames()
    assert rows.isEmpty()


def _values(row: dict[str, Any], path: list[str]) -> Iterator[Any]:
    """What stands at `path` of a row; `name[]` is each of a list."""
    first, *rest = path
    value = row[first.removesuffix("[]")]
    if not rest:
        yield value
        return
    for each in value or ():
        yield from _values(each, rest)
