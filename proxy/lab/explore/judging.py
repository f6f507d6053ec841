"""What a try was, from what can be seen of it: how the command ended, what it said, and what the broker's log holds."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from notleader.proxy.lab.outcome import documents
from notleader.proxy.wire.names import ErrorCode

KINDS: Final = {
    "hang": "the command did not end in time",
    "exit": "the command ended with another code than 0, by a fault that clients are expected to get over",
    "lost": "a message that the command was told is acknowledged isn't in the broker's log",
    "missing": "the command ended well, said of nothing that it failed, and the log lacks what it holds without faults",
    "duplicate": "a message is in the log more than once, and without faults it isn't",
    "unanswered": "the command ended well, and by its outcome lines a send or the end of a transaction never came back",
    "stuck": "by outcome lines no send went well any more, though the faults were over",
    "skipped": "the command ended well, and did not get a message from its topic that it gets when there are no faults",
    "backwards": "a group's committed offset went back, which without faults it doesn't",
    "read-twice": "the command got a message from its topic more than once, and without faults it doesn't",
    "check": "the command of --check ended with another code than 0, or --check-sql answered a row",
}
"""Every verdict, and what it means."""

Id = tuple[str, str]
"""Topic, the try's own name taken out, and the message's id there."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What the command's outcome lines say: of messages by their ids, of records by partition and offset.

    `got` counts the records that consumers got, `went_back` has the commits behind one that the group had made.
    """

    acknowledged: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    got: Counter[str] = field(default_factory=Counter)
    went_back: tuple[str, ...] = ()
    unanswered: frozenset[str] = frozenset()
    """The messages of which nothing was said but that they are being sent."""
    sends: tuple[tuple[int, bool, str], ...] = ()
    """When each send that ended was called, in µs since 1970, whether it went well, and the error that its caller got,
    without names and numbers of this try; where the lines say when."""
    all_committed: bool = False
    """Whether there were transactions, and of each was said that it is committed."""
    open_ends: int = 0
    """How many ends of transactions were asked for of which nothing more was said."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a try ended. `code` is None when it was ended at the limit, `log` when the log is not that try's.

    `log` is what a reader of committed records sees, `written` all ids, those of aborted transactions too. `check` says
    what the user's own check had against it.
    """

    code: int | None
    seconds: float
    said: Reported = field(default_factory=Reported)
    log: Counter[Id] | None = None
    written: frozenset[str] = frozenset()
    check: str = ""
    last_words: str = ""
    struck_until_us: int | None = None
    """When the last fault was over, in µs since 1970; None where none struck."""
    went_back: tuple[str, ...] = ()
    """The commits that a broker took, and that are behind one that it had taken before."""
    began: bool = True
    """Whether it asked for anything to be written, read or committed; before that it sets up."""
    not_fetched: frozenset[str] = frozenset()
    """The messages that lie before all that brokers handed out of their partition."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What runs without faults showed: how long they take, what is in the log each time, and whether ids are told."""

    seconds: float
    always: frozenset[Id] = frozenset()
    unique: bool = False
    tells_ids: bool = False
    gets: frozenset[str] = frozenset()
    """The records that consumers get in each run."""
    gets_once: bool = False
    goes_back: str = ""
    """The first commit that went back without any fault; empty where none did."""
    answers: bool = False
    """Whether every send and every end of a transaction comes back."""

    @classmethod
    def of(cls, runs: Collection[Ended]) -> Learned:
        """What all runs agree in."""
        logs = [run.log or Counter() for run in runs]
        same = len({frozenset(log) for log in logs}) == 1
        told = all(run.said.acknowledged and run.said.acknowledged <= run.written for run in runs)
        return cls(
            max(run.seconds for run in runs),
            frozenset(logs[0]) if same else frozenset(),
            unique=all(log and max(log.values()) == 1 for log in logs),
            tells_ids=told,
            gets=frozenset.intersection(*(frozenset(run.said.got) for run in runs)),
            gets_once=all(max(run.said.got.values(), default=1) == 1 for run in runs),
            goes_back=next((each for run in runs for each in went_back(run)), ""),
            answers=not any(run.said.unanswered or run.said.open_ends for run in runs),
        )

    def within(self, longer: Learned) -> Learned:
        """What fewer messages showed, where more of them showed it as well."""
        return replace(
            self,
            always=self.always if longer.always else frozenset(),
            unique=self.unique and longer.unique,
            tells_ids=self.tells_ids and longer.tells_ids,
            gets=self.gets if longer.gets else frozenset(),
            gets_once=self.gets_once and longer.gets_once,
            goes_back=self.goes_back or longer.goes_back,
            answers=self.answers and longer.answers,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that is wrong: its kind, one sentence on it, and the first ids that show it."""

    kind: str
    sentence: str
    told: str = ""
    """What is wrong whatever the fault was: the error that callers got ever after, or where the reader began."""


def judge(ended: Ended, learned: Learned, *, allow: Collection[str] = (), fatal: bool = False) -> list[Verdict]:
    """Everything wrong with a try, the worst first; `fatal` when a fault was among the rules that may end a client."""
    found = [verdict for verdict in _judged(ended, learned, fatal) if verdict.kind not in allow]
    order = list(KINDS)
    return sorted(found, key=lambda verdict: order.index(verdict.kind))


def _judged(ended: Ended, learned: Learned, fatal: bool) -> Iterable[Verdict]:
    if ended.code is None:
        yield Verdict(
            "hang", f"did not end within {ended.seconds:.0f} s; without faults it takes {learned.seconds:.1f} s"
        )
    elif ended.code and not fatal:
        last = f": {ended.last_words}" if ended.last_words else ""
        yield Verdict("exit", f"ended with code {ended.code}{last}")
    if ended.log is not None:
        if learned.tells_ids and (lost := sorted(ended.said.acknowledged - ended.written)):
            yield Verdict("lost", f"{_messages(lost)} acknowledged, and not in the log")
        gone = sorted(name for topic, name in learned.always - ended.log.keys() if name not in ended.said.failed)
        if gone and ended.code == 0 and (ended.said.all_committed or not learned.tells_ids):
            yield Verdict("missing", f"ended well, and {_messages(gone)} not in the log")
        doubled = sorted(name for (_, name), count in ended.log.items() if count > 1)
        if learned.unique and doubled:
            yield Verdict("duplicate", f"{_messages(doubled)} in the log more than once")
    if ended.code == 0 and learned.answers and (open_ := sorted(ended.said.unanswered)):
        yield Verdict("unanswered", f"ended well, and {_messages(open_)} sent without an answer to the caller")
    elif ended.code == 0 and learned.answers and ended.said.open_ends:
        yield Verdict("unanswered", "ended well, and the end of a transaction was asked for, and never came back")
    if learned.tells_ids and (failed := _stuck(ended)):
        told = ended.said.sends[-1][2]
        yield Verdict("stuck", f"none of the {failed} sends after the last fault went well", told)
    yield from _consumed(ended, learned, fatal)
    if ended.check:
        yield Verdict("check", ended.check)


_TOLD: Final = 80
_PATIENT: Final = 3


def gave_up(ended: Ended, hits: Sequence[int], *, stands: bool) -> str:
    """Why a command that ended with another code than 0 may; empty where it should have got over it.

    Its exit code has told whoever started it. It may end in its set-up, when nothing is under way yet; and by a fault
    that outlasts its patience: one that stands for seconds, or an exchange that went wrong `_PATIENT` times. `hits`
    are those of the rules that strike exchanges.
    """
    if not ended.code:
        return ""
    if not ended.began:
        return f"did not start, and said so: code {ended.code}"
    if stands:
        return f"gave up while the fault stood, and said so: code {ended.code}"
    if (tries := max(hits, default=0)) >= _PATIENT:
        return f"gave up after {tries} tries, and said so: code {ended.code}"
    return ""


_STUCK_SENDS: Final = 5
_STUCK_US: Final = 1_000_000  # a client's own backoff is mostly shorter


def _stuck(ended: Ended) -> int:
    """How many sends were called after the last fault, where all of them failed, and there were enough of them."""
    if ended.struck_until_us is None:
        return 0
    after = [(at, well) for at, well, _ in ended.said.sends if at > ended.struck_until_us]
    if len(after) < _STUCK_SENDS or any(well for _, well in after) or after[-1][0] - after[0][0] < _STUCK_US:
        return 0
    return len(after)


_BEGAN_BEHIND: Final = "which was read from behind them on"


def _consumed(ended: Ended, learned: Learned, fatal: bool) -> Iterable[Verdict]:
    """What is wrong by the lines of consumers."""
    got = ended.said.got
    if ended.code == 0 and not fatal and (skipped := sorted(learned.gets - got.keys() - ended.said.failed)):
        began = _BEGAN_BEHIND if ended.not_fetched.issuperset(skipped) else ""
        where = f", {began}" if began else ""
        yield Verdict("skipped", f"ended well, and {_messages(skipped)} not got from the topic{where}", began)
    if not learned.goes_back and (behind := went_back(ended)):
        yield Verdict("backwards", behind[0])
    if learned.gets_once and learned.gets and (twice := sorted(name for name, count in got.items() if count > 1)):
        yield Verdict("read-twice", f"{_messages(twice)} got from the topic more than once")


def _messages(ids: list[str]) -> str:
    if len(ids) == 1:
        return f"message {ids[0]!r} is"
    shown = ", ".join(repr(each) for each in ids[:3])
    return f"{len(ids)} messages ({shown}{', …' if len(ids) > 3 else ''}) are"


def said(lines: Iterable[str], topic: str = "") -> Reported:
    """What outcome lines say, ours and those of Kafka's verifiable programs; everything else is passed over.

    `topic` is the try's own, whose name is taken out of what is compared between tries.
    """
    last: dict[str, str] = {}
    got: Counter[str] = Counter()
    commits: dict[tuple[str, str, int], int] = {}
    went_back: list[str] = []
    sends: list[tuple[int, bool, str]] = []
    transactions: Counter[str] = Counter()
    open_ends = 0
    for document in documents(lines):
        for name, outcome in _outcome(document):
            # An acknowledgement stays one, whatever is said of the same message later.
            if last.get(name) != "ok":
                last[name] = outcome
            if outcome in ("ok", "fail", "info") and isinstance(document.get("called_at_us"), int):
                error = str(document.get("error") or "").replace(topic or "\0", "{topic}")
                sends.append((document["called_at_us"], outcome == "ok", re.sub(r"\d+", "#", error)[:_TOLD]))
        if document.get("operation") == "commit_transaction":
            transactions[str(document.get("outcome"))] += 1
        if document.get("operation") in ("commit_transaction", "abort_transaction"):
            open_ends += 1 if document.get("outcome") == "pending" else -1
        got.update(each.replace(topic, "{topic}") if topic else each for each in _got(document))
        for where, offset in _committed(document):
            if offset < commits.get(where, offset):
                group, name, partition = where
                went_back.append(
                    f"group {group or '?'} committed {offset} of {name}-{partition} after {commits[where]}"
                )
            commits[where] = max(offset, commits.get(where, offset))
    ok = frozenset(name for name, outcome in last.items() if outcome == "ok")
    unanswered = frozenset(name for name, outcome in last.items() if outcome == "pending")
    ends = {"ok", "pending"} >= transactions.keys()
    all_committed = ends and 0 < transactions["ok"] >= transactions["pending"]
    return Reported(
        ok,
        frozenset(last) - ok,
        got,
        tuple(went_back),
        unanswered,
        tuple(sorted(sends)),
        all_committed,
        max(open_ends, 0),
    )


def went_back(ended: Ended) -> tuple[str, ...]:
    """The commits that went back: by the command's own lines where these say so, else by what brokers took."""
    return ended.said.went_back or ended.went_back


def commits_behind(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The commits of a group's partition behind an earlier one, by what brokers were asked and answered.

    One is earlier that was answered before the other was asked, or came before it on the same connection. Who was told
    that the offset is out of range may go back.
    """
    highest: dict[tuple[str, str, int], dict[int | None, int]] = defaultdict(dict)
    open_: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    found = []
    for row in sorted(rows, key=lambda row: (row["request_at_us"], row.get("exchange_seq") or 0)):
        parts = row["partitions"] or ()
        if row["api_name"] == "Fetch":
            reset = {
                (_topic(each), each["partition_index"])
                for each in parts
                if each["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
            }
            for where in [where for where in highest if where[1:] in reset]:
                del highest[where]
                open_.pop(where, None)
        answered_us = row.get("broker_responded_at_us")
        if row["api_name"] != "OffsetCommit" or answered_us is None or row["error_code"]:
            continue
        connection = row.get("connection_id")
        for each in parts:
            offset = each.get("base_offset")
            if each["error_code"] or offset is None:
                continue
            where = (row.get("group_id") or "", _topic(each), each["partition_index"])
            known, waiting = highest[where], open_[where]
            while waiting and waiting[0][0] <= row["request_at_us"]:
                known[None] = max(heapq.heappop(waiting)[1], known.get(None, 0))
            before = max(known.get(None, 0), known.get(connection, 0))
            if offset < before:
                group, topic, partition = where
                found.append(f"group {group or '?'} committed {offset} of {topic}-{partition} after {before}")
            known[connection] = max(offset, known.get(connection, 0))
            heapq.heappush(waiting, (answered_us, offset))
    return tuple(found)


def before_all_fetched(rows: Iterable[Mapping[str, Any]], log: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The ids of a log's records that lie before all that brokers handed out of their partition.

    None where a topic that was fetched from goes by an id that nobody told the name of.
    """
    first: dict[tuple[str, int], int] = {}
    for row in rows:
        for each in (row["partitions"] or ()) if row["api_name"] == "Fetch" else ():
            if each.get("record_count"):
                if each["topic"] is None or each["base_offset"] is None:
                    return frozenset()
                where = (each["topic"], each["partition_index"])
                first[where] = min(each["base_offset"], first.get(where, each["base_offset"]))
    return frozenset(
        row["message_id"] for row in log if row["offset"] < first.get((row["topic"], row["partition"]), inf)
    )


def _topic(partition: Mapping[str, Any]) -> str:
    return str(partition.get("topic") or partition.get("topic_id"))


def _got(document: dict[str, Any]) -> Iterable[str]:
    """The records that a line says a consumer got: by their ids, where they have any."""
    if document.get("name") == "record_data" or (
        document.get("operation") == "poll" and document.get("outcome") == "ok"
    ):
        name = document.get("message_id")
        if name is None and None not in (document.get("partition"), document.get("offset")):
            name = f"{document.get('topic', '')}-{document['partition']}@{document['offset']}"
        if name is not None:
            yield str(name)


def _committed(document: dict[str, Any]) -> Iterable[tuple[tuple[str, str, int], int]]:
    """Group, topic and partition of each commit that went well, and where the group goes on."""
    made: list[dict[str, Any]] = []
    if document.get("name") == "offsets_committed" and document.get("success"):
        offsets = document.get("offsets")
        made = [each for each in offsets if isinstance(each, dict)] if isinstance(offsets, list) else []
    elif document.get("operation") == "commit" and document.get("outcome") == "ok":
        made = [document]
    for each in made:
        if isinstance(each.get("partition"), int) and isinstance(each.get("offset"), int):
            group = document.get("group_id") or document.get("client") or ""
            yield (str(group), str(each.get("topic", "")), each["partition"]), each["offset"]


def _outcome(document: dict[str, Any]) -> Iterable[tuple[str, str]]:
    if document.get("name") in ("producer_send_success", "producer_send_error"):
        if document.get("value") is not None:
            yield str(document["value"]), "ok" if document["name"] == "producer_send_success" else "fail"
    elif document.get("operation") == "send" and document.get("message_id") is not None:
        yield str(document["message_id"]), str(document.get("outcome"))
