"""A proxy beside a test, in a thread of its own: faults for a while, waiting for their hits, incidents, verdicts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import uvloop

from notleader.faults.rule import Rule
from notleader.proxy.brokerlog.before_analysis import topics_of
from notleader.proxy.brokerlog.reading import LogError, read_log
from notleader.proxy.config.extras import missing
from notleader.proxy.config.settings import load
from notleader.proxy.lab.analysis import Inputs, analyse, need_spark
from notleader.proxy.lab.demo import new_folder
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import load_incident
from notleader.proxy.lab.incident_run import Done, run_incident
from notleader.proxy.lab.outcome import Outcome, read_outcomes
from notleader.proxy.lab.stages import Stages
from notleader.proxy.net.server import Proxy
from notleader.proxy.wire.names import did_you_mean

T = TypeVar("T")

_START_S = 60.0
# The tests that follow, and a run that is repeated, have their verdicts from the Spark of the first.
_SPARK_STAYS_S = 120
_SETTLE_S = 5.0


class NeverHitError(AssertionError):
    """A rule that was to strike never did: whatever the test saw, it saw it without the fault."""


class NotJudgedError(AssertionError):
    """What was asked of a verdict could not be judged, by what was recorded and what the clients said."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of the analysis; `count` is how many cases it found, `evidence` the first of them."""

    check: str
    verdict: str
    sentence: str
    count: int
    client: str | None
    rule: str | None
    evidence: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the analysis says of a recording: negative or not, its findings, what the clients said, the report."""

    negative: bool
    findings: list[Finding]
    outcomes: list[Outcome]
    report: Path

    def found(self, check: str, client: str | None = None) -> int:
        """How many cases a check found, of one client or of all.

        Raises NotJudgedError where it could not be judged: that none was found says nothing then. LookupError for a
        check that there is not.
        """
        theirs = [f for f in self.findings if f.check == check]
        if not theirs:
            known = sorted({f.check for f in self.findings})
            raise LookupError(f"no check {check!r}{did_you_mean(check, known)} The checks are {', '.join(known)}")
        if all(f.verdict == "unknown" and not f.count for f in theirs):
            raise NotJudgedError(f"{check}: {theirs[0].sentence}")
        return sum(f.count for f in theirs if client in (None, f.client))


class InForce:
    """A rule that is in force now."""

    def __init__(self, beside: NotLeader, rule: Rule) -> None:
        self._beside = beside
        self._rule = rule

    @property
    def name(self) -> str:
        return self._rule.name

    @property
    def hits(self) -> int:
        """How often it has struck."""
        return self._rule.hits

    def wait(self, hits: int = 1, *, timeout_s: float = 10) -> None:
        """Return once it has struck that often; TimeoutError with the count otherwise.

        Not for a coroutine: it would hold its event loop. There it is `await wait_async(…)`.
        """
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise TypeError("wait() would hold the event loop: await wait_async() instead")
        try:
            self._beside.run(self._reached(hits, timeout_s))
        except TimeoutError:
            raise TimeoutError(self._too_few(hits, timeout_s)) from None

    async def wait_async(self, hits: int = 1, *, timeout_s: float = 10) -> None:
        """As `wait`, for a coroutine."""
        try:
            await asyncio.wrap_future(self._beside.submit(self._reached(hits, timeout_s)))
        except TimeoutError:
            raise TimeoutError(self._too_few(hits, timeout_s)) from None

    async def _reached(self, hits: int, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while self.hits < hits:
                await asyncio.sleep(0.005)

    def _too_few(self, hits: int, timeout_s: float) -> str:
        return f"rule {self.name} was hit {self.hits} of {hits} times in {timeout_s:g} s; {self._beside.passed_by()}"


class NotLeader:
    """A proxy in front of a Kafka for the length of a `with`; its event loop is another thread's, not the caller's.

    `kafka` is HOST:PORT[,HOST:PORT…]; everything it writes goes below `folder`; `settings` are what a config file of
    `notleader run` would say. Raises ConfigError, CaptureError and OSError from `with`.
    """

    def __init__(self, kafka: str, folder: Path, **settings: Any) -> None:
        self.kafka = kafka
        self.folder = folder
        self.bootstrap = ""
        records = missing("recording", "capture") is None  # else it is a proxy that others' tests only watch
        capture = {"capture": str(folder / "capture")} if records else {}
        self._settings = {**capture, "capture_level": "record", **settings}
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="notleader", daemon=True)
        self._proxy: Proxy | None = None
        self._watch: asyncio.Task[None] | None = None
        self._rows: list[dict[str, Any]] = []
        self._marks = itertools.count()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start(), timeout_s=_START_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._stop(), timeout_s=_START_S)
        finally:
            self._end()

    @contextlib.contextmanager
    def fault(self, *, may_miss: bool = False, **rule: Any) -> Iterator[InForce]:
        """Put a rule, given as in a config file, in force for the length of a `with`.

        Raises NeverHitError at its end when the rule was not hit once, unless it `may_miss`; and
        FaultDocumentError with every problem of the rule.
        """
        self.run(self._settle(), timeout_s=_START_S)  # what was asked before may be on its way yet
        asked = len(self._rows)
        in_force = InForce(self, self.run(self._add(rule)))
        try:
            yield in_force
        finally:
            self.run(self._remove(in_force.name))
        if not in_force.hits and not may_miss:
            raise NeverHitError(f"rule {in_force.name} ({rule.get('kind')}) was never hit; {self.passed_by(asked)}")

    def exchanges(self, **columns: Any) -> list[dict[str, Any]]:
        """The exchanges so far whose columns have these values (`api_name="Produce"`), as the capture's rows."""
        return [row for row in self._seen() if all(row[name] == value for name, value in columns.items())]

    def passed_by(self, begin: int = 0) -> str:
        """One sentence on the requests that were seen, for whoever waited in vain."""
        seen = Counter(_what(row) for row in self._seen(begin))
        counted = ", ".join(f"{count} x {what}" for what, count in seen.most_common(8))
        return f"requests that passed: {counted or f'none. Did the client connect to {self.bootstrap}?'}"

    def incident(self, name: str, *, client: str | None = None, form: str | None = None) -> Done:
        """Run one of the incidents that come with notleader, on a Kafka of its own; seconds to minutes.

        `client` is FAMILY[@VERSION], `form` one of its other lengths. Raises LabError when it can't be run.
        """
        incident = load_incident(name).only(client).in_form(form)
        folder = new_folder(self.folder / incident.name)
        return run_incident(incident, folder, Stages(quiet=True), stays_s=_SPARK_STAYS_S)

    def verdict(self, *outcomes: Path, topics: Iterable[str] | None = None, log: bool = True) -> Verdict:
        """Let Spark say what the faults did to the clients, whose outcome lines are in these files.

        Ends the recording; what comes later is not in it. Reads the brokers' log of `topics` (default: those that were
        produced to), which settles what was lost or doubled; `log=False` leaves that out. Needs the extra `[analysis]`;
        LabError when it isn't there, when nobody was connected, or when the log can't be read.
        """
        need_spark()
        self.run(self._finish_capture(), timeout_s=_START_S)
        if next((self.folder / "capture").rglob("*.parquet"), None) is None:
            raise LabError(f"there is nothing to judge: no client connected to {self.bootstrap}, the proxy's bootstrap")
        folder = new_folder(self.folder / "verdict")
        inputs = Inputs([self.folder / "capture"], list(outcomes))
        if log and self._read_log(topics, outcomes, folder / "log"):
            inputs.logs.append(folder / "log")
        words, negative = analyse(inputs, folder, as_json=True, stays_s=_SPARK_STAYS_S)
        names = Finding.__dataclass_fields__
        findings = [Finding(**{name: each[name] for name in names}) for each in json.loads(words)["findings"]]
        return Verdict(negative, findings, read_outcomes(outcomes), folder / "analysis" / "report.html")

    def _read_log(self, topics: Iterable[str] | None, outcomes: Iterable[Path], out: Path) -> bool:
        """Whether there was a log to read."""
        reach = ("tls_kafka", "relay_sasl_", "connect_timeout_ms")
        settings = {name: value for name, value in self._settings.items() if name.startswith(reach)}
        wanted = topics_of([self.folder / "capture"], outcomes) if topics is None else list(topics)
        try:
            given = load({"kafka": self.kafka, **settings})
            return bool(read_log(self.kafka, wanted, out, settings=given, missing_ok=topics is None))
        except LogError as error:
            raise LabError(f"the log can't be read (log=False does without): {error}") from error

    # ---- between the threads ---------------------------------------------------------------------

    def submit(self, work: Coroutine[Any, Any, T]) -> Any:
        """Start work in the proxy's loop; a `concurrent.futures.Future`."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """Have work done in the proxy's loop, and wait for it."""
        result: T = self.submit(work).result(timeout_s)
        return result

    async def _start(self) -> None:
        self._proxy = Proxy.in_front_of(self.kafka, **self._settings)
        await self._proxy.start()
        self.bootstrap = self._proxy.bootstrap
        self._watch = asyncio.create_task(self._keep_rows(self._proxy))

    async def _keep_rows(self, proxy: Proxy) -> None:
        with proxy.subscribe() as rows:
            while True:
                self._rows.append(await rows.get())

    async def _stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        assert self._proxy is not None
        await self._proxy.stop()

    def _end(self) -> None:
        try:
            # What an interruption left undone would complain when it is collected.
            self.run(_cancel_others(), timeout_s=_START_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _add(self, rule: dict[str, Any]) -> Rule:
        assert self._proxy is not None
        return self._proxy.add_fault(**rule)

    async def _remove(self, name: str) -> None:
        assert self._proxy is not None
        with contextlib.suppress(KeyError):  # the test took it out itself
            self._proxy.remove_fault(name)

    def _seen(self, begin: int = 0) -> list[dict[str, Any]]:
        self.run(self._settle(), timeout_s=_START_S)
        return [row for row in self._rows[begin:] if row["event"] == "exchange"]

    async def _settle(self) -> None:
        """Rows come by another thread, some milliseconds late: a mark says when those of now are here."""
        if self._proxy is None or self._proxy.capture is None:
            return
        label = f"seen-{next(self._marks)}"
        self._proxy.capture.mark(label)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                while not any(row["detail"] == label for row in reversed(self._rows)):
                    await asyncio.sleep(0.005)

    async def _finish_capture(self) -> None:
        assert self._proxy is not None
        if self._proxy.capture is None:
            raise LabError("there is no recording (any more): verdict() ends it, and works once")
        await self._proxy.stop_capture()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _what(row: dict[str, Any]) -> str:
    topics = sorted({each["topic"] or "?" for each in row["partitions"] or ()})
    return " ".join([row["api_name"] or f"api {row['api_key']}", *topics])
