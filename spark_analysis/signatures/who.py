"""Which client library an operation is of, as far as anybody said."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_LIBRARIES = (
    "aiokafka",
    "kafka-python",
    "confluent",
    "librdkafka",
    "sarama",
    "franz",
    "kafka-go",
    "kafkajs",
    "rskafka",
    "scala",
)
_JAVA = ("kafka-clients", "apache-kafka-java", "java")


def may_be(library: str) -> Column:
    """True unless the client said (`client_version`, as a recorder writes it) that it is another library."""
    said = F.lower(F.coalesce("client_version", F.lit("")))
    own = _JAVA if library == "java" else (library,)
    others = [name for name in (*_LIBRARIES, *_JAVA) if name not in own]
    known = said.rlike("|".join(others))
    return said.rlike("|".join(own)) | ~known
