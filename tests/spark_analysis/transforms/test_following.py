"""Which error of Kafka's a client means."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from notleader.spark_analysis.transforms.following import names_error

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("error", "code", "means"),
    [
        ("TopicAuthorizationFailedError: [Error 29]", 29, True),
        ("TopicAuthorizationException: Not authorized to access topics: [orders]", 29, True),
        ("CommitFailedException: ... Specified group generation id is not valid.", 22, True),
        ("CommitFailedException: ... The coordinator is not aware of this member.", 25, True),
        ("RecordTooLargeException: The request included a message larger than", 10, True),
        ("CommitFailedException: ... Specified group generation id is not valid.", 16, False),
        ("KafkaException: no error of its own", 22, False),
        (None, 22, False),
        ("NONE", 0, False),
        ("UNKNOWN_SERVER_ERROR", None, False),
    ],
)
def test_an_error_goes_by_its_name_and_by_the_exception_that_java_throws(
    spark: SparkSession, error: str | None, code: int | None, means: bool
) -> None:
    said = spark.createDataFrame([(error, code)], "error string, code smallint")
    [row] = said.select(names_error(F.col("error"), F.col("code")).alias("means")).collect()
    assert row["means"] is means
