"""Which faults can strike at a point: the errors that this API's brokers give, and what a network does to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from notleader.proxy.lab.explore.points import Point

Rule = dict[str, Any]
"""A rule as a config file has it, without a name."""

# What a client is expected to get over: leaders and coordinators that move, replicas that are slow.
_LEADER: Final = ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR")
_COORDINATOR: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
_MEMBER: Final = ("REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
_TRANSACTION: Final = (*_COORDINATOR, "CONCURRENT_TRANSACTIONS")
RETRIABLE: Final[dict[str, tuple[str, ...]]] = {
    "Produce": (*_LEADER, "NOT_ENOUGH_REPLICAS"),
    "Fetch": (
        *_LEADER,
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
    ),
    "Metadata": ("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
    "OffsetForLeaderEpoch": ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "JoinGroup": (*_COORDINATOR, "UNKNOWN_MEMBER_ID"),
    "SyncGroup": (*_COORDINATOR, *_MEMBER),
    "Heartbeat": ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", *_MEMBER),
    "ConsumerGroupHeartbeat": (*_COORDINATOR, "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"),
    "LeaveGroup": ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "UNKNOWN_MEMBER_ID"),
    "OffsetCommit": (*_COORDINATOR, *_MEMBER),
    "OffsetFetch": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
    "InitProducerId": ("COORDINATOR_LOAD_IN_PROGRESS",),
    "AddPartitionsToTxn": _TRANSACTION,
    "AddOffsetsToTxn": _TRANSACTION,
    "TxnOffsetCommit": _COORDINATOR,
    "EndTxn": _TRANSACTION,
}
# The broker has carried these out, and says that it can't vouch for it.
APPLIED: Final[dict[str, tuple[str, ...]]] = {
    "Produce": ("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    "OffsetCommit": ("REQUEST_TIMED_OUT",),
}
# A client may end with an error after these; it may not hang, nor be silent about what was lost or doubled.
FATAL: Final[dict[str, tuple[str, ...]]] = {
    "Produce": ("TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE"),
    "Fetch": ("OFFSET_OUT_OF_RANGE",),
    "FindCoordinator": ("GROUP_AUTHORIZATION_FAILED",),
    "EndTxn": ("INVALID_PRODUCER_EPOCH",),
}
# Any API may answer it. Many clients don't try again; they have to say so.
_ANYWHERE: Final = ("UNKNOWN_SERVER_ERROR",)
_IDEMPOTENT_FATAL: Final = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH")
_DOUBLED: Final = frozenset(("Produce", "OffsetCommit", "EndTxn"))
_LED: Final = frozenset(("Produce", "Fetch", "Metadata"))
# One error is got over by nearly all; a client's retries are mostly three to five.
_IN_A_ROW: Final = 5
_ALSO_IN_A_ROW: Final = frozenset(("error", "close", "drop_request"))
# Kind, how long, and how long a client may take more: nothing is answered, or nobody is there.
_OUTAGES: Final = (("blackhole", 3000, 6.0), ("reset", 6000, 12.0), ("blackhole", 10_000, 20.0))
# What ends the exchange at which an outage begins; whoever is gone is first noticed by what was under way.
_GONE: Final[Rule] = {"name": "gone", "kind": "reset"}
# Each broker goes down once: the longest two seconds, and a client may take more for each of them.
_RESTART: Final[Rule] = {"kind": "rolling_restart", "down_ms": 2000, "pause_ms": 1000}
_RESTART_COSTS_S: Final = 6.0
# The broker of an exchange is gone, dead or silent, for good (None) or for so long, and half a second later the others
# lead and coordinate what it did: where there are others.
_DOWN: Final[Rule] = {"kind": "broker_down", "node_id": "struck", "election_ms": 500}
_DOWN_MS: Final = (None, 6000)
_DOWN_COSTS_S: Final = 15.0
_LONG_MS: Final = 5000
_STANDS: Final = frozenset(("broker_down", "rolling_restart", "blackhole"))
_OUTAGES_AT: Final = frozenset(("Produce", "Fetch", "FindCoordinator", "OffsetCommit", "EndTxn"))
_ANY: Final = "any"


# What a client asks again, and in another way, when it is answered badly: only there the next answer is struck, too.
_WORK: Final = (
    "Produce",
    "EndTxn",
    "OffsetCommit",
    "TxnOffsetCommit",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "Fetch",
    "InitProducerId",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "ConsumerGroupHeartbeat",
)
# These change what brokers keep: what goes wrong here is what a service gets wrong for good.
KEPT: Final = frozenset(("Produce", "EndTxn", "OffsetCommit", "TxnOffsetCommit"))
# Who asked for one of these has begun with its work, and is not only setting up.
WORKS: Final = KEPT | {"Fetch"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Rules to be put in force together; `family` is what they do, whatever the place in time."""

    rules: tuple[str, ...]
    """Each as JSON, so that equal candidates are equal."""
    family: tuple[str, ...]
    point: str
    is_fatal: bool = False
    costs_s: float = 0.0
    """How much longer a client that gets over it may take."""
    messages: int | None = None
    """How many the command is told to send; None: as many as in the other tries."""

    @property
    def api(self) -> str:
        """The API that it strikes; `any` where it strikes all."""
        return self.family[0].split()[0]

    @property
    def effect(self) -> str:
        """What becomes of the exchange: all that clients are expected to take in the same way has the same name."""
        *before, rule = self.documents
        if before and (len(before) > 1 or rule.get("trigger", {}).get("after_fault") is None):
            return "one after the other"
        if rule["kind"] == "broker_down":
            return f"{' '.join(family(rule)[1:])}{'' if 'for_ms' in rule['trigger'] else ' for good'}"
        often = " often" if rule.get("trigger", {}).get("times", 1) == _IN_A_ROW else ""
        carried_out = (
            "carried out, and " if rule["kind"] == "drop_response" or rule.get("phase") == "after_broker" else ""
        )
        if rule["kind"] == "error":
            return f"{carried_out}refused{' for good' if self.is_fatal else ''}{often}"
        # A connection that ends is noticed at once, an answer that never comes by a timeout.
        noticed = "cut" if rule["kind"] in _ENDS else "silent" if rule["kind"] in _CUT else rule["kind"]
        return f"{carried_out}{noticed}{often}"

    @property
    def documents(self) -> list[Rule]:
        """The rules as a config file has them."""
        return [json.loads(rule) for rule in self.rules]

    @property
    def stands(self) -> bool:
        """Whether nothing of Kafka can be reached for many seconds: who gives up then may."""
        return any(_outage_ms(rule) >= _LONG_MS for rule in self.documents)

    def tries(self, hits: Sequence[int]) -> list[int]:
        """Of the hits of its rules those that are exchanges which went wrong: what stands counts what it touches."""
        return [hit for rule, hit in zip(self.documents, hits, strict=True) if rule["kind"] not in _STANDS]

    def with_(self, other: Candidate) -> Candidate:
        """Both at once."""
        return Candidate(
            tuple(sorted((*self.rules, *other.rules))),
            tuple(sorted((*self.family, *other.family))),
            f"{self.point} and {other.point}",
            self.is_fatal or other.is_fatal,
            self.costs_s + other.costs_s,
        )


_BROKERS: Final = 3
_AMONG_BROKERS: Final = frozenset(("broker_down", "coordinator_move", "leader_move"))


def brokers_needed(rules: Iterable[Rule]) -> int:
    """How many brokers Kafka has to have for these rules to do something: with three, one may be gone."""
    return _BROKERS if any(rule["kind"] in _AMONG_BROKERS for rule in rules) else 1


def _outage_ms(rule: Rule) -> float:
    """How long a rule for all exchanges lasts; 0 for one that is for some of them."""
    if rule["kind"] == "rolling_restart":
        return float(rule["down_ms"])
    if rule["kind"] == "broker_down" and "election_ms" in rule:
        return float(rule["election_ms"])
    return 0.0 if rule.get("match") else float(rule.get("trigger", {}).get("for_ms", 0))


def of_rules(rules: Iterable[Rule], point: str, messages: int | None = None) -> Candidate:
    """A candidate of rules that somebody wrote, or that an earlier search found."""
    given = list(rules)
    return Candidate(
        tuple(map(frozen, given)),
        tuple(" ".join(family(rule)) for rule in given),
        point,
        any(_is_fatal(rule, str(rule.get("match", {}).get("api_key"))) for rule in given),
        messages=messages,
    )


def frozen(rule: Rule) -> str:
    """A rule as one text, the same for equal rules."""
    return json.dumps(rule, sort_keys=True)


def candidates(points: Iterable[Point]) -> list[Candidate]:
    """Every fault at every point, alone; those of APIs that carry the client's work first."""
    found = [candidate for point in points for candidate in strikes(point)]
    return sorted(found, key=lambda candidate: _WORK.index(candidate.api) if candidate.api in _WORK else len(_WORK))


def strikes(point: Point) -> Iterator[Candidate]:
    """Every fault that can strike at a point, alone; those that a client meets most often first."""
    rules = list(_rules(point))
    once = [(rule, 1, costs_s) for rule, costs_s in rules]
    # Beyond what a client's retries are, once each answer and its loss was met alone.
    often = [(rule, _IN_A_ROW, costs_s * _IN_A_ROW) for rule, costs_s in rules if rule["kind"] in _ALSO_IN_A_ROW]
    for rule, times, costs_s in [*once[:3], *often[:1], *once[3:], *often[1:]]:
        trigger = {"times": times} | ({"skip": point.nth} if point.nth else {})
        match: Rule = {"api_key": point.api}
        if point.partition_index is not None:
            match["partition_index"] = point.partition_index
        document = {**rule, "match": match, "trigger": trigger}
        words = [*family(document), *([] if times == 1 else [f"x{times}"])]
        yield Candidate((frozen(document),), (" ".join(words),), str(point), _is_fatal(rule, point.api), costs_s)
    if point.api in _WORK:
        yield from _again(point, rules)
    if point.api in _OUTAGES_AT:
        yield from _cluster(point)
        # It begins when the learning run was there; and with that exchange itself, which is lost in it.
        for kind, for_ms, costs_s in _OUTAGES:
            forever: Rule = {} if kind == "blackhole" else {"times": "forever"}
            window = {"after_ms": round(point.at_ms), "for_ms": for_ms}
            document = {"kind": kind, "trigger": window | forever}
            name = f"{_ANY} {kind} {for_ms} ms"
            yield Candidate((frozen(document),), (name,), str(point), costs_s=costs_s)
            follows = {"after_fault": _GONE["name"], "for_ms": for_ms}
            both = _at(_GONE, point), {"kind": kind, "trigger": follows | forever}
            yield Candidate(tuple(map(frozen, both)), (f"{name} from {point.api} on",), str(point), costs_s=costs_s)


def _cluster(point: Point) -> Iterator[Candidate]:
    """What brokers go through from this point on: where there are several, one that is gone; restarts."""
    if point.brokers > 1 and point.node_id is not None:
        for how in ("killed", "powered_off"):
            for for_ms in _DOWN_MS:
                lasts: Rule = {"after_fault": _GONE["name"]} | ({} if for_ms is None else {"for_ms": for_ms})
                down = {**_DOWN, **({} if how == "killed" else {"how": how}), "trigger": lasts}
                # In the order that they are put in force in: a broker goes with the exchange that it had under way.
                both = _at(_GONE, point), down
                name = f"{' '.join(family(down))} {'for good' if for_ms is None else f'{for_ms} ms'}"
                words = (f"{name} from {point.api} on",)
                yield Candidate(tuple(map(frozen, both)), words, str(point), costs_s=_DOWN_COSTS_S)
    timelines: list[tuple[Rule, float]] = [
        ({**_RESTART, "trigger": {"after_ms": round(point.at_ms)}}, _RESTART_COSTS_S)
    ]
    if point.brokers > 1 and point.api == "FindCoordinator":
        timelines.append(({"kind": "coordinator_move", "trigger": {"times": 3}}, _RESTART_COSTS_S))
    for document, costs_s in timelines:
        yield Candidate((frozen(document),), (f"{_ANY} {document['kind']}",), str(point), costs_s=costs_s)


def _again(point: Point, rules: list[tuple[Rule, float]]) -> Iterator[Candidate]:
    """The exchange is lost or refused, and what the client sends next of that API gets another error, or is cut."""
    errors = [rule for rule, _ in rules if rule["kind"] == "error" and rule.get("phase") is None]
    for first in ({"kind": "reset"}, *errors[:1]):
        for second in (*errors, {"kind": "close", "phase": "after_broker"}):
            if second == first:
                continue
            # What the first one ends the second one doesn't count: with the same `skip` it is the next that it strikes.
            both = [_at(each, point) for each in (first, second)]
            words = f"{' '.join(family(both[0]))} then {' '.join(family(both[1])[1:])}"
            is_fatal = any(_is_fatal(each, point.api) for each in both)
            yield Candidate(tuple(map(frozen, both)), (words,), str(point), is_fatal, 2.0)


def _at(rule: Rule, point: Point) -> Rule:
    """A rule for one exchange of this point."""
    match: Rule = {"api_key": point.api}
    if point.partition_index is not None:
        match["partition_index"] = point.partition_index
    return {**rule, "match": match, "trigger": {"times": 1} | ({"skip": point.nth} if point.nth else {})}


def family(rule: Rule) -> list[str]:
    """API, kind, error and phase of a rule: what failures are grouped by."""
    api = str(rule.get("match", {}).get("api_key", _ANY))
    words = [api, str(rule["kind"])]
    return [*words, *(str(rule[key]) for key in ("error_code", "phase", "how") if key in rule)]


# Whichever way an exchange is lost, a client that can't take it can't take the others.
_CUT: Final = frozenset(
    (
        *("close", "reset", "drop_request", "drop_response", "stall", "blackhole", "slow_close"),
        "rolling_restart",
    )
)


_ENDS: Final = frozenset(("close", "reset", "slow_close"))


def cause(rule: Rule, verdict: str) -> str:
    """What a rule does, so that rules which break a client for one reason are the same.

    A message is sent twice since its acknowledgement did not come: whether an error came instead is no matter.
    """
    unacknowledged = verdict == "duplicate" and rule.get("phase") == "after_broker"
    if rule["kind"] == "broker_down":
        return f"{_ANY} broker_down"
    if rule["kind"] in _CUT or unacknowledged:
        return f"{rule.get('match', {}).get('api_key', _ANY)} cut"
    return " ".join(family(rule))


def _is_fatal(rule: Rule, api: str) -> bool:
    return rule.get("error_code") in (*FATAL.get(api, ()), *_IDEMPOTENT_FATAL, *_ANYWHERE)


def _rules(point: Point) -> Iterator[tuple[Rule, float]]:
    """The rules without their match and trigger, and how many seconds each may cost."""
    api = point.api
    retriable = list(RETRIABLE.get(api, ()))
    if api == "InitProducerId" and point.transactional:
        retriable = list(_TRANSACTION)
    for code in retriable[:1]:
        yield {"kind": "error", "error_code": code}, 1.0
    if api in RETRIABLE:
        for code in _ANYWHERE:
            yield {"kind": "error", "error_code": code}, 1.0
    yield {"kind": "close", "phase": "after_broker"}, 1.0
    for code in APPLIED.get(api, ()):
        yield {"kind": "error", "error_code": code, "phase": "after_broker"}, 1.0
    yield {"kind": "drop_response"}, 5.0
    yield {"kind": "close"}, 1.0
    for code in retriable[1:]:
        yield {"kind": "error", "error_code": code}, 1.0
    if api in _LED:
        yield {"kind": "leader_election", "for_ms": 2000}, 2.0
    fatal = FATAL.get(api, ()) + (_IDEMPOTENT_FATAL if api == "Produce" and point.idempotent else ())
    for code in fatal:
        yield {"kind": "error", "error_code": code}, 1.0
    yield {"kind": "reset"}, 1.0
    yield {"kind": "reset", "phase": "after_broker"}, 1.0
    yield {"kind": "delay", "delay_ms": 1500}, 1.5
    yield {"kind": "drop_request"}, 5.0
    yield {"kind": "stall", "for_ms": 5000}, 5.0
    if api in _DOUBLED:
        yield {"kind": "duplicate"}, 0.0
