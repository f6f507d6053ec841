"""Does this look like sarama's forgotten batch?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, duration
from notleader.spark_analysis.kafka_names import error_name
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.signatures.who import may_be

# What sarama sends again: unknown topic, no leader, not the leader, too few replicas.
_ALL_REFUSED = "attempt_count > 1 and forall(attempts, a -> a.error_code in (3, 5, 6, 19))"
# A client that still retries asks again soon; one that forgot stays silent.
_SILENT_US = 1_000_000
_TIMES_ITS_PAUSE = 5


class SaramaHang(Check):
    """A batch of several, refused each time, of which sends were never answered, and a silence that lasts.

    Sarama before 1.38.0, idempotent: the last retry returns one message's error and forgets the rest of the batch, so
    SendMessages waits for ever. A recorder outside it sees them all pending.
    """

    name = "looks_like_sarama_hang"
    title = "Looks like sarama-hang"
    brief = "looks like sarama-hang"
    needs = ("sends", "faults")
    order = 5
    means = Meaning(
        invalid=(
            "several messages of a batch that went out twice or more, each time refused with a code that sarama "
            "retries (3, 5, 6, 19), some of which never ended, and after it no attempt for a second or more and "
            "five times its longest pause, until the recording or the client's last connection ended; not where "
            "the client is known to be another"
        ),
        valid="no such batch",
        unknown="no send was told of, or no fault struck",
        evidence="outcome lines, the batch's attempts, the client's name where it said one",
        cause="what ended the batch's last attempt",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.pending > 0

    def suspects(self, tables: Tables, options: Options) -> Column:
        return is_send() & F.expr(_ALL_REFUSED) & (F.col("outcome") == "pending")

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        # 1.38.0 mended it.
        minor = F.regexp_extract(F.lower(F.coalesce("client_version", F.lit(""))), r"sarama v?1\.(\d+)", 1)
        before = (minor == "") | (minor.try_cast("int") < 38)
        ended = F.least(tables.end_of_run(), F.coalesce("gone_us", tables.end_of_run()))
        refused = tables.history.filter(is_send() & F.expr(_ALL_REFUSED) & may_be("sarama") & before).withColumns(
            {"batch": F.get("attempts", F.lit(0))["attempt_id"], "end_us": ended}
        )
        shown = F.struct(
            "message_id", "operation_id", "ended_by", "trouble", "attempts", "attempt_count", "client_version"
        )
        at = F.transform("s.attempts", lambda a: a["request_at_us"])
        gaps = F.zip_with(F.slice(at, 2, 1000), F.slice(at, 1, F.size(at) - 1), lambda later, sooner: later - sooner)
        rows = (
            refused.groupBy("scope", "client", "topic", "partition", "batch")
            .agg(
                F.count("*").alias("messages"),
                F.count_if(F.col("outcome") == "pending").alias("pending"),
                F.min("called_at_us").alias("called_at_us"),
                F.max("end_us").alias("end_us"),
                F.max_by(shown, F.col("outcome") == "pending").alias("s"),
            )
            .filter((F.col("pending") > 0) & (F.col("messages") > 1))
            .withColumns({"silent_us": F.col("end_us") - F.array_max(at), "pause_us": F.array_max(gaps)})
            .filter((F.col("silent_us") >= _SILENT_US) & (F.col("silent_us") >= F.col("pause_us") * _TIMES_ITS_PAUSE))
            .select("*", "s.*")
        )
        code = F.element_at("attempts", -1)["error_code"].cast("string")
        note = F.format_string(
            "%s: %d x refused, %d told an error, %d pending",
            F.coalesce("client_version", F.lit("unknown client")), "attempt_count",
            F.col("messages") - F.col("pending"), "pending",
        )  # fmt: skip
        return as_cases(
            rows,
            self.name,
            "invalid",
            "ended_by",
            trouble=F.concat_ws(":", F.lit("refused"), F.col("attempt_count").cast("string"), code),
            at_us=F.col("called_at_us"),
            duration_us=F.col("silent_us"),
            note=note,
        )

    def sentence(self, group: Group) -> str:
        _, attempts, code = (group.trouble or "refused:0:6").split(":")
        batches = count(group.cases, "batch", "batches")
        return (
            f"{batches}{by_client(group)} refused {attempts} times, the last time {error_name(int(code))}"
            f"{by_rule(group)}, and then no request for {duration(group.slowest_us)}, until the recording or"
            " its client's last connection ended"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no batch was half answered"
