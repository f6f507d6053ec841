"""Every check against a small plain-Python oracle, on random histories; many histories share one Spark run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf
from pprint import pformat
from statistics import median_low
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from notleader.spark_analysis.checks import Tables, all_checks
from notleader.spark_analysis.findings import cases, suspected
from notleader.spark_analysis.options import Options

from .synthetic import MS, START_US, Story

pytestmark = pytest.mark.spark

STORM = 3
SLOW_MS, BLOCKED_MS, STUCK_MS = 1000, 1000, 1000


class Attempt(NamedTuple):
    """One Produce of a batch; `delay_ms` after the batch's first call."""

    delay_ms: int
    code: int
    faulted: bool
    answered: bool
    base_offset: int


class Send(NamedTuple):
    called_ms: int
    thread: str
    outcome: str
    offset: int | None
    took_ms: int
    blocked_ms: int
    budget_ms: int | None
    error: str | None


class Batch(NamedTuple):
    sends: list[Send]
    attempts: list[Attempt]


class Read(NamedTuple):
    """A record that a reader got; reads happen one after the other. With `commit` it is a commit of that offset."""

    reader: str
    message: int
    offset: int
    commit: str | None


class Wire(NamedTuple):
    """Exchanges of no operation: how many in the first second."""

    metadata: int
    connects: int
    throttle_ms: int
    out_of_range: bool


class History(NamedTuple):
    batches: list[Batch]
    reads: list[Read]
    wire: Wire
    slow_partition_ms: int | None

    def sends(self) -> Iterator[tuple[str, Send, list[tuple[int, Attempt]]]]:
        """Each send with its message id and its attempts: when (ms) and what."""
        number = 0
        for batch in self.batches:
            first = batch.sends[0].called_ms
            attempts = [(first + each.delay_ms + 10 * k, each) for k, each in enumerate(batch.attempts)]
            for send in batch.sends:
                yield f"m{number}", send, sorted(attempts, key=lambda pair: pair[0])
                number += 1


ATTEMPT = st.builds(
    Attempt,
    st.sampled_from([1, 2, 1500, 6000]),
    st.sampled_from([0, 6, 6]),
    st.booleans(),
    st.booleans(),
    st.integers(-1, 5),
)
SEND = st.builds(
    Send,
    st.sampled_from([0, 1, 2, 3, 4000, 9000, 9001]),
    st.sampled_from("ab"),
    st.sampled_from(["ok", "ok", "ok", "fail", "fail", "info", "pending"]),
    st.none() | st.integers(0, 6),
    st.sampled_from([3, 1500, 16_000]),
    st.sampled_from([0, 0, 1500, 20_000]),
    st.none() | st.sampled_from([1000, 2000]),
    st.sampled_from([None, "no metadata", "broken"]),
)
BATCH = st.builds(Batch, st.lists(SEND, min_size=1, max_size=2), st.lists(ATTEMPT, max_size=4))
# Messages beyond the sends are somebody else's.
READ = st.builds(
    Read, st.sampled_from("rs"), st.integers(0, 8), st.integers(0, 7), st.sampled_from([None, None, None, "ok", "fail"])
)
WIRE = st.builds(Wire, st.integers(0, 4), st.integers(0, 3), st.sampled_from([0, 0, 40]), st.booleans())
HISTORY = st.builds(
    History,
    st.lists(BATCH, max_size=4),
    st.lists(READ, max_size=9),
    WIRE,
    st.sampled_from([None] * 6 + [2, 30, 90, 300]),
)

Found = set[tuple[str, str, object]]
"""(check, verdict, message id, or what else tells the cases of one check apart)."""

JUDGES: dict[str, Callable[[History], Iterator[tuple[str, object]]]] = {}


def judge(of: Callable[[History], Iterator[tuple[str, object]]]) -> Callable[[History], Iterator[tuple[str, object]]]:
    """Register the plain-Python answer to the check of the function's name."""
    JUDGES[of.__name__] = of
    return of


def landed(history: History) -> dict[str, set[int]]:
    """message → the offsets at which anybody got it."""
    places: dict[str, set[int]] = {}
    for read in history.reads:
        if read.commit is None:
            places.setdefault(f"m{read.message}", set()).add(read.offset)
    return places


FIRST_READ_MS = 50
"""When the first read happens; each other 1 ms after the one before it."""


def begun_ms(history: History) -> list[int]:
    """When the topic began: the broker itself appended at offset 0, which it does once in the life of a topic."""
    first = {
        ended_ms(at, attempt)
        for at, attempt in batch_attempts(history)
        if attempt.code == 0 and attempt.base_offset == 0 and attempt.answered and not attempt.faulted
    }
    return sorted(first)


def life(history: History, at_ms: int) -> int:
    """Which of its topic's lives a client spoke of at that time; who is told at once may be told 1 ms later."""
    return max(sum(begun <= at_ms + 1 for begun in begun_ms(history)), 1)


def life_of_send(history: History, send: Send) -> int:
    return life(history, send.called_ms + (0 if send.outcome == "pending" else send.took_ms))


def places_read(history: History) -> Iterator[tuple[int, Read]]:
    """Every record that was read, with its topic's life then."""
    for at, read in enumerate(history.reads):
        if read.commit is None:
            yield life(history, FIRST_READ_MS + at), read


def offsets_of(history: History) -> dict[str, list[int]]:
    """reader → the offsets it got."""
    read: dict[str, list[int]] = {}
    for each in history.reads:
        if each.commit is None:
            read.setdefault(each.reader, []).append(each.offset)
    return read


def appended(attempts: list[tuple[int, Attempt]]) -> set[int]:
    return {a.base_offset for _, a in attempts if a.code == 0 and a.base_offset >= 0}


def faults(attempts: list[tuple[int, Attempt]]) -> list[tuple[int, Attempt]]:
    return [(at, a) for at, a in attempts if a.faulted]


def ended_ms(at: int, attempt: Attempt) -> int:
    return at + 1 if attempt.answered else at


@judge
def hang(history: History) -> Iterator[tuple[str, object]]:
    yield from (("invalid", message) for message, send, _ in history.sends() if send.outcome == "pending")


def was_passed(history: History, send: Send) -> bool:
    """Whether a reader had come to where the send was told to be, and went on behind it."""
    spans: dict[tuple[str, int], list[int]] = {}
    for of, read in places_read(history):
        spans.setdefault((read.reader, of), []).append(read.offset)
    there = [offsets for (_, of), offsets in spans.items() if of == life_of_send(history, send)]
    return send.offset is not None and any(min(o) <= send.offset < max(o) for o in there)


@judge
def lost(history: History) -> Iterator[tuple[str, object]]:
    seen = landed(history)
    for message, send, attempts in history.sends():
        if send.outcome == "ok" and message not in seen:
            passed = was_passed(history, send)
            # A rule answered each of its requests in the broker's place.
            kept = bool(attempts) and all(attempt.faulted and attempt.base_offset < 0 for _, attempt in attempts)
            yield "invalid" if passed or kept else "unknown", message


@judge
def duplicate(history: History) -> Iterator[tuple[str, object]]:
    """By what was read, or what the broker said; not where a reader went over all those places and got it once."""
    seen = landed(history)
    spans: dict[tuple[str, int], list[int]] = {}
    for of, read in places_read(history):
        spans.setdefault((read.reader, of), []).append(read.offset)
    for message, send, attempts in history.sends():
        there, said = seen.get(message, set()), appended(attempts)
        first = min(there, default=0)
        behind = first - max((offset for offset in said if offset <= first), default=first)
        over = [offsets for (_, of), offsets in spans.items() if of == life_of_send(history, send)]
        passed = there and all(any(min(o) <= at + behind <= max(o) for o in over) for at in said)
        if len(there) > 1 or (len(said) > 1 and not passed):
            yield "invalid", message


def clock_was_set(history: History) -> bool:
    """Whether a call was made after its request, or acknowledged before its answer, by a clock right for another."""
    told = [(s, attempts) for _, s, attempts in history.sends() if s.outcome == "ok" and attempts]
    least = [s.called_ms - min(at for at, _ in attempts) for s, attempts in told]
    good = [(s, [at + 1 for at, a in attempts if a.answered and a.code == 0]) for s, attempts in told]
    most = [s.called_ms + s.took_ms - min(answers) for s, answers in good if answers]
    return bool(least and most) and max(least) > min(most) + 1


def has_a_first_copy(attempts: list[tuple[int, Attempt]]) -> bool:
    """Whether an attempt before the last may have got to the log: no rule kept it, and nobody refused it."""
    return any(
        not (each.faulted and each.base_offset < 0) and not ((each.faulted or each.answered) and each.code)
        for _, each in attempts[:-1]
    )


@judge
def reordered(history: History) -> Iterator[tuple[str, object]]:
    """By where a record went first: what a consumer got before the offset that was told was there before.

    What readers passed over lies nowhere. Whether one that was on the wire and one that was not are of one producer,
    nobody knows. Nor, where calls and requests are of no one clock, which was called first, unless it was first on the
    wire, too. Nor where one lies that may have got there before it was sent again, and that nobody read.
    """
    wire = {m: [at for at, _ in attempts] for m, _, attempts in history.sends()}
    no_one_clock = clock_was_set(history)
    seen = landed(history)
    acked = [
        (m, s, min(s.offset, *seen.get(m, {s.offset})), bool(attempts))
        for m, s, attempts in history.sends()
        if s.outcome == "ok"
        and s.offset is not None
        and (m in seen or not (has_a_first_copy(attempts) or was_passed(history, s)))
    ]
    for message, send, place, captured in acked:
        earlier = [
            (before, first)
            for first, other, before, also in acked
            if captured == also
            and (other.thread, life_of_send(history, other)) == (send.thread, life_of_send(history, send))
            and other.called_ms + other.blocked_ms < send.called_ms
            and before > place
        ]
        if earlier:
            _, first = max(earlier)
            agrees = bool(wire[first] and wire[message]) and min(wire[first]) < min(wire[message])
            yield "unknown" if no_one_clock and not agrees else "invalid", message


@judge
def phantom(history: History) -> Iterator[tuple[str, object]]:
    seen = landed(history)
    for message, send, attempts in history.sends():
        if send.outcome == "fail" and (message in seen or appended(attempts)):
            yield "invalid", message


@judge
def stuck(history: History) -> Iterator[tuple[str, object]]:
    hits = [ended_ms(at, a) for _, _, attempts in history.sends() for at, a in faults(attempts)]
    after = [s for _, s, _ in history.sends() if hits and s.called_ms > max(hits) + STUCK_MS]
    since = [s for _, s, _ in history.sends() if hits and s.called_ms > max(hits)]
    if after and all(send.outcome != "ok" for send in since):
        yield "invalid", None


@judge
def inconsistent_offsets(history: History) -> Iterator[tuple[str, object]]:
    named: dict[tuple[int, int], set[str]] = {}
    for message, send, _ in history.sends():
        if send.outcome == "ok" and send.offset is not None:
            named.setdefault((life_of_send(history, send), send.offset), set()).add(message)
    for of, read in places_read(history):
        named.setdefault((of, read.offset), set()).add(f"m{read.message}")
    yield from (("invalid", min(messages)) for messages in named.values() if len(messages) > 1)


@judge
def skipped(history: History) -> Iterator[tuple[str, object]]:
    seen, sent = landed(history), {message for message, _, _ in history.sends()}
    for offsets in offsets_of(history).values():
        for message in sent:
            for offset in seen.get(message, ()):
                if min(offsets) < offset < max(offsets) and offset not in offsets:
                    yield "invalid", message


@judge
def commit_lost(history: History) -> Iterator[tuple[str, object]]:
    committed: dict[str, int] = {}
    for read in history.reads:
        if read.commit is None:
            if read.offset < committed.get(read.reader, -1):
                # Nobody saw what the group was told in between.
                yield "unknown", f"m{read.message}"
        elif read.commit == "ok":
            committed[read.reader] = read.offset


@judge
def read_again(history: History) -> Iterator[tuple[str, object]]:
    reached: dict[str, int] = {}
    for read in history.reads:
        if read.commit is None:
            if read.offset <= reached.get(read.reader, -1):
                yield "valid", f"m{read.message}"
            reached[read.reader] = max(reached.get(read.reader, -1), read.offset)


@judge
def blocked_call(history: History) -> Iterator[tuple[str, object]]:
    for message, send, _ in history.sends():
        synchronous = send.outcome == "ok" and send.blocked_ms >= send.took_ms
        if send.blocked_ms >= BLOCKED_MS and not synchronous:
            yield "invalid", message


@judge
def late(history: History) -> Iterator[tuple[str, object]]:
    for message, send, _ in history.sends():
        if send.outcome == "pending":
            continue
        if send.budget_ms is not None and send.took_ms > send.budget_ms:
            yield "invalid", message
        elif send.budget_ms is None and send.took_ms >= SLOW_MS and send.outcome == "ok":
            yield "valid", message


@judge
def failed(history: History) -> Iterator[tuple[str, object]]:
    yield from (("valid", message) for message, send, _ in history.sends() if send.outcome in ("fail", "info"))
    yield from (("valid", None) for read in history.reads if read.commit == "fail")


@judge
def retried(history: History) -> Iterator[tuple[str, object]]:
    for message, send, attempts in history.sends():
        if send.outcome == "ok" and len(attempts) > 1:
            yield "valid", message


def as_heard(send: Send, attempts: list[tuple[int, Attempt]]) -> list[tuple[int, Attempt]]:
    """The attempts with when each was over for the client, which waits for no answer once it has sent or told again."""
    heard = []
    for (at, attempt), again in zip(attempts, [*[at for at, _ in attempts[1:]], inf], strict=False):
        ended = ended_ms(at, attempt)
        unheard = ended > again or (again < inf and not attempt.code)
        gave_up = send.outcome in ("fail", "info") and ended > send.called_ms + send.took_ms
        heard.append((at if unheard or gave_up else ended, attempt))
    return heard


@judge
def recovery(history: History) -> Iterator[tuple[str, object]]:
    hits = [at for _, send, attempts in history.sends() for at, _ in faults(as_heard(send, attempts))]
    if hits:
        done = [
            (
                send.called_ms + send.took_ms,
                # What was under way when another was hit for the last time doesn't count.
                max(
                    [at for at, _ in attempts] + [at for at, a in faults(as_heard(send, attempts)) if a.code],
                    default=send.called_ms,
                ),
            )
            for _, send, attempts in history.sends()
            # What was never sent, or never answered, was not acknowledged, unless its client was told an offset.
            if send.outcome == "ok" and (send.offset is not None or any(a.answered or a.faulted for _, a in attempts))
        ]
        yield "valid" if any(min(told) >= max(hits) for told in done) else "unknown", None


@judge
def wrong_broker(history: History) -> Iterator[tuple[str, object]]:
    searches: list[list[tuple[int, int | None, bool]]] = [[]]
    for at, attempt in sorted(batch_attempts(history), key=lambda pair: pair[0]):
        if attempt.code == 6:
            searches[-1].append((at, ended_ms(at, attempt) if attempt.answered else None, attempt.faulted))
        elif attempt.answered:
            searches.append([])
    # Those that a rule had a part in, and those that are the broker's own.
    for by_rule in (True, False):
        mine = [s for s in searches if s and any(faulted for *_, faulted in s) == by_rule]
        if mine:
            heard = [([at for at, *_ in s], [told for _, told, _ in s if told is not None]) for s in mine]
            stubborn = any(told and max(asked) - min(told) > 5000 for asked, told in heard)
            yield "invalid" if stubborn else "valid", None


def batch_attempts(history: History) -> Iterator[tuple[int, Attempt]]:
    """Each request once, however many sends it carries."""
    for batch in history.batches:
        for k, attempt in enumerate(batch.attempts):
            yield batch.sends[0].called_ms + attempt.delay_ms + 10 * k, attempt


@judge
def retry_storm(history: History) -> Iterator[tuple[str, object]]:
    failed = sorted((each for each in batch_attempts(history) if each[1].code), key=lambda pair: pair[0])
    pauses: dict[int, list[int]] = {}
    seconds = Counter(at // 1000 for at, _ in failed)
    for (before, attempt), (at, _) in pairwise(failed):
        if attempt.answered:
            pauses.setdefault(at // 1000, []).append(max(at - ended_ms(before, attempt), 0))
    for second, times in seconds.items():
        if times >= STORM:
            pause = median_low(pauses.get(second, [0]))
            yield "invalid" if pause < 500 / STORM else "valid", None


@judge
def metadata_storm(history: History) -> Iterator[tuple[str, object]]:
    if history.wire.metadata >= STORM:
        yield "invalid", None


@judge
def reconnect_storm(history: History) -> Iterator[tuple[str, object]]:
    if history.wire.connects >= 2:
        yield "invalid", None


@judge
def throttled(history: History) -> Iterator[tuple[str, object]]:
    if history.wire.throttle_ms:
        yield "valid", None


@judge
def offset_reset(history: History) -> Iterator[tuple[str, object]]:
    if history.wire.out_of_range:
        yield "valid", None


@judge
def unfair_acks(history: History) -> Iterator[tuple[str, object]]:
    slow = history.slow_partition_ms
    if slow is not None and slow >= 4 * 2 and slow - 2 >= 40:
        yield ("valid" if slow >= 10 * 2 and slow - 2 >= 100 else "unknown"), None


def ended_by_no_rule(attempts: list[tuple[int, Attempt]]) -> bool:
    """Whether the last of them had an answer, or an error, that no rule had a hand in, or a rule's that was good."""
    _, last = max(attempts, key=lambda attempt: attempt[0])
    return last.code == 0 if last.faulted else last.answered or last.code != 0


@judge
def looks_like_java_callback_deadlock(history: History) -> Iterator[tuple[str, object]]:
    struck = [
        max(at for at, _ in attempts)
        for _, send, attempts in history.sends()
        if send.outcome != "ok" and faults(attempts) and not ended_by_no_rule(attempts)
    ]
    after = [(send, attempts) for _, send, attempts in history.sends() if struck and send.called_ms > max(struck)]
    dead = all(send.outcome != "ok" and not attempts for send, attempts in after)
    if len(after) >= 2 and dead and any(send.blocked_ms >= BLOCKED_MS for send, _ in after):
        yield "invalid", None


@judge
def looks_like_scala_refresh_stall(history: History) -> Iterator[tuple[str, object]]:
    quick = [(s, *attempts[0]) for _, s, attempts in history.sends() if s.outcome == "ok" and len(attempts) == 1]
    stalled = [
        send
        for send, at, attempt in quick
        if at - send.called_ms >= SLOW_MS and attempt.answered and send.blocked_ms >= at - send.called_ms
    ]
    if len(stalled) >= 2 and 2 * len(stalled) < len(quick):
        yield "invalid", None


def told(number: int, history: History) -> Story:
    """The history as a capture and outcome lines, in a run of its own."""
    name = f"h{number}"
    story = Story(run_id=name, client=name)
    for at_ms in (0, FIRST_READ_MS + 60_000):
        # No question is about these: the run goes on until whoever waits has waited.
        story.exchange(at_ms, "Fetch")
    ids = [message for message, _, _ in history.sends()]
    for batch in history.batches:
        named, ids = ids[: len(batch.sends)], ids[len(batch.sends) :]
        first = batch.sends[0].called_ms
        for k, attempt in enumerate(batch.attempts):
            outcome = "injected" if attempt.faulted else "answered" if attempt.answered else "no_response"
            story.produce(
                first + attempt.delay_ms + 10 * k, message_ids=named, error_code=attempt.code, outcome=outcome,
                base_offset=attempt.base_offset, took_ms=1 if attempt.answered else None,
                fault=("lose", "error") if attempt.faulted else None,
            )  # fmt: skip
    for message, send, _ in history.sends():
        story.send(
            send.called_ms, message, thread=send.thread, outcome=send.outcome, offset=send.offset,
            took_ms=None if send.outcome == "pending" else send.took_ms, blocked_ms=send.blocked_ms,
            budget_ms=send.budget_ms, error=send.error,
        )  # fmt: skip
    for at, read in enumerate(history.reads):
        reader = f"{name}-{read.reader}"
        if read.commit is None:
            story.poll(FIRST_READ_MS + at, f"m{read.message}", read.offset, client=reader)
        else:
            story.poll(FIRST_READ_MS + at, None, read.offset, client=reader, operation="commit", outcome=read.commit)
    for each in range(history.wire.metadata):
        story.exchange(each, "Metadata")
    for each in range(history.wire.connects):
        row = story.exchange(each, "", event="connect", connection_id=1000 + each, client_addr=f"{name}:{each}")
        row["api_name"] = row["api_key"] = None
    if history.wire.throttle_ms:
        story.exchange(1, "ApiVersions", throttle_time_ms=history.wire.throttle_ms)
    if history.wire.out_of_range:
        story.exchange(1, "Fetch", partitions=[{"topic": "orders", "partition_index": 0, "error_code": 1}])
    if history.slow_partition_ms is not None:
        for partition, took in ((1, 2), (2, history.slow_partition_ms)):
            for each in range(20):
                story.send(0, f"u{partition}-{each}", partition=partition, took_ms=took, thread=f"u{partition}-{each}")
    return story


def test_every_check_has_an_oracle() -> None:
    assert set(JUDGES) | ELSEWHERE == {check.name for check in all_checks()}


# What is peculiar to one client is judged with that client, and with strangers to it; here nobody waits to read,
# nor joins a group.
ELSEWHERE = {
    "starved",
    "read_by_another",
    "looks_like_sarama_hang",
    "looks_like_sarama_two_minutes",
    "looks_like_java_send_blocks",
}

# Cases of these are about more than one message, or none.
WITHOUT_MESSAGE = {
    "stuck", "recovery", "wrong_broker", "retry_storm", "metadata_storm", "reconnect_storm", "throttled",
    "offset_reset", "unfair_acks", "looks_like_java_callback_deadlock",
    "looks_like_scala_refresh_stall",
}  # fmt: skip


class Together:
    """Histories that share one analysis. An assertion prints the one that differs; all of them nobody reads."""

    def __init__(self, histories: list[History]) -> None:
        self.histories = histories

    def __repr__(self) -> str:
        return f"{len(self.histories)} histories"


@st.composite
def many(draw: st.DrawFn) -> Together:
    return Together(draw(st.lists(HISTORY, min_size=60, max_size=60)))


def test_what_fails_is_told_with_its_history_alone() -> None:
    @settings(max_examples=50, database=None, phases=[Phase.generate], deadline=None, print_blob=False)
    @given(many())
    def failing(made: Together) -> None:
        # Hypothesis warns when it is to print more than that, and would say nothing but this.
        assert len(repr(made.histories)) < 40_000, pformat(made.histories[0])

    with pytest.raises(AssertionError, match="History") as raised:
        failing()
    assert len("".join(raised.value.__notes__)) < 1000


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(many())
def test_verdicts_are_those_of_the_oracle(build: Callable[[Story, Options], Tables], made: Together) -> None:
    histories = made.histories
    together = Story()
    for number, history in enumerate(histories):
        together.add(told(number, history))
    options = Options(by_run=True, storm_per_s=STORM)
    tables = build(together, options)
    asked = {check.name for check in suspected(tables, options, all_checks())}
    found: dict[str, Found] = {f"h{number}": set() for number in range(len(histories))}
    for row in cases(tables, options, all_checks()).select("client", "check", "verdict", "message_id").collect():
        assert row.check in asked, "a check with cases is to have suspects"
        # The twenty sends of an uneven partition are there for one question only.
        if not (row.message_id or "").startswith("u") and row.check not in ELSEWHERE:
            what = None if row.check in WITHOUT_MESSAGE else row.message_id
            found[row.client.partition("-")[0]].add((row.check, row.verdict, what))
    # Where nobody read at all, in no history, that is the answer, and it has no cases.
    silent = {("lost", "unknown")} if not any(map(offsets_of, histories)) else set()
    for number, history in enumerate(histories):
        judged = ((name, verdict, what) for name, of in JUDGES.items() for verdict, what in of(history))
        wanted = {case for case in judged if case[:2] not in silent}
        assert found[f"h{number}"] == wanted, history


assert START_US % (1000 * MS) == 0, "the oracle counts seconds from the start"
