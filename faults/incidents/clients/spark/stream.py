"""A Spark stream that reads one Kafka topic and writes to another, or only one of the two, and starts again on failure.

Arguments (name=value): bootstrap, client_id; topic (what it reads; without, it makes `messages` of its own), output
(what it writes; without, it only reads), partitions (of output; records go to them in turn), messages (it is done when
it has had so many different ones), interval_ms (how often a batch begins), per_batch, starts (how often it is started
at most), wait_ms (it gives up when so long nothing came after the first batch), and every setting of the source and
the sink by its own name: kafka.request.timeout.ms, failOnDataLoss.

A batch is written as one `DataFrame`, and each of its records is told as it is: `ok` when the batch is done, `info`
when it failed. A record that was read is a `poll`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SETTINGS = {
    "bootstrap": "", "client_id": "", "client_version": "", "jars": "", "topic": "", "output": "", "partitions": "1",
    "messages": "30", "interval_ms": "100", "per_batch": "5", "starts": "2", "wait_ms": "12000", "group_id": "",
}  # fmt: skip
_FIRST_BATCH_S = 90  # Spark compiles the first one
_last = [time.monotonic()]
_seen: set[str] = set()


def main(argv: list[str]) -> None:
    for argument in argv:
        name, _, value = argument.partition("=")
        if name not in SETTINGS and not name.startswith("kafka.") and name not in ("failOnDataLoss",):
            sys.exit(f"unknown argument: {name}")
        SETTINGS[name] = value
    os.environ.pop("SPARK_CONF_DIR", None)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", SETTINGS["jars"])
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    checkpoint = tempfile.mkdtemp(prefix="notleader-spark-")
    for _ in range(number("starts")):
        if run(spark, checkpoint):
            break
    os._exit(0)  # not stop(): a stream that hangs would keep us


def run(spark: SparkSession, checkpoint: str) -> bool:
    """Whether all is done: the stream is over when all came or nothing does any more, and fails as it likes."""
    _last[0] = time.monotonic()
    source = own(spark) if not SETTINGS["topic"] else read(spark)
    writer = source.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime=f"{number('interval_ms')} milliseconds").start()
    called = now_us()
    while query.isActive:
        time.sleep(0.05)
        if len(_seen) >= number("messages"):
            return True
        if time.monotonic() - _last[0] > (number("wait_ms") / 1000 if _seen else _FIRST_BATCH_S):
            if SETTINGS["topic"]:
                say(
                    "receive",
                    topic=SETTINGS["topic"],
                    called_at_us=now_us() - number("wait_ms") * 1000,
                    outcome="pending",
                )
            return True
    try:
        query.awaitTermination()
    except PySparkException as error:
        told = {"called_at_us": called, "completed_at_us": now_us(), "error": cause(error), "outcome": "info"}
        say("receive" if SETTINGS["topic"] else "query", topic=SETTINGS["topic"] or SETTINGS["output"], **told)
    return False


def read(spark: SparkSession) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": SETTINGS["bootstrap"],
        "subscribe": SETTINGS["topic"],
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": SETTINGS["per_batch"],
        "kafka.client.id": SETTINGS["client_id"],
        **{name: value for name, value in SETTINGS.items() if name.startswith("kafka.") or name == "failOnDataLoss"},
    }
    return spark.readStream.format("kafka").options(**options).load()


def own(spark: SparkSession) -> DataFrame:
    """Numbered records without a topic to read them from, `per_batch` a batch."""
    options = {"rowsPerBatch": SETTINGS["per_batch"], "numPartitions": "1"}
    return spark.readStream.format("rate-micro-batch").options(**options).load()


def batch(rows: DataFrame, _: int) -> None:
    ids = []
    for row in rows.collect():
        if SETTINGS["topic"]:
            message_id = next(h.value for h in row.headers if h.key == "notleader-id").decode()
            place = {"topic": row.topic, "partition": row.partition, "offset": row.offset}
            say("poll", message_id=message_id, completed_at_us=now_us(), outcome="ok", **place)
        else:
            message_id = f"{SETTINGS['client_id']}-{row.value}"
        ids.append(message_id)
    if ids:
        _last[0] = time.monotonic()
        if SETTINGS["output"]:
            write(rows.sparkSession, ids)
        _seen.update(ids)


def write(spark: SparkSession, ids: list[str]) -> None:
    called = now_us()
    sends = {f"out-{each}" if SETTINGS["topic"] else each: place(each) for each in ids}
    for message_id, partition in sends.items():
        say(
            "send",
            message_id=message_id,
            topic=SETTINGS["output"],
            partition=partition,
            called_at_us=called,
            outcome="pending",
        )
    headers = F.array(F.struct(F.lit("notleader-id").alias("key"), F.col("id").cast("binary").alias("value")))
    frame = spark.createDataFrame(list(sends.items()), "id string, partition int").select(
        F.col("id").alias("value"), "partition", headers.alias("headers")
    )
    options = {
        "kafka.bootstrap.servers": SETTINGS["bootstrap"],
        "topic": SETTINGS["output"],
        "includeHeaders": "true",
        "kafka.client.id": SETTINGS["client_id"],
        **{name: value for name, value in SETTINGS.items() if name.startswith("kafka.")},
    }
    told: dict[str, Any] = {"outcome": "ok"}
    try:
        frame.coalesce(1).write.format("kafka").options(**options).save()
    except PySparkException as error:
        told = {"outcome": "info", "error": cause(error)}
        raise
    finally:
        ended = {"called_at_us": called, "returned_at_us": now_us(), "completed_at_us": now_us(), **told}
        for message_id, partition in sends.items():
            say("send", message_id=message_id, topic=SETTINGS["output"], partition=partition, **ended)


def place(message_id: str) -> int:
    return int(message_id.rpartition("-")[2]) % number("partitions")


def cause(error: PySparkException) -> str:
    """The last line that names what lies below the stream's own words."""
    lines = [line.strip() for line in str(error).splitlines() if "Exception" in line or "DATA_LOSS" in line]
    return (lines[-1] if lines else str(error).splitlines()[0])[:300]


def number(name: str) -> int:
    return int(SETTINGS[name])


def now_us() -> int:
    return time.time_ns() // 1000


def say(operation: str, **fields: Any) -> None:
    client = SETTINGS["client_id"]
    line = {"client": client, "client_version": SETTINGS["client_version"], "client_id": client, "operation": operation}
    group = {"group_id": SETTINGS["group_id"]} if SETTINGS["group_id"] and operation in ("poll", "receive") else {}
    # One write: Spark's threads say something, too.
    sys.stdout.write(json.dumps(line | group | fields | {"thread": threading.current_thread().name}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
