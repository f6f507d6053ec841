"""The words that sentences are made of."""

from __future__ import annotations

from notleader.spark_analysis.checks.base import AND_MORE, Group
from notleader.spark_analysis.kafka_names import error_name
from notleader.spark_analysis.transforms.unseen import LITTLE, PERHAPS, UNRECORDED, UNSEEN

_HAPPENED = {
    "dropped": "had a request or its answer swallowed",
    "closed": "had the connection cut under them",
    "no_response": "got no answer",
}


def count(number: int, word: str, words: str | None = None) -> str:
    """`1 send`, `3 sends`."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def duration(microseconds: int | None) -> str:
    """A length of time as people say it: `340 ms`, `2.3 s`, `2 min 7 s`."""
    if microseconds is None:
        return "an unknown time"
    if abs(microseconds) < 1000:
        return f"{microseconds} µs"
    if abs(microseconds) < 1_000_000:
        return f"{microseconds / 1000:.0f} ms"
    if abs(microseconds) < 120_000_000:
        return f"{microseconds / 1_000_000:.1f} s"
    return f"{microseconds // 60_000_000} min {microseconds // 1_000_000 % 60} s"


def place(group: Group) -> str:
    """`orders-0`, or as much of it as is known."""
    if not group.topic:
        return "an unknown topic"
    return group.topic if group.partition is None else f"{group.topic}-{group.partition}"


def calls(group: Group) -> str:
    """`3 sends to orders-0 by java`, `3 commit_tx calls by java`."""
    if group.operation is None:
        return sends(group)
    on = f" on {place(group)}" if group.topic else ""
    return f"{count(group.cases, f'{group.operation} call')}{on}{by_client(group)}"


def sends(group: Group) -> str:
    """`3 sends to orders-0 by aiokafka`."""
    return f"{count(group.cases, 'send')} to {place(group)}{by_client(group)}"


def by_client(group: Group) -> str:
    return f" by {group.client}" if group.client else ""


def by_rule(group: Group) -> str:
    """` by rule lose-leader (error)`, or nothing when no fault had a hand in it."""
    if not group.rule:
        return ""
    word = "rules" if "," in group.rule else "rule"
    return f" by {word} {group.rule} ({group.kind})" if group.kind else f" by {word} {group.rule}"


_DID = {
    "answered": "were answered",
    "altered_request": "were changed on the way",
    "altered_answer": "were answered",
    "swallowed_request": "had a request swallowed",
    "swallowed_answer": "had an answer swallowed",
    "kept_behind": "got no answer behind an exchange that was swallowed or held",
    "held_request": "were held",
    "held_answer": "had an answer held",
    "garbled": "were answered with what is no answer of Kafka's",
    "cut": "had the connection cut under them",
    "repeated": "were sent to the broker more than once",
    "muted": "were on a connection that was muted",
    "throttled": "were told to wait",
    "refused": "were refused a connection",
    "silenced": "were on a connection that was silenced",
    "shaped": "were on a connection that was slowed down",
}
LINKS = ("own", "behind", "broker", "partition", "told", "cut", "follows", "anybody", "unread", "read", "call")
"""How a rule's doing reaches an operation, as `how` of a CAUSE."""

_TO_ANOTHER = {
    "answered": "answered",
    "altered_request": "changed",
    "altered_answer": "changed",
    "swallowed_request": "swallowed",
    "swallowed_answer": "whose answer was swallowed",
    "held_request": "held",
    "held_answer": "whose answer was held",
    "cut": "cut off",
    "repeated": "sent twice",
    "muted": "whose answer muted it",
    "throttled": "whose answer told the client to wait",
}

SENT = {
    "out_of_range": "it was told OFFSET_OUT_OF_RANGE",
    "place": "the offset that it was told was changed or made up",
    "commit": "the commit of its place was acknowledged or swallowed, and never was",
    "refused": "a commit of its place was refused",
    "records": "records that it was handed were changed",
    "transaction": "the transaction that was to commit its place was ended by an error",
    "group": "what keeps its group together was refused, held, swallowed or cut off",
}
"""How a rule sent a consumer elsewhere, by `what` of `transforms.sent_back`."""
SET_ELSEWHERE = "it was told an offset that nobody here had committed, which may have been set past the proxy"


def met(group: Group, whose: str = "the client") -> str:
    """What happened to them on the wire, and which rule did it; docs/verdicts.md says what the links mean.

    `whose` requests and connections others were, that they waited for.
    """
    if group.trouble is None:
        touched = f"were touched{by_rule(group)}" if group.rule else "met nothing unusual on the wire"
        return number_agrees(group.cases, touched)
    likely = group.trouble.startswith("likely:")
    sort, _, what = group.trouble.removeprefix("likely:").partition(":")
    if sort == "unsent":
        return number_agrees(group.cases, "were not seen by the proxy") + by_rule(group)
    if sort == UNSEEN:
        way = "at level record, with ids in the header notleader-id, one does"
        return f"went out in requests that this capture doesn't tell from others ({way})"
    if sort in ("error", "outcome"):
        happened = f"were answered {error_name(int(what))}" if sort == "error" else _HAPPENED.get(what, what)
        return number_agrees(group.cases, happened) + by_rule(group)
    did, more, _ = what.partition(AND_MORE)
    told = _link(whose, sort, *did.split(":"))
    told += (", or otherwise hit," if more else "") + by_rule(group)
    return number_agrees(group.cases, told) + (" (likely)" if likely else "")


def _link(whose: str, how: str, did: str, code: str = "") -> str:
    """How a rule's doing reached an operation: `waited behind an exchange held`."""
    # Code 0 is no error: an acknowledgement.
    error = f" {error_name(int(code))}" if code not in ("", "0") else ""
    if how == "own":
        if did == "answered" and code == "0":
            return "were acknowledged in the broker's place"
        return (_DID.get(did, did) if error or did != "altered_answer" else "had an answer changed") + error
    doing = ("answered" if error else _TO_ANOTHER.get(did, did)) + error
    if how == "behind":
        return f"waited on their connection behind an exchange {doing}"
    if how == "broker":
        return f"waited behind a request to the same broker, {doing}"
    if how == "partition":
        return f"waited for an earlier batch of the partition, {doing}"
    if how == "follows":
        return f"followed from an earlier one, {doing}"
    if how == "unread":
        return f"lay unread in a connection that was {'answered with garbage' if did == 'garbled' else did}"
    if how == "call":
        return f"waited for another of the same call, {doing}"
    if how == "read" and did == "altered_answer" and not error:
        return "were handed records or offsets that had been changed"
    if how == "read":
        return f"had a request for records or offsets {doing}"
    if how == "anybody":
        return f"waited while whoever connected had a connection {did}"
    if how == "told":
        return f"waited while other requests of {whose} were {doing.removeprefix('whose answer was ')}"
    return f"waited while {whose} had a connection {did}"


def number_agrees(number: int, phrase: str) -> str:
    """`were …` as `was …` for one; the other phrases fit any number."""
    if number != 1:
        return phrase
    one = "was" + phrase[4:] if phrase.startswith("were ") else phrase
    return one.replace("under them", "under it").replace("their connection", "its connection")


def because(group: Group, one: str | None = None, whose: str = "the client") -> str:
    """`: rule lose-leader (error) had answered NOT_LEADER_OR_FOLLOWER`, as the tail of a sentence.

    `one` of each case met it, where that need not be what the sentence is about; `whose` as in `met`.
    """
    if group.trouble is None and not group.rule:
        return "; no fault had a hand in it"
    them = "it" if group.cases == 1 else "they"
    if group.trouble == PERHAPS:
        return "; whether a fault had a hand in it is not known: rules touched what others write with"
    if group.trouble == UNRECORDED:
        return "; whether a fault had a hand in it is not known: the capture has a gap there"
    if group.trouble == LITTLE:
        return f"; errors that rules told {'it' if group.cases == 1 else 'them'} were the lesser part of that"
    if group.trouble == UNSEEN:
        return f"; whether a fault had a hand in it is not known: {them} {met(group)}"
    told = f"{one} {met(group._replace(cases=1), whose)}" if one else f"{them} {met(group, whose)}"
    return f"; {told}" + ("" if group.rule else ", and no fault had a hand in it")
