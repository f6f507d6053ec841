"""What a try was, from what can be seen of it: how the command ended, what it said, and what the broker's log holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

KINDS: Final = {
    "hang": "the command did not end in time",
    "exit": "the command ended with another code than 0, by a fault that clients are expected to get over",
    "lost": "a message that the command was told is acknowledged isn't in the broker's log",
    "missing": "the command ended well, and the log lacks a message that it holds when there are no faults",
    "duplicate": "a message is in the log more than once, and without faults it isn't",
    "check": "the command of --check ended with another code than 0",
}
"""Every verdict, and what it means."""

Id = tuple[str, str]
"""Topic, the try's own name taken out, and the message's id there."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What the command's outcome lines say of messages; ids without a topic where the lines have none."""

    acknowledged: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a try ended. `code` is None when it was ended at the limit, `log` when the log is not that try's.

    `log` is what a reader of committed records sees, `written` all ids, those of aborted transactions too.
    """

    code: int | None
    seconds: float
    said: Reported = field(default_factory=Reported)
    log: Counter[Id] | None = None
    written: frozenset[str] = frozenset()
    check: tuple[int, str] | None = None
    last_words: str = ""


@dataclass(frozen=True, slots=True)
class Learned:
    """What runs without faults showed: how long they take, what is in the log each time, and whether ids are told."""

    seconds: float
    always: frozenset[Id] = frozenset()
    unique: bool = False
    tells_ids: bool = False

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
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that is wrong: its kind, one sentence on it, and the first ids that show it."""

    kind: str
    sentence: str


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
        if gone and not learned.tells_ids and ended.code == 0:
            yield Verdict("missing", f"ended well, and {_messages(gone)} not in the log")
        doubled = sorted(name for (_, name), count in ended.log.items() if count > 1)
        if learned.unique and doubled:
            yield Verdict("duplicate", f"{_messages(doubled)} in the log more than once")
    if ended.check is not None and ended.check[0]:
        yield Verdict("check", f"--check ended with code {ended.check[0]}: {ended.check[1]}".rstrip(": "))


def _messages(ids: list[str]) -> str:
    if len(ids) == 1:
        return f"message {ids[0]!r} is"
    shown = ", ".join(repr(each) for each in ids[:3])
    return f"{len(ids)} messages ({shown}{', …' if len(ids) > 3 else ''}) are"


def said(lines: Iterable[str]) -> Reported:
    """What outcome lines say, ours and those of Kafka's verifiable producer; everything else is passed over."""
    last: dict[str, str] = {}
    for line in lines:
        text = line.strip()
        if not text.startswith("{"):
            continue
        try:
            document = json.loads(text)
        except ValueError:
            continue
        for name, outcome in _outcome(document):
            # An acknowledgement stays one, whatever is said of the same message later.
            if last.get(name) != "ok":
                last[name] = outcome
    ok = frozenset(name for name, outcome in last.items() if outcome == "ok")
    return Reported(ok, frozenset(last) - ok)


def _outcome(document: dict[str, Any]) -> Iterable[tuple[str, str]]:
    if document.get("name") in ("producer_send_success", "producer_send_error"):
        if document.get("value") is not None:
            yield str(document["value"]), "ok" if document["name"] == "producer_send_success" else "fail"
    elif document.get("operation") == "send" and document.get("message_id") is not None:
        yield str(document["message_id"]), str(document.get("outcome"))
