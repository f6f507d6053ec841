"""The pages of the public tables are what the schemas say, of every column."""

from __future__ import annotations

import pytest

from notleader.proxy.brokerlog.schema import LOG
from notleader.proxy.record.rows import SCHEMA_VERSION as CAPTURE_VERSION
from notleader.spark_analysis.docs import FOLDER, columns_of, table_page
from notleader.spark_analysis.public import TABLES, Public
from notleader.spark_analysis.schemas import SCHEMA_VERSION

_VERSIONS = {
    "capture": CAPTURE_VERSION,
    "log": int((LOG.metadata or {})[b"notleader.schema_version"]),
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_page_is_as_generated(table: Public) -> None:
    page = (FOLDER / f"{table.name}.md").read_text("utf-8")
    assert page == table_page(table), "run `python -m notleader.spark_analysis.docs`"


def test_there_is_no_page_of_another_table() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {table.name for table in TABLES}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_is_described_and_came_with_a_version_that_there_was(table: Public) -> None:
    page = (FOLDER / f"{table.name}.md").read_text("utf-8")
    for name, _, told in columns_of(table.columns):
        assert told.says, name
        assert 1 <= told.since <= _VERSIONS.get(table.name, SCHEMA_VERSION), name
        assert "|" not in told.says + told.null + "".join(told.words.values()), name
        assert f"`{name}`" in page or "[]." in name, name
