"""What is true of a run, by the broker's log, by what the clients said, and by a plain count of the capture's rows.

docs/verdicts.md says what each question means; this says it a second time, in Python that knows no Spark, one run at
a time and in memory. A truth is keyed by the check and the client (or group) that it is about.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

import pyarrow.dataset as ds

from tests.truth.kept import Run
from tests.truth.scenario import Consumer, Producer

Truth = Counter[tuple[str, str | None]]
Line = dict[str, Any]
Row = dict[str, Any]

SETTLED = frozenset(
    (
        "hang", "failed", "late", "blocked_call", "duplicate", "lost", "phantom", "reordered", "retried", "throttled",
        "offset_reset", "wrong_broker", "metadata_storm", "retry_storm", "reconnect_storm", "skipped", "commit_lost",
        "read_again", "read_by_another", "inconsistent_offsets", "unfair_acks", "stuck", "recovery",
    )
)  # fmt: skip
"""The checks of which this says whether they have something to tell; of a signature only a scenario can."""

MAYBE = "?"
"""Behind a check's name: near a bound of its own, where the machine decides; either answer will do."""

_SLOW_US = 1_000_000
_NOT_LEADER, _OUT_OF_RANGE = 6, 1


def lines(run: Run) -> list[Line]:
    """The last word on each operation."""
    last: dict[tuple[Any, ...], Line] = {}
    for file in sorted(run.outcomes.glob("*.jsonl")):
        for text in file.read_text().splitlines():
            line = json.loads(text)
            line["client"] = run.own(line["client"])
            line["group_id"] = run.own(line.get("group_id"))
            key = [line["client"], line.get("message_id"), line.get("topic"), line["operation"]]
            key += [line.get("called_at_us")]
            if line["operation"] != "send":
                key += [line.get("partition"), line.get("offset")]
            if line["operation"] == "poll":
                key += [line.get("completed_at_us")]
            last[tuple(key)] = line
    return list(last.values())


def rows(run: Run) -> list[Row]:
    """The capture's rows in time order; one that two segments hold counts once."""
    found = ds.dataset(run.capture, format="parquet").to_table().to_pylist()
    for row in found:
        row["client_id"] = run.own(row["client_id"])
    # What happens beside the exchanges has no number: a listener falls silent, and later is open again.
    facts = ("proxy_id", "connection_id", "exchange_seq", "event", "request_at_us", "detail")
    unique = {tuple(row[name] for name in facts): row for row in found}
    return sorted(unique.values(), key=lambda row: row["request_at_us"] or 0)


def truth(run: Run, *, with_log: bool = True) -> Truth:
    """How many cases there are of each check's kind, by client; or how many can be known by whom nobody reads the log.

    Without it a place is where a reader got the message, else where an answer to a Fetch has it, and what nobody got
    is where the broker said that it appended it.
    """
    told, seen = lines(run), rows(run)
    if with_log:
        first = _first_in_log(run)
        parts = (
            _said(run, told, seen), _in_the_log(run, told), _order(_in(first, told), first), _fairness(told),
            _readers(run, told, _there(run)), _wire(run, told, seen), _afterwards(run, told, seen),
        )  # fmt: skip
    else:
        places = _places(told, seen)
        parts = (
            _said(run, told, seen), _by_readers(run, told, seen, places), _order(told, _first_read(told)),
            _fairness(told), _readers(run, told, _seen(run, told, places)), _wire(run, told, seen),
            _afterwards(run, told, seen),
        )  # fmt: skip
    found: Truth = Counter()
    for part in parts:
        for check, client in part:
            found[check, client] += 1
    return found


Cases = Iterator[tuple[str, str | None]]


def _placed(line: Line) -> bool:
    offset = line.get("offset")
    return offset is not None and offset >= 0


def _latency(line: Line) -> int | None:
    if line.get("called_at_us") is None or line.get("completed_at_us") is None:
        return None
    return int(line["completed_at_us"] - line["called_at_us"])


def _is_late(line: Line, took_us: int) -> bool:
    """Over its own budget where it has one, else slow."""
    if line.get("budget_ms") is not None:
        return bool(took_us > line["budget_ms"] * 1000)
    return bool(line["outcome"] == "ok" and took_us >= _SLOW_US)


def _gone(run: Run, seen: list[Row]) -> dict[str, int]:
    """When the last connection of a client ended, by client; not of one that has a connection to the end."""
    of: dict[int, str] = {}
    ends: dict[int, int] = {}
    for row in seen:
        if row["client_id"] is not None:
            of[row["connection_id"]] = row["client_id"]
        if row["event"] == "disconnect":
            ends[row["connection_id"]] = row["request_at_us"]
    gone: dict[str, int] = {}
    for client in run.scenario.clients:
        own = [ends.get(connection) for connection, name in of.items() if name == (client.client_id or client.name)]
        if own and None not in own:
            gone[client.name] = max(end for end in own if end is not None) + client.clock_us
    return gone


def _said(run: Run, told: list[Line], seen: list[Row]) -> Cases:
    gone = _gone(run, seen)
    for line in told:
        client = line["client"]
        # Of a client that was gone a moment after the call nobody can say that it was left waiting.
        called = line.get("called_at_us") or 0
        at_once = 0 < gone.get(client, 0) - called < _SLOW_US
        if line["outcome"] == "pending" and not at_once:
            yield "hang", client
        if line["outcome"] in ("fail", "info"):
            yield "failed", client
        took = _latency(line)
        if line["operation"] == "send" and took is not None and _is_late(line, took):
            yield "late", client
        returned = line.get("returned_at_us")
        blocked = line["operation"] != "poll" and returned and returned - line["called_at_us"] >= _SLOW_US
        if blocked and not (line["outcome"] == "ok" and returned >= line["completed_at_us"]):
            yield "blocked_call", client


def _in_the_log(run: Run, told: list[Line]) -> Cases:
    places: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
    newest = {(record.topic, record.partition, record.key): record.offset for record in run.log}
    for record in run.log:
        places[record.message_id].add((record.topic, record.partition, record.offset))
    compacted = run.scenario.topic_configs.get("cleanup.policy") == "compact"
    aborted = {client.name for client in run.scenario.clients if isinstance(client, Producer) and client.transaction}
    recreated = any(phase.recreate for phase in run.scenario.phases)
    last_send = {line["message_id"]: line for line in told if line["operation"] == "send"}
    said_ok = {line["message_id"] for line in told if line["operation"] == "send" and line["outcome"] == "ok"}
    for message_id, line in last_send.items():
        client, copies = line["client"], len(places.get(message_id, ()))
        if copies > 1:
            yield "duplicate", client
        if message_id in said_ok and not copies and not recreated and client not in aborted:
            key = newest.get((line["topic"], line["partition"], message_id.encode())) if compacted else None
            if not compacted or key is not None:
                yield "lost", client
    for line in told:
        copies = len(places.get(line["message_id"], ())) if line["operation"] == "send" else 0
        # Sent again by the application and acknowledged then: one copy is that one's.
        if line["outcome"] == "fail" and copies > (line.get("message_id") in said_ok):
            yield "phantom", line["client"]


Place = tuple[str, int, int]
"""Topic, partition, offset."""


def _places(told: list[Line], seen: list[Row]) -> dict[str, set[Place]]:
    """Where each message is: as readers say; of what none of them got, as the answers to Fetches have it."""
    said: dict[str, set[Place]] = defaultdict(set)
    # A record without a name is the message that was told its place.
    names = {
        (line["topic"], line["partition"], line["offset"]): line["message_id"]
        for line in told
        if line["operation"] == "send" and line["outcome"] == "ok" and _placed(line)
    }
    for line in told:
        if line["operation"] == "poll" and line["outcome"] == "ok" and _placed(line):
            place = (line["topic"], line["partition"], line["offset"])
            if message_id := line.get("message_id") or names.get(place):
                said[message_id].add(place)
    fetched: dict[str, set[Place]] = defaultdict(set)
    for row in seen:
        if row["event"] == "exchange" and row["api_name"] == "Fetch" and row["outcome"] == "answered":
            for part in row["partitions"] or ():
                if not part["error_code"] and (part["base_offset"] or 0) >= 0:
                    for n, message_id in enumerate(part["message_ids"] or ()):
                        if message_id:
                            fetched[message_id].add((part["topic"], part["partition_index"], part["base_offset"] + n))
    return fetched | said


def _spans(got: Iterable[Line]) -> list[tuple[tuple[str, int, str], tuple[int, int]]]:
    """From where to where each reader of these lines read: topic, partition, client; the first and the last offset."""
    spans: dict[tuple[str, int, str], tuple[int, int]] = {}
    for line in got:
        where = (line["topic"], line["partition"], line["client"])
        low, high = spans.get(where, (line["offset"], line["offset"]))
        spans[where] = (min(low, line["offset"]), max(high, line["offset"]))
    return list(spans.items())


def _by_readers(run: Run, told: list[Line], seen: list[Row], places: dict[str, set[Place]]) -> Cases:
    """As `_in_the_log`, of a log that nobody read."""
    appended: dict[str, set[Place]] = defaultdict(set)
    carried: dict[str, list[bool]] = defaultdict(list)
    for row in seen:
        if row["event"] != "exchange" or row["api_name"] != "Produce":
            continue
        did = {effect["did"] for effect in row["effects"] or ()}
        early = "cut" in did and row["fault_phase"] == "before_broker"
        for part in row["partitions"] or ():
            offset = part["base_offset"] if part["base_offset"] is not None else -1
            kept_away = offset < 0 and bool(did & {"answered", "swallowed_request"} or early)
            for n, message_id in enumerate(part["message_ids"] or ()):
                carried[message_id].append(kept_away)
                if offset >= 0 and part["error_code"] == 0:
                    appended[message_id].add((part["topic"], part["partition_index"], offset + n))
    in_transactions = {c.name for c in run.scenario.clients if isinstance(c, Producer) and c.transaction}
    got = [line for line in told if line["operation"] == "poll" and line["outcome"] == "ok" and _placed(line)]
    spans, named = _spans(got), _spans(line for line in got if line.get("message_id"))
    read = any(line["operation"] == "poll" for line in told)
    last_send = {line["message_id"]: line for line in told if line["operation"] == "send"}
    for message_id, line in last_send.items():
        there = places.get(message_id, set())
        said = appended.get(message_id, set())
        # A reader was there, and got another message.
        elsewhere = there and all(
            any(
                (topic, partition) == place[:2] and low <= place[2] <= high
                for (topic, partition, _), (low, high) in named
            )
            for place in said
        )
        if len(there) > 1 or (len(said) > 1 and not elsewhere):
            yield "duplicate", line["client"]
    for line in told:
        if line["operation"] != "send":
            continue
        message_id, client = line["message_id"], line["client"]
        if line["outcome"] == "fail" and (places.get(message_id) or appended.get(message_id)):
            yield "phantom", client
        if line["outcome"] == "ok" and not places.get(message_id):
            passed = _placed(line) and any(
                (topic, partition) == (line["topic"], line["partition"]) and low <= line["offset"] < high
                for (topic, partition, _), (low, high) in spans
            )
            of_wire = carried.get(message_id, ())
            if (read and passed and client not in in_transactions) or (of_wire and all(of_wire)):
                yield "lost", client


def _first_in_log(run: Run) -> dict[tuple[str, str], int]:
    """The first copy's offset, by topic and message."""
    return {(record.topic, record.message_id): record.offset for record in reversed(run.log)}


def _in(first_copy: dict[tuple[str, str], int], told: list[Line]) -> list[Line]:
    """What the log has: nothing else has a place in it."""
    return [line for line in told if (line.get("topic"), line.get("message_id")) in first_copy]


def _first_read(told: list[Line]) -> dict[tuple[str, str], int]:
    """Of what a reader got at a smaller offset in the partition than the client was told, that offset."""
    said = {
        (line["topic"], line["message_id"]): line
        for line in told
        if line["operation"] == "send" and line["outcome"] == "ok" and _placed(line)
    }
    first: dict[tuple[str, str], int] = {}
    for line in told:
        if line["operation"] == "poll" and line["outcome"] == "ok" and _placed(line):
            key = (line["topic"], line.get("message_id") or "")
            sent = said.get(key)
            if sent and sent["partition"] == line["partition"] and line["offset"] < sent["offset"]:
                first[key] = min(line["offset"], first.get(key, line["offset"]))
    return first


def _there(run: Run) -> dict[tuple[str, int], set[int]]:
    """The offsets of each partition at which there is a record."""
    there: dict[tuple[str, int], set[int]] = defaultdict(set)
    for record in run.log:
        there[record.topic, record.partition].add(record.offset)
    return there


def _seen(run: Run, told: list[Line], places: dict[str, set[Place]]) -> dict[tuple[str, int], set[int]]:
    """The same by what was seen of the told sends that were in no transaction."""
    in_transactions = {c.name for c in run.scenario.clients if isinstance(c, Producer) and c.transaction}
    there: dict[tuple[str, int], set[int]] = defaultdict(set)
    for line in told:
        if line["operation"] == "send" and line["client"] not in in_transactions:
            for topic, partition, offset in places.get(line["message_id"], ()):
                there[topic, partition].add(offset)
    return there


def _order(told: list[Line], first_copy: dict[tuple[str, str], int]) -> Cases:
    queues: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in told:
        if line["operation"] == "send" and line["outcome"] == "ok" and _placed(line):
            queues[line["client"], line.get("thread"), line["topic"], line["partition"]].append(line)
    calls = Counter(line["message_id"] for line in told if line["operation"] == "send")
    for (client, *_), sends in queues.items():
        sends.sort(key=lambda line: line["called_at_us"])
        # Only a call that had returned comes before another one.
        returned = sorted(
            (max(line["called_at_us"], line.get("returned_at_us") or 0), id(line), line) for line in sends
        )
        offsets: dict[int, int] = {}
        highest, over = -1, 0
        for line in sends:
            while over < len(returned) and returned[over][0] < line["called_at_us"]:
                highest = max(highest, offsets[returned[over][1]])
                over += 1
            # What the application sent again lies where that call was told; what a client did, where it came first.
            again = calls[line["message_id"]] > 1
            offset: int = line["offset"]
            if not again:
                offset = first_copy.get((line["topic"], line["message_id"]), offset)
            offsets[id(line)] = offset
            if offset < highest:
                yield "reordered", client


def _fairness(told: list[Line]) -> Cases:
    medians: dict[str, list[float]] = defaultdict(list)
    by_place: dict[tuple[str, Any, Any], list[int]] = defaultdict(list)
    for line in told:
        took = _latency(line)
        if line["operation"] == "send" and line["outcome"] == "ok" and took is not None:
            by_place[line["client"], line["topic"], line["partition"]].append(took)
    for (client, *_), times in by_place.items():
        if len(times) >= 20:
            medians[client].append(median(times))
    for client, known in medians.items():
        for value in known:
            slower = value - min(known)
            if value >= 14 * min(known) and slower >= 140_000:
                yield "unfair_acks", client
            elif value >= 3 * min(known) and slower >= 30_000:
                yield "unfair_acks" + MAYBE, client


def _readers(run: Run, told: list[Line], there: dict[tuple[str, int], set[int]]) -> Cases:
    wandering = {
        client.name
        for client in run.scenario.clients
        if isinstance(client, Consumer) and (client.rewind_after or client.skip_to_end_after)
    }
    by_offset: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    recreated = any(phase.recreate for phase in run.scenario.phases)
    events: dict[str, list[Line]] = defaultdict(list)
    reached: dict[tuple[str, str, int], int] = {}
    again: Counter[tuple[str, str]] = Counter()
    for line in sorted(told, key=lambda line: line.get("completed_at_us") or 0):
        group = line.get("group_id")
        if line["operation"] == "poll" and line["outcome"] == "ok":
            place = (line["client"], line["topic"], line["partition"])
            # Whoever has a group reads what its members, one after the other, had not.
            of_group = (f"the group {group}", line["topic"], line["partition"])
            if line["offset"] <= reached.get(place, -1):
                again["read_again", line["client"]] += 1
            elif group and line["offset"] <= reached.get(of_group, -1):
                again["read_by_another", line["client"]] += 1
            for each in (place, of_group):
                reached[each] = max(line["offset"], reached.get(each, -1))
        if line["operation"] in ("poll", "commit") and line["outcome"] == "ok" and group:
            events[group].append(line)
        named = line["operation"] in ("poll", "send") and line.get("message_id") is not None
        if named and line["outcome"] == "ok" and _placed(line):
            by_offset[line["topic"], line["partition"], line["offset"]].add(line["message_id"])
    yield from again.elements()
    for ids in by_offset.values():
        if len(ids) > 1 and not recreated:
            yield "inconsistent_offsets", None
    for group, acts in events.items():
        if wandering & {line["client"] for line in acts}:
            continue
        committed: dict[tuple[str, int], tuple[int, int]] = {}
        read: dict[tuple[str, int], set[int]] = defaultdict(set)
        for line in acts:
            where = (line["topic"], line["partition"])
            if line["operation"] == "commit":
                if line["offset"] >= 0:
                    committed[where] = (line["offset"], line["completed_at_us"])
            else:
                read[where].add(line["offset"])
                mark, at = committed.get(where, (-1, 0))
                if line["offset"] < mark and line["completed_at_us"] > at:
                    yield "commit_lost", group
        for where, offsets in read.items():
            for _ in {o for o in there.get(where, ()) if min(offsets) < o < max(offsets)} - offsets:
                yield "skipped", group


def _codes(row: Row) -> set[int]:
    codes = {part["error_code"] for part in row["partitions"] or () if part["error_code"]}
    return codes | ({row["error_code"]} if row["error_code"] else set())


def _wire(run: Run, told: list[Line], seen: list[Row]) -> Cases:
    attempts: dict[str, set[tuple[int, Any, Any]]] = defaultdict(set)
    clocks = {client.name: client.clock_us for client in run.scenario.clients}
    asked: Counter[tuple[Any, ...]] = Counter()
    refused: Counter[tuple[Any, ...]] = Counter()
    lives: dict[Any, list[Row]] = defaultdict(list)
    storm = run.scenario.options.get("storm_per_s", 100)
    for row in seen:
        lives[row["connection_id"]].append(row)
        client, second = row["client_id"], (row["request_at_us"] or 0) // 1_000_000
        if row["event"] != "exchange":
            continue
        codes = _codes(row)
        if row["api_name"] == "Produce":
            for part in row["partitions"] or ():
                for message_id in part["message_ids"] or ():
                    attempts[message_id].add((row["request_at_us"], row["connection_id"], row["exchange_seq"]))
        if row["throttle_time_ms"]:
            yield "throttled", client
        if row["api_name"] == "Fetch" and _OUT_OF_RANGE in codes:
            yield "offset_reset", client
        if row["api_name"] in ("Produce", "Fetch") and _NOT_LEADER in codes:
            yield "wrong_broker", client
        if row["api_name"] in ("Metadata", "FindCoordinator"):
            asked[client, row["connection_id"], second] += 1
        elif codes:
            refused[client, row["connection_id"], second] += 1
    for line in told:
        if line["operation"] == "send" and run.scenario.level != "record":
            # Which request carried it only message ids show.
            yield "retried" + MAYBE, line["client"]
        if line["operation"] == "send" and line["outcome"] == "ok":
            called = line["called_at_us"] - clocks[line["client"]]
            if sum(at >= called for at, *_ in attempts.get(line["message_id"], ())) > 1:
                yield "retried", line["client"]
    for check, counted in (("metadata_storm", asked), ("retry_storm", refused)):
        for (client, *_), times in counted.items():
            if times >= storm:
                yield check, client
    in_vain: Counter[int] = Counter()
    for life in lives.values():
        answers = [row for row in life if row["event"] == "exchange" and row["response_at_us"]]
        ends = [row["request_at_us"] for row in life if row["event"] == "disconnect"]
        start = life[0]["request_at_us"]
        short = life[0]["event"] == "connect" and ends and max(ends) - start < 1_000_000
        if short and all(row["api_name"] == "ApiVersions" for row in answers):
            in_vain[start // 1_000_000] += 1
    for times in in_vain.values():
        if times >= storm // 5:
            yield "reconnect_storm", None


def _stands(run: Run) -> bool:
    """Whether a rule was in force at the end that would have struck again."""
    removed = {name for phase in run.scenario.phases for name in phase.remove}
    return any(
        rule["name"] in run.rules
        and rule["name"] not in removed
        and ("trigger" not in rule or rule["trigger"].get("times") == "forever")
        for rule in run.scenario.rules
    )


def _afterwards(run: Run, told: list[Line], seen: list[Row]) -> Cases:
    """What became of a client once the last hit on it was over, and of its sends to a place after each rule's."""
    hits: dict[str | None, int] = {}
    produced: dict[tuple[str | None, str, int, str], tuple[int, int]] = {}
    cuts: dict[int, set[str]] = defaultdict(set)
    for row in seen:
        cuts[row["connection_id"]] |= {effect["rule"] for effect in row["effects"] or () if effect["did"] == "cut"}
    for row in seen:
        at = max(row["request_at_us"], row["response_at_us"] or 0)
        # What cuts a connection hits the requests that wait there.
        waiting = cuts[row["connection_id"]] if row["event"] == "exchange" and not row["response_at_us"] else set()
        struck = {*(row["fault_names"] or ()), *(effect["rule"] for effect in row["effects"] or ())}
        if struck:
            hits[row["client_id"]] = max(at, hits.get(row["client_id"], 0))
        for rule in struck | waiting:
            for part in (row["partitions"] or ()) if row["api_name"] == "Produce" else ():
                produced[row["client_id"], part["topic"], part["partition_index"], rule] = (row["request_at_us"], at)
    for client in run.scenario.clients:
        wire_id = client.client_id or client.name
        sends = [line for line in told if line["client"] == client.name and line["operation"] == "send"]
        last = max(hits.get(wire_id, 0), hits.get(None, 0))
        if last and not _stands(run):
            since = [line for line in sends if line["called_at_us"] > last]
            after = [line for line in since if line["called_at_us"] > last + 1_000_000]
            if after and all(line["outcome"] != "ok" for line in since):
                yield "stuck", client.name
        acknowledged: dict[tuple[str, int], int] = {}
        for line in sends:
            if line["outcome"] == "ok":
                where = (line["topic"], line["partition"])
                at = line["completed_at_us"] - client.clock_us
                acknowledged[where] = max(at, acknowledged.get(where, 0))
        told_so = isinstance(client, Producer) and client.acks != "0"
        for (name, topic, partition, _), (asked, answered) in produced.items():
            last_ok = acknowledged.get((topic, partition), 0)
            if told_so and name == wire_id and last_ok > asked:
                # The acknowledgement of what was hit last may itself be the next one.
                sure = last_ok > answered and run.scenario.level == "record"
                yield "recovery" if sure else "recovery" + MAYBE, client.name
