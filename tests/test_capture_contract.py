"""The one contract between the proxy and the analysis: both sides state the same columns and types."""

from __future__ import annotations

import pyarrow as pa

from notleader.proxy.capture.schema import EXCHANGE


def test_what_the_proxy_writes_is_what_spark_reads() -> None:
    from pyspark.sql.pandas.types import from_arrow_type

    from notleader.spark_analysis.schemas import EXCHANGE as READ

    written = {field.name: from_arrow_type(field.type) for field in EXCHANGE}
    read = {field.name: field.dataType for field in READ.fields}
    assert {name: kind.simpleString() for name, kind in written.items()} == {
        name: kind.simpleString() for name, kind in read.items() if name in written
    }
    assert set(written) <= set(read)
    assert isinstance(EXCHANGE, pa.Schema)
