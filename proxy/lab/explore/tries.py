"""One try: the command behind a proxy of its own, with a topic and a group of its own, and what became of it."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from notleader.proxy.brokerlog.connection import Access, BrokerError, Connection
from notleader.proxy.brokerlog.reading import LogError, read_log
from notleader.proxy.brokerlog.schema import rows_of
from notleader.proxy.config.settings import Settings
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.explore.candidates import WORKS, Rule
from notleader.proxy.lab.explore.judging import Ended, Id, before_all_fetched, commits_behind, said
from notleader.proxy.lab.outcome import last_words
from notleader.proxy.lab.process import Child, filled
from notleader.proxy.lab.testing import NotLeader
from notleader.proxy.wire.names import ApiKey, ErrorCode

_CREATE_TOPICS, _DELETE_TOPICS, _METADATA = 5, 3, 8
_CREATION_MS = 15_000
_TICK_S = 0.02
_CHECK_S = 60.0
_LOG = "log"


class StoppedError(Exception):
    """The search is over, and a try was ended before its time."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A try that is over: how it ended, how often each rule struck, the exchanges it made, where its files are."""

    ended: Ended
    hits: list[int]
    rows: list[dict[str, Any]]
    folder: Path


@dataclass(slots=True)
class Bench:
    """Where tries are made: a Kafka, a command with placeholders, a folder; `run` may be called from several threads.

    `stop` ends the tries that are running.
    """

    kafka: str
    command: Sequence[str]
    folder: Path
    name: str
    partitions: int = 1
    check: str = ""
    check_sql: str = ""
    keep: bool = False
    brokers: int = 1
    """How many Kafka has."""
    messages: int | None = None
    """What {messages} is in the command, unless a try is told otherwise; None where it is not replaced."""
    stop: threading.Event = field(default_factory=threading.Event)
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def has_topics(self) -> bool:
        """Whether each try has a topic of its own, so that what is in the log is that try's."""
        return any("{topic}" in word for word in self.command)

    def run(self, rules: Sequence[Rule], limit_s: float, messages: int | None = None) -> Tried:
        """Run the command once with these rules in force from before its start, and so many messages.

        Raises LabError where it is not the command that failed, and StoppedError.
        """
        with self._lock:
            self._count += 1
            number = self._count
        topic = f"{self.name}-{number}"
        folder = self.folder / f"try-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rules.json").write_text(json.dumps(list(rules), indent=1), "utf-8")
        words = {
            "topic": topic,
            "group": topic,
            "try": str(number),
            "outcomes": str((folder / "outcomes.jsonl").resolve()),
        }
        if self.messages is not None:
            words["messages"] = str(messages or self.messages)
        with self._topics(topic) as topics:
            return self._run(rules, limit_s, topics, words, folder)

    @contextlib.contextmanager
    def _topics(self, topic: str) -> Iterator[set[str]]:
        """The try's topics, gone at the end however the try ends; what the command makes besides is to be added."""
        topics = {topic} if self.has_topics else set()
        try:
            for each in topics:
                create_topic(self.kafka, each, self.partitions)
            yield topics
        finally:
            if topics:
                delete_topics(self.kafka, topics)

    def _run(
        self, rules: Sequence[Rule], limit_s: float, topics: set[str], words: dict[str, str], folder: Path
    ) -> Tried:
        topic = words["topic"]
        settings = {"capture": None, "capture_level": "partition"}
        with NotLeader(self.kafka, folder, **settings) as beside:
            try:
                with contextlib.ExitStack() as stack:
                    # A rule that waits for another is put in force after it.
                    order = sorted(range(len(rules)), key=lambda at: "after_fault" in rules[at].get("trigger", {}))
                    struck = {at: stack.enter_context(beside.fault(may_miss=True, **rules[at])) for at in order}
                    began = time.monotonic()
                    code, last_words = self._play({**words, "bootstrap": beside.bootstrap}, folder, limit_s)
                    seconds = time.monotonic() - began
                    hits = [struck[at].hits for at in range(len(rules))]
            finally:
                rows = beside.exchanges()
                if topics:
                    topics |= _produced(rows, topic)
        lines = [
            line
            for file in (folder / "stdout.txt", folder / "outcomes.jsonl")
            if file.exists()
            for line in file.read_text(errors="replace", encoding="utf-8").splitlines()
        ]
        log, written, not_fetched = None, frozenset[str](), frozenset[str]()
        if topics:
            log, written, not_fetched = self._log(topic, topics, rows, folder)
        checked = self._checked({**words, "bootstrap": self.kafka}, folder)
        if self.check_sql and not checked:
            checked = self._asked(filled(self.check_sql, words), folder, lines, rows)
        shutil.rmtree(folder / _LOG, ignore_errors=True)
        ended = Ended(
            code,
            seconds,
            said(lines, topic),
            log,
            written,
            checked,
            last_words,
            struck_until_us(rows, rules),
            tuple(each.replace(topic, "{topic}") for each in commits_behind(rows)),
            any(row["api_name"] in WORKS for row in rows),
            not_fetched,
        )
        return Tried(ended, hits, rows, folder)

    def tidy(self, tried: Tried) -> None:
        """Delete the files of a try in which nothing was found."""
        if not self.keep:
            shutil.rmtree(tried.folder, ignore_errors=True)

    def _play(self, words: dict[str, str], folder: Path, limit_s: float) -> tuple[int | None, str]:
        argv = [filled(word, words) for word in self.command]
        log = folder / "stderr.txt"
        output = folder / "stdout.txt"
        child = Child(argv, log=log, stdout=output)
        try:
            deadline = time.monotonic() + limit_s
            while child.running() and time.monotonic() < deadline:
                if self.stop.wait(_TICK_S):
                    raise StoppedError
            code = child.wait() if not child.running() else None
        finally:
            if child.running():
                child.kill()
        return code, last_words(log, output)

    def _log(
        self, topic: str, topics: set[str], rows: list[dict[str, Any]], folder: Path
    ) -> tuple[Counter[Id], frozenset[str], frozenset[str]]:
        """How often each id can be read from the try's topics, all ids, those of aborted transactions too; and those
        that lie before all that was fetched."""
        out = folder / _LOG
        try:
            read_log(self.kafka, sorted(topics), out, value_is_id=True, missing_ok=True)
        except LogError as error:
            raise LabError(f"the log can't be read: {error}") from error
        columns = ["event", "topic", "partition", "offset", "message_id", "transaction"]
        records = [row for row in rows_of(out, columns) if row["event"] == "record" and row["message_id"] is not None]
        found = Counter(
            (row["topic"].replace(topic, "{topic}"), row["message_id"])
            for row in records
            if row["transaction"] in (None, "committed")
        )
        return found, frozenset(row["message_id"] for row in records), before_all_fetched(rows, records)

    def _asked(self, query: str, folder: Path, lines: list[str], rows: list[dict[str, Any]]) -> str:
        from notleader.proxy.lab.explore.sql import answer  # DuckDB is there for those who ask

        count, shown = answer(query, folder / _LOG, lines, rows)
        (folder / "check.txt").write_text(shown, "utf-8")
        return f"--check-sql answered {count} row{'' if count == 1 else 's'}: {shown}" if count else ""

    def _checked(self, words: dict[str, str], folder: Path) -> str:
        if not self.check:
            return ""
        argv = [filled(word, words) for word in shlex.split(self.check)]
        try:
            ran = subprocess.run(
                argv, capture_output=True, text=True, timeout=_CHECK_S, stdin=subprocess.DEVNULL, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"--check can't be run: {error}") from error
        output = (ran.stdout + ran.stderr).strip()
        (folder / "check.txt").write_text(output, "utf-8")
        last = output.splitlines()[-1][:200] if output else ""
        return f"--check ended with code {ran.returncode}: {last}".rstrip(": ") if ran.returncode else ""


def struck_until_us(rows: Sequence[Mapping[str, Any]], rules: Sequence[Rule]) -> int | None:
    """When the last exchange that a rule struck had its end, and what goes on after it; None when none was struck."""
    struck = [max(row["response_at_us"] or 0, row["request_at_us"]) for row in rows if row["fault_names"]]
    windows_ms = [where.get("for_ms", 0) for rule in rules for where in (rule, rule.get("trigger", {}))]
    longest_ms = max(windows_ms, default=0)
    return max(struck) + round(longest_ms * 1000) if struck else None


def brokers_of(kafka: str) -> int:
    """How many brokers a Kafka has. Raises LabError."""
    with _any_broker(kafka) as connection:
        version = connection.version(ApiKey.Metadata, _METADATA) or 1
        body: dict[str, Any] = {"topics": []}
        if version >= 4:
            body["allow_auto_topic_creation"] = False
        return len(_asked(connection, ApiKey.Metadata, version, body)["brokers"])


def create_topic(kafka: str, topic: str, partitions: int) -> None:
    """Create a topic and wait until each partition has a leader. Raises LabError."""
    body = {
        "topics": [
            {
                "name": topic,
                "num_partitions": partitions,
                "replication_factor": -1,
                "assignments": [],
                "configs": [],
            }
        ],
        "timeout_ms": _CREATION_MS,
        "validate_only": False,
    }
    with _any_broker(kafka) as connection:
        version = connection.version(ApiKey.CreateTopics, _CREATE_TOPICS) or 0
        if version < 4:  # -1 is Kafka's own default only from there on (KIP-464)
            body["topics"][0]["replication_factor"] = 1  # type: ignore[index]
        code = _asked(connection, ApiKey.CreateTopics, version, body)["topics"][0]["error_code"]
        if code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise LabError(f"topic {topic} can't be created: {ErrorCode(code).name}")
        deadline = time.monotonic() + _CREATION_MS / 1000
        while not _is_led(connection, topic, partitions):
            if time.monotonic() > deadline:
                raise LabError(f"topic {topic} has no leaders")
            time.sleep(_TICK_S)


def delete_topics(kafka: str, topics: set[str]) -> None:
    """Delete topics; where it can't be done they stay."""
    with contextlib.suppress(LabError), _any_broker(kafka) as connection:
        version = connection.version(ApiKey.DeleteTopics, _DELETE_TOPICS) or 0
        _asked(
            connection,
            ApiKey.DeleteTopics,
            version,
            {"topic_names": sorted(topics), "timeout_ms": _CREATION_MS},
        )


def _any_broker(kafka: str) -> Connection:
    """A connection to any broker of the bootstrap list; since KRaft brokers forward to the controller."""
    access = Access(Settings.model_validate({"kafka": kafka}))
    reasons = []
    for endpoint in Settings.model_validate({"kafka": kafka}).kafka:
        try:
            connection = access.open(endpoint)
        except BrokerError as error:
            reasons.append(str(error))
            continue
        return connection
    raise LabError("; ".join(reasons))


def _asked(connection: Connection, api_key: ApiKey, version: int, body: dict[str, Any]) -> dict[str, Any]:
    try:
        return connection.ask(api_key, version, body, timeout_s=_CREATION_MS / 1000 + 5)
    except BrokerError as error:
        raise LabError(str(error)) from error


def _is_led(connection: Connection, topic: str, partitions: int) -> bool:
    version = connection.version(ApiKey.Metadata, _METADATA) or 1
    body: dict[str, Any] = {"topics": [{"name": topic}]}
    if version >= 4:
        body["allow_auto_topic_creation"] = False
    (found,) = _asked(connection, ApiKey.Metadata, version, body)["topics"]
    led = [each for each in found["partitions"] if each["leader_id"] >= 0 and not each["error_code"]]
    return len(led) == partitions


def _produced(rows: list[dict[str, Any]], topic: str) -> set[str]:
    """The topics of this try that were produced to: those that carry its name."""
    return {
        each["topic"]
        for row in rows
        if row["api_name"] == "Produce"
        for each in row["partitions"] or ()
        if each["topic"] and topic in each["topic"]
    }
