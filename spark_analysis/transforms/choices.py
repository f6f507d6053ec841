"""Which of the causes of an operation answer which question: how long it took, how it ended, why it went out again."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.schemas import CAUSE
from notleader.spark_analysis.transforms.attempts import (
    THROTTLED,
    any_did,
    begun_us,
    by_the_broker_itself,
    last_attempt,
    was_answered,
    went_unheard,
)
from notleader.spark_analysis.transforms.following import FOLLOWING, is_out_of_time
from notleader.spark_analysis.transforms.obstacles import CUTS, HOLDS, SWALLOWS
from notleader.spark_analysis.transforms.sent_back import ENDS_A_TRANSACTION, LONG_US
from notleader.spark_analysis.transforms.starved import READ

CAUSES = f"array<{CAUSE.simpleString()}>"
"""The type of the columns `slow_by`, `ended_by` and `retried_by`."""
KEPT = f"array<struct<place:int,cause:{CAUSE.simpleString()}>>"
"""What kept the attempt at a place from an answer until its client gave it up: an obstacle on its connection."""

# A rule explains a wait when it was in the way for this part of it, and for this part of what the heaviest was.
OF_THE_WAIT = 0.25
_OF_THE_HEAVIEST = 0.5
# Errors of a broker that is asked for what is another's.
_NOT_THERE = (3, 5, 6, 16)
# What a group says to whom it has not heard of for too long.
_THROWN_OUT = (22, 25)
# A failure that came sooner was not waited for.
_AT_ONCE_US = 100_000


def own_causes() -> dict[str, Column]:
    """What rules did to the operation's own attempts (`_own`), to the last of them (`_last`); what the broker said."""
    last = last_attempt()

    def told(found: Column, attempt: Column) -> Column:
        """What was found on an attempt as CAUSES; those that held it weigh how long they did."""
        whole = F.coalesce(attempt["response_at_us"] - attempt["request_at_us"], F.lit(0))

        # That it is an attempt of this operation may be a guess.
        sure = ~F.coalesce(attempt["match_kind"], F.lit("")).isin("batch", "time")

        def cause(t: Column) -> Column:
            held_us = F.when(t["did"].isin(*HOLDS), F.coalesce(t["held_us"], whole)).otherwise(F.lit(0))
            return as_cause(t, "own", sure, held_us)

        return F.transform(found, cause)

    nothing = F.array().cast(CAUSES)
    own = F.array_distinct(F.flatten(F.transform("attempts", lambda a: told(a["touches"], a))))
    answered = was_answered(last["outcome"])

    def part_of_the_end(t: Column) -> Column:
        kept = _kept_away(t, last) & _for_long(t, F.col("end_us") - last["request_at_us"])
        return F.when(answered, _said(t, last) | (t["did"] == "garbled")).otherwise(kept)

    ends = told(F.filter(last["touches"], part_of_the_end), last)
    # An attempt counts for the retry that followed: by its error, or by not being answered until then.
    numbers = F.sequence(F.lit(0), F.size("attempts") - 2)

    def why_again(place: Column) -> Column:
        attempt, following = F.get("attempts", place), F.get("attempts", place + 1)
        silent = went_unheard(attempt, following["request_at_us"])
        waited_us = following["request_at_us"] - attempt["request_at_us"]

        def counts(t: Column) -> Column:
            kept = silent & _kept_away(t, attempt) & _for_long(t, waited_us)
            return _said(t, attempt) | kept | t["did"].isin("garbled", "repeated")

        return told(F.filter(attempt["touches"], counts), attempt)

    again = F.when(F.size("attempts") > 1, F.transform(numbers, why_again))
    return {
        "_own": F.coalesce(own, nothing).cast(CAUSES),
        "_last": F.coalesce(ends, nothing).cast(CAUSES),
        "_again_by": F.coalesce(again, F.array().cast(f"array<{CAUSES}>")).cast(f"array<{CAUSES}>"),
        "_broker": answered & F.coalesce(last["error_code"] != 0, F.lit(False)),
    }


def as_cause(touch: Column, how: str, sure: Column, weight_us: Column) -> Column:
    """What a rule did, as a CAUSE that reached an operation by the link `how`; see `checks.phrases.LINKS`."""
    return F.struct(
        touch["rule"].alias("rule"), touch["kind"].alias("kind"), F.lit(how).alias("how"), touch["did"].alias("did"),
        touch["error_code"].alias("error_code"), sure.alias("sure"), weight_us.cast("long").alias("weight_us"),
    )  # fmt: skip


def lost_its_connection(cause: Column) -> Column:
    """A rule took a connection of the operation's client, which it has to have anew."""
    return (cause["how"] != "anybody") & F.coalesce(cause["did"].isin(*CUTS), F.lit(False))


def misplaced(attempt: Column) -> Column:
    """The attempt was answered that the broker is the wrong one."""
    return F.coalesce(attempt["error_code"].isin(*_NOT_THERE), F.lit(False))


def misled(attempt: Column) -> Column:
    """The attempt was answered so by the broker itself."""
    return misplaced(attempt) & by_the_broker_itself(attempt)


def _said(t: Column, attempt: Column) -> Column:
    """The attempt's error is this rule's: it said that very code, or changed the request that was then refused."""
    own = t["error_code"].isNotNull() & (t["error_code"] == attempt["error_code"])
    refused = (t["did"] == "altered_request") & F.coalesce(attempt["error_code"] != 0, F.lit(False))
    return own | refused


def _kept_away(t: Column, attempt: Column) -> Column:
    """This kept an attempt from being answered: what only held it did so where nothing swallowed it or cut it off."""
    for_good = (*SWALLOWS, *CUTS, "kept_behind")
    gone = any_did(attempt["touches"], *for_good)
    return t["did"].isin(*for_good) | (t["did"].isin(*HOLDS) & ~gone)


def _for_long(t: Column, wait_us: Column) -> Column:
    """What held an exchange for a trifle is no reason not to wait for it any longer."""
    return F.coalesce(t["held_us"] >= wait_us * OF_THE_WAIT, F.lit(True))


def reasons() -> dict[str, Column]:
    """What `choices` chooses from, of what `own_causes` and the comparison found.

    `_waits`: what it waited for. `_earlier`: what went wrong before. `_sent_there`: what named it the broker that its
    last attempt went to, where that was the wrong one.
    """

    def weighty(w: Column) -> Column:
        return w["weight_us"] >= _length_us() * OF_THE_WAIT

    def heavy(counts: Callable[[Column], Column]) -> Column:
        most = F.array_max(F.transform(F.filter("waits", counts), lambda w: w["weight_us"]))
        return F.filter("waits", lambda w: counts(w) & weighty(w) & (w["weight_us"] >= most * _OF_THE_HEAVIEST))

    def as_own(w: Column) -> Column:
        """An obstacle that the operation's own attempt was the head of is told as what happened to itself."""
        mine = F.exists("_own", lambda o: o["rule"].eqNullSafe(w["rule"]) & o["did"].eqNullSafe(w["did"]))
        return w.withField("how", F.when(mine, F.lit("own")).otherwise(w["how"])).withField("sure", w["sure"] | mine)

    its_own = heavy(lambda w: ~w["how"].isin("anybody", "unread"))
    anybody = heavy(lambda w: w["how"] == "anybody")
    # Who lost its connection, or never had one, needs one: what another rule does to whoever comes keeps it, too.
    never = (F.size("attempts") == 0) | (F.col("operation") == READ)
    connects = F.exists("waits", lost_its_connection) | never
    rules = F.transform(its_own, lambda w: w["rule"])
    others = F.filter(
        "waits",
        lambda w: connects & (w["how"] == "anybody") & weighty(w) & ~F.array_contains(rules, w["rule"]),
    )

    return {
        # What befell a client that nobody can name is a reason where there is no other.
        "_waits": F.array_distinct(
            F.transform(F.when(F.size(its_own) > 0, F.concat(its_own, others)).otherwise(anybody), as_own)
        ),
        "_earlier": F.when(F.size(_before("_own")) > 0, _before("_own")).when(F.size("follows") > 0, F.col("follows")),
        "_sent_there": F.filter(_kept(F.size("attempts") - 1), lambda cause: cause["how"] == "told"),
    }


def _length_us() -> Column:
    return F.greatest(F.col("end_us") - begun_us(), F.lit(1))


def _before(causes: str) -> Column:
    return _unsure(F.filter(causes, lambda w: ~w["did"].isin(*HOLDS, THROTTLED)))


def _unsure(causes: Column) -> Column:
    return F.transform(causes, lambda w: w.withField("sure", F.lit(False)))


def choices() -> dict[str, Column]:
    """`slow_by`, `ended_by`, `retried_by` and `touched_by`, from what `own_causes` and `reasons` found."""
    nothing = F.array().cast(CAUSES)
    waits = F.col("_waits")
    follows = F.coalesce(last_attempt()["error_code"].isin(*FOLLOWING), F.lit(False)) & F.col("_broker")
    # Nothing of it was on the wire: what told its client this very error, else what its time went by with.
    unsent = F.size("attempts") == 0
    # What an attempt's own exchange doesn't tell, what stood on its connection does.
    of_each = F.transform("_again_by", lambda own, place: F.when(F.size(own) > 0, own).otherwise(_kept(place)))
    again = F.array_distinct(F.flatten(of_each))
    retried = F.when((F.size(again) == 0) & (F.col("outcome") == "ok"), F.col("follows")).otherwise(again)
    kept = F.when(_length_us() >= _AT_ONCE_US, waits).otherwise(F.filter(waits, lambda w: ~w["did"].isin(*HOLDS)))
    # Whose time was over waited for what was in its way, whatever the others failed by.
    waited = is_out_of_time() & F.exists(kept, lambda w: w["how"] != "anybody")
    # Whatever its time went by with: what came a moment before the end needs no weight to have been that.
    fenced = _unsure(F.filter("waits", lambda w: (w["how"] == "told") & w["error_code"].isin(*ENDS_A_TRANSACTION)))
    ended = (
        F.when(F.size("_last") > 0, F.col("_last"))
        .when(
            F.col("_broker"),
            F.when(follows, F.coalesce("_earlier", _before("waits")))
            # It waited for so long that its group had gone on without it.
            .when(last_attempt()["error_code"].isin(*_THROWN_OUT), _unsure(F.filter(waits, _costs_its_place)))
            .otherwise(F.col("_sent_there")),
        )
        .when(unsent & (F.size("told") > 0), F.col("told"))
        .when(unsent & (F.size(fenced) > 0), fenced)
        .when(unsent & (F.size("follows") > 0) & ~waited, F.col("follows"))
        .otherwise(kept)
    )
    # A wait without an end began where the last attempt ended, however short that was beside it.
    pends = F.col("outcome") == "pending"
    slow = (
        F.when(F.size(waits) > 0, waits)
        .when(pends & (F.size("_last") > 0), F.col("_last"))
        # What was answered, and never ended, nobody read there.
        .when(unsent | pends, F.col("follows"))
        .otherwise(nothing)
    )
    unread = F.filter("waits", lambda w: w["how"] == "unread")
    kept_by = F.transform(F.filter("kept", lambda k: k["cause"]["how"] != "told"), lambda k: k["cause"])
    return {
        "slow_by": slow.cast(CAUSES),
        # What was acknowledged has come to no end that needs a reason.
        "ended_by": F.when(F.col("outcome") != "ok", ended).otherwise(F.array()).cast(CAUSES),
        "retried_by": retried.cast(CAUSES),
        "touched_by": F.array_distinct(F.concat("_own", unread, kept_by)).cast(CAUSES),
    }


def _costs_its_place(cause: Column) -> Column:
    """Whether a group may have gone on without who waited for so long."""
    return cause["weight_us"] >= LONG_US


def _kept(place: Column) -> Column:
    """What kept the attempt at that place from an answer until it was given up, or sent it to the wrong broker."""
    return F.transform(F.filter("kept", lambda k: k["place"] == place), lambda k: k["cause"])
