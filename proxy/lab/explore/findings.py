"""What a search found: failures with the rules that cause them, and a corpus that the next search starts from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from notleader.proxy.lab.explore.candidates import Rule, cause, family
from notleader.proxy.lab.explore.judging import Verdict
from notleader.proxy.lab.explore.shrinking import Recipe

_FORMAT = 2


@dataclass(slots=True)
class Failure:
    """A way in which the command breaks: the first candidate that showed it, and what was left after shrinking.

    `broke` of `repeated` tries with the shrunk rules broke; `survives_without` is the counterfactual: the same
    command, at the end, without them.
    """

    verdicts: list[Verdict]
    first_rules: list[Rule]
    rules: list[Rule]
    point: str
    broke: int
    repeated: int
    survives_without: bool
    tries_to_find: int
    tries_to_shrink: int
    seconds_to_find: float = 0.0
    seen_again: int = 0
    evidence: str = ""
    timeline: list[str] = field(default_factory=list)
    messages: int | None = None
    """With how many it was told to send; None where the command does not take {messages}."""

    @property
    def kind(self) -> str:
        """The worst of its verdicts."""
        return self.verdicts[0].kind

    @property
    def group(self) -> tuple[str, ...]:
        """What makes two failures the same one: verdict, and what the rules do to which API."""
        return group(self.verdicts[0], self.rules)

    def is_in(self, verdict: Verdict, rules: list[Rule]) -> bool:
        """Whether some of several rules, each error for itself, do what these do, and the same came of them."""
        own, those = ({cause(rule, verdict.kind) for rule in each} for each in (self.rules, rules))
        came = (self.kind, self.verdicts[0].told)
        return len(rules) > 1 and own <= those and came == (verdict.kind, verdict.told)

    @property
    def is_unstable(self) -> bool:
        """Whether it was seen once, and never again when it was repeated."""
        return not self.broke

    def broke_once_more(self, repeated: int) -> None:
        """An unstable one was seen again, and in none of so many tries that repeated it."""
        self.seen_again += 1
        self.repeated += 1 + repeated

    @property
    def times(self) -> str:
        """How often an unstable one broke, of how many tries."""
        return f"{1 + self.seen_again} of {1 + self.repeated}"

    @property
    def sent(self) -> str:
        """How many messages belong to it; empty where the command is not told."""
        return "" if self.messages is None else f" with {{messages}} = {self.messages}"

    @property
    def by(self) -> str:
        """What does it."""
        return " and ".join(map(described, self.rules)) or "no fault at all"

    @property
    def title(self) -> str:
        """One line: what does it, and what happens."""
        return f"{self.by}: {self.verdicts[0].sentence}"


def group(verdict: Verdict, rules: list[Rule]) -> tuple[str, ...]:
    """Verdict, and what the rules do, whatever their places, counts, and the way in which an exchange is lost.

    Whatever the API's error was by which a client got stuck, it is the same when its callers are told the same ever
    after; and whatever made a reader join late, when it began to read behind the messages that it did not get.
    """
    if verdict.told and verdict.kind == "skipped":
        return (verdict.kind, verdict.told)
    if verdict.told:
        causes = {
            f"{family(rule)[0]} {rule['kind']}" if rule["kind"] == "error" else cause(rule, verdict.kind)
            for rule in rules
        }
        return (verdict.kind, verdict.told, *sorted(causes))
    return exactly(verdict, rules)


def exactly(verdict: Verdict, rules: list[Rule]) -> tuple[str, ...]:
    """As `group`, of rules that nobody has shrunk: of several each error is another, for it may do it alone."""
    return (verdict.kind, verdict.told, *sorted(cause(rule, verdict.kind) for rule in rules))


def described(rule: Rule) -> str:
    """A rule in a few words."""
    trigger = rule.get("trigger", {})
    words = " ".join(family(rule)[1:])
    words += "".join(f" {key}={rule[key]:g}" for key in ("delay_ms", "for_ms") if key in rule)
    match = rule.get("match", {})
    where = f" on {match['api_key']}" if "api_key" in match else ""
    if "partition_index" in match:
        where += f" of partition {match['partition_index']}"
    if skip := trigger.get("skip"):
        where += f", the first {skip} left alone"
    if (times := trigger.get("times", 1)) == "forever":
        where += "" if "for_ms" in trigger else ", each time"
    elif times != 1:
        where += f", {times} times"
    lasts = f"{trigger['for_ms']:g} ms long" if "for_ms" in trigger else "for good"
    if "after_fault" in trigger:
        where += f" from then on, {lasts}"
    elif "for_ms" in trigger:
        where += f" {lasts}, after {trigger.get('after_ms', 0):g} ms"
    return words + where


@dataclass(slots=True)
class Corpus:
    """What was tried with a command and so many messages, so that the next search goes on from there."""

    command: list[str]
    messages: int | None = None
    tried: dict[str, str] = field(default_factory=dict)
    """Verdict kinds by candidate; empty text for one that was survived."""
    failing: list[Recipe] = field(default_factory=list)

    @classmethod
    def load(cls, file: Path, command: list[str], messages: int | None = None) -> Corpus:
        """The corpus in a file; an empty one where there is none, or it is of another command.

        One of another number of messages has other places to strike: what failed is kept, each with its own number.
        """
        try:
            document = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            return cls(command, messages)
        if document.get("format") != _FORMAT or document.get("command") != command:
            return cls(command, messages)
        tried = document["tried"] if document["messages"] == messages else {}
        return cls(command, messages, dict(tried), [Recipe(**each) for each in document["failing"]])

    def save(self, file: Path) -> None:
        """Write it whole, or leave what was there."""
        growing = file.with_suffix(".growing")
        growing.write_text(json.dumps({"format": _FORMAT, **asdict(self)}, indent=1), "utf-8")
        growing.replace(file)
