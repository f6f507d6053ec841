"""Errors that follow from an earlier one: who was refused says so again, a sequence that broke stays broken."""

from __future__ import annotations

from functools import cache

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.kafka_names import ALSO_CALLED, ERROR_NAMES
from notleader.spark_analysis.transforms.attempts import by_the_broker_itself

# Errors that follow each other this closely may be of one cause.
_APART_US = 10_000_000
# What a client says of its own patience, whatever it waited for: java, librdkafka, Go, Python.
_TIME_IS_UP = r"(?i)time[sd]?[ _-]?out|deadline|expir"
# Kafka's code as libraries put it into their own words.
_NUMBERED = r"(?:\[(?:Error )?|val=)(\d+)[\],]"
_OUT_OF_SEQUENCE = 45
FOLLOWING = (45, 46, 47, 48, 49, 51, 53, 59, 67, 90)
"""Sequence, epoch and transaction errors: what a broker says because of something that happened before."""


def following(rows: DataFrame) -> DataFrame:
    """`operation_id` → `follows`, the causes of an earlier operation's end that this one's error comes from.

    `rows` are failed operations, those that were sent again, and all that `ends` may be: `operation_id`, `scope`,
    `client`, `topic`, `error`, `called_us`, `at_us` (when it ended), `heard_us` (when its client was told, which may
    tell of it later), `last_ok_us` (when its client last succeeded), `failed`, `unsent` (nothing of it was on the
    wire), `unheard` (it was answered, and yet never ended), `transactional`, `ends` (it has no place, as what ends a
    transaction), `refused` (the broker's error in answer to its last attempt), `partition`, `out_us` (of one that
    ended well when the first attempt was sent that came out of sequence), and `because`, the CAUSES of its own end or
    retry.

    An operation that failed without having been on the wire follows from the last refusal that a rule made up, or
    brought about by changing the request, of the same client and topic, when it says the same error, other than that
    its time was over; and, in a client in which nothing succeeded any more (`last_ok_us`), from the last operation
    that a rule ended, as one does that never ends. One that the broker refused for its sequence, epoch or transaction
    follows from the last operation of its client that a rule refused, swallowed or cut off. One that `ends`, and
    failed without having been on the wire, from the last in a transaction that a rule ended since one that `ends` had
    ended well. One that ended well, and of which an attempt came out of sequence before, from the last one of its
    client and partition that a rule did that to, where that was still under way: the sequences of a partition have a
    hole until its retry has filled it.
    """
    caused = F.size("because") > 0
    # Each as what others may follow from, and as what may follow.
    gives, takes = _moment(F.coalesce("heard_us", "at_us"), takes=False), _moment(F.col("at_us"), takes=True)
    told = rows.withColumn("moment", F.explode(F.when(caused, F.array(gives, takes)).otherwise(F.array(takes))))
    in_time = ("moment.at_us", "moment.takes", "operation_id")
    order = Window.partitionBy("scope", "client").orderBy(*in_time)
    apart = F.coalesce(F.col("called_us") - F.lag("moment.at_us").over(order) > _APART_US, F.lit(True))
    told = told.withColumn("series", F.sum(apart.cast("int")).over(order))
    earlier = (
        Window.partitionBy("scope", "client", "series").orderBy(*in_time).rowsBetween(Window.unboundedPreceding, -1)
    )
    caused &= ~F.col("moment.takes")
    code = F.get(F.filter("because", lambda c: F.coalesce(c["error_code"], F.lit(0)) != 0), F.lit(0))["error_code"]
    changed = F.exists("because", lambda c: F.coalesce(c["did"] == "altered_request", F.lit(False)))
    code = F.coalesce(code, F.when(changed, F.col("refused")))
    source = F.struct("because", "error", "topic", code.alias("code"))
    spoilt = F.struct("because", F.col("moment.at_us").alias("at_us"))
    told = told.withColumns(
        {
            "refusal": F.last(F.when(F.col("failed") & caused & code.isNotNull(), source), True).over(earlier),
            "broken": F.last(F.when(caused, source), True).over(earlier),
            "spoilt": F.last(F.when(caused & F.col("failed") & F.col("transactional"), spoilt), True).over(earlier),
            "ended_us": F.max(F.when(F.col("ends") & ~F.col("failed"), F.col("at_us"))).over(earlier),
            "killed": F.last(F.when(caused & ~F.col("unsent"), F.struct("because", "moment")), True).over(
                order.rowsBetween(Window.unboundedPreceding, -1)
            ),
        }
    )
    of_its_place = Window.partitionBy("scope", "client", "topic", "partition").orderBy(*in_time)
    hole = F.struct("because", F.col("moment.at_us").alias("at_us"))
    told = told.withColumn(
        "hole", F.last(F.when(caused, hole), True).over(of_its_place.rowsBetween(Window.unboundedPreceding, -1))
    )
    same_topic = F.coalesce(F.col("refusal.topic") == F.col("topic"), F.lit(True))
    again = F.coalesce(F.col("error") == F.col("refusal.error"), F.lit(False)) & ~is_out_of_time()
    says_so = again | names_error(F.col("error"), F.col("refusal.code"))
    causes = (
        F.when(F.col("failed") & F.col("unsent") & same_topic & says_so, F.col("refusal.because"))
        .when(F.col("refused").isin(*FOLLOWING), F.col("broken.because"))
        .when(
            F.col("ends")
            & F.col("failed")
            & F.col("unsent")
            & (F.col("spoilt.at_us") > F.coalesce("ended_us", F.lit(0))),
            F.col("spoilt.because"),
        )
        .when(
            (F.col("unsent") | F.col("unheard")) & (F.coalesce("last_ok_us", F.lit(0)) < F.col("killed.moment.at_us")),
            F.col("killed.because"),
        )
        .when(F.col("hole.at_us") >= F.col("out_us"), F.col("hole.because"))
        .otherwise(F.lit(None))
    )
    follows = F.transform(causes, lambda c: c.withField("how", F.lit("follows")).withField("sure", F.lit(False)))
    found = told.filter(F.col("moment.takes") & causes.isNotNull())
    return found.select("operation_id", follows.alias("follows"))


def _moment(at_us: Column, *, takes: bool) -> Column:
    return F.struct(at_us.alias("at_us"), F.lit(takes).alias("takes"))


def is_out_of_sequence(attempt: Column) -> Column:
    """The broker itself said that a batch before this one is missing."""
    return F.coalesce(attempt["error_code"] == _OUT_OF_SEQUENCE, F.lit(False)) & by_the_broker_itself(attempt)


def is_out_of_time() -> Column:
    """What the client says of the operation is that its time was over: it may have waited for anything."""
    return F.coalesce(F.rlike("error", F.lit(_TIME_IS_UP)), F.lit(False))


def names_error(error: Column, code: Column) -> Column:
    """The client's word has the name of Kafka's error in it, however it is written: `TopicAuthorizationFailedError`.

    Or how another library calls it, or its number where libraries put it: `[Error 6]`, `[6] `, `val=6`.
    """
    said = F.regexp_replace(F.upper(error), "[^A-Z0-9]", "")
    names = F.when(code > 0, F.get(_squeezed_names(), code.cast("int")))
    named = F.exists(F.split(names, " "), lambda name: F.contains(said, name))
    numbered = F.regexp_extract(error, _NUMBERED, 1) == code.cast("string")
    return F.coalesce(named, F.lit(False)) | F.coalesce((code > 0) & numbered, F.lit(False))


@cache
def _squeezed_names() -> Column:
    """What Kafka's errors are called, each at the place that its code says; of all that letters and digits alone."""

    def squeezed(name: str) -> str:
        return "".join(filter(str.isalnum, name)).upper()

    names = [
        " ".join(map(squeezed, (ERROR_NAMES[code], *ALSO_CALLED.get(code, ())))) for code in range(max(ERROR_NAMES) + 1)
    ]
    return F.split(F.lit(",".join(names)), ",")
