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
        ("kafka server: Tried to send a message to a replica that is not the leader for some partition.", 6, True),
        ('kafka.(*Client).Produce: topic partition has no leader (topic="o" partition=2)', 5, True),
        ("[6] Not Leader For Partition: the client attempted to send messages to a replica", 6, True),
        ("This server does not host this topic-partition", 3, True),
        ("This server does not host this topic-partition", 5, False),
        ('KafkaError{code=MSG_SIZE_TOO_LARGE,val=10,str="Broker: Message size too large"}', 10, True),
        ('KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}', 7, False),
        ("NodeNotReadyError: [Error 16] nothing that names it", 16, True),
        ("NodeNotReadyError: [Error 16] nothing that names it", 6, False),
        (None, 22, False),
        ("NONE", 0, False),
        ("UNKNOWN_SERVER_ERROR", None, False),
    ],
)
def test_an_error_goes_by_its_name_its_number_and_what_libraries_say_instead(
    spark: SparkSession, error: str | None, code: int | None, means: bool
) -> None:
    said = spark.createDataFrame([(error, code)], "error string, code smallint")
    [row] = said.select(names_error(F.col("error"), F.col("code")).alias("means")).collect()
    assert row["means"] is means
