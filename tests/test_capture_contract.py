"""The contracts between the proxy and the analysis: both sides state the same columns and types."""

from __future__ import annotations

import importlib

import pyarrow as pa
import pytest


@pytest.mark.parametrize(
    ("written", "read"), [("recorder.schema.EXCHANGE", "EXCHANGE"), ("brokerlog.schema.LOG", "LOG")]
)
def test_what_the_proxy_writes_is_what_spark_reads(written: str, read: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_type

    from notleader.spark_analysis import schemas

    module, _, name = written.rpartition(".")
    ours = getattr(importlib.import_module(f"notleader.proxy.{module}"), name)
    assert isinstance(ours, pa.Schema)
    theirs = {field.name: field.dataType.simpleString() for field in getattr(schemas, read).fields}
    assert {field.name: from_arrow_type(field.type).simpleString() for field in ours} == theirs
