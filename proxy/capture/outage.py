"""From a recorded outage to faults that do the same to clients of one healthy broker. Pure.

What the clients saw is what is reproduced: error codes by API, topic and partition, answers that took too long,
requests that were never answered, connections that broke, partitions that nobody served for a while. Which broker did
it is left out, for in the replay one broker leads everything. All times count from the first exchange, here and in
the replay: a rule that does nothing (``recorded-start``) is hit by the client's first request, and that adds the
others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple

import yaml

from notleader.proxy.wire.names import ApiKey, ErrorCode, error_name

RowLike = Mapping[str, Any]
Fault = dict[str, Any]

START: Final = "recorded-start"
_SAME_WINDOW_US: Final = 2_000_000  # errors closer than this belong to one rule
_SLACK_MS: Final = 1000  # how much later than recorded a client may come and still be hit
_SHORTEST_ELECTION_US: Final = 200_000
# What brokers say in the course of normal work, or because of what the members of a group do.
_NO_FAULTS: Final = {
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.REPLICA_NOT_AVAILABLE,
}
# Answers that the broker holds back by design: slow says nothing there.
_WAITING_APIS: Final = {api.name for api in (ApiKey.Fetch, ApiKey.JoinGroup, ApiKey.SyncGroup, ApiKey.ShareFetch)}
_SERVING: Final = {ApiKey.Produce, ApiKey.Fetch}
# What a leader says that has appended the batch: the client may send it again, and it is there twice.
_APPENDED: Final = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
_LEADERSHIP: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH}


class _Subject(NamedTuple):
    """What an exchange was about, as far as a match can say it."""

    api: str
    topic: str | None
    partition_index: int | None
    group_id: str | None


class _Served(NamedTuple):
    """When and by whom a partition was last served."""

    at_us: int
    node_id: int | None


class _Waiting(NamedTuple):
    """A request that was not answered."""

    at_us: int
    what: _Subject
    client_id: str | None
    reached_broker: bool
    is_dropped: bool  # by a rule, which needs no long wait to be seen


class Outage:
    """Rows in, timeline out; answers slower than ``slow_ms`` count as delayed."""

    def __init__(self, slow_ms: float = 500.0) -> None:
        self._slow_us = slow_ms * 1000
        self._first_us: int | None = None
        self._first_api: str | None = None
        self._errors: defaultdict[tuple[_Subject, int], list[int]] = defaultdict(list)
        self._slow: defaultdict[tuple[_Subject, int], list[tuple[int, int]]] = defaultdict(list)  # by error, too
        self._latencies_us: defaultdict[str, list[int]] = defaultdict(list)
        self._unanswered: defaultdict[tuple[Any, ...], list[_Waiting]] = defaultdict(list)
        self._silent: list[_Waiting] = []
        self._broken: list[tuple[int, str | None, bool, str | None]] = []  # at, client_id, by RST, API that waited
        self._unreachable: defaultdict[int | None, list[int]] = defaultdict(list)
        self._lost: defaultdict[int | None, list[int]] = defaultdict(list)  # connections that a broker ended
        self._served: dict[tuple[str, int], _Served] = {}
        self._gaps: list[tuple[str, int, _Served, int]] = []
        self._answers: list[int] = []
        self._nodes: set[int | None] = set()  # that ever answered

    # ---- what was recorded ----------------------------------------------------------------------

    def add_all(self, rows: Iterable[RowLike]) -> None:
        """Take the rows of one capture, in any order."""
        for row in sorted(map(_lighter, rows), key=lambda row: row["response_at_us"] or row["request_at_us"] or 0):
            if row["event"] == "exchange":
                self._exchange(row)
            elif row["event"] == "disconnect":
                self._disconnect(row)

    def _exchange(self, row: RowLike) -> None:
        at_us = row["request_at_us"]
        if self._first_us is None or at_us < self._first_us:
            self._first_us, self._first_api = at_us, row["api_name"]
        if row["response_at_us"] is None:
            if not (row["api_key"] == ApiKey.Produce and row["acks"] == 0):
                self._waits(row)
            return
        self._answers.append(row["response_at_us"])
        self._nodes.add(row["node_id"])
        told = list(_what(row))
        refused = [(what, code) for what, code in told if code and code not in _NO_FAULTS]
        for what, code in refused:
            self._errors[what, code].append(at_us)
        for what, told_code in told:
            if told_code == 0 and row["api_key"] in _SERVING and what.topic is not None:
                self._serves(what, row)
        if row["api_name"] not in _WAITING_APIS:
            latency_us = row["response_at_us"] - at_us
            self._latencies_us[row["api_name"]].append(latency_us)
            if latency_us >= self._slow_us:
                codes = {code for _, code in refused}
                one = codes.pop() if len(codes) == 1 else 0
                about = _common([what for what, _ in (refused if one else told)])
                self._slow[about, one].append((at_us, latency_us))

    def _waits(self, row: RowLike) -> None:
        named = [one for one in row["partitions"] or () if one["topic"] is not None]
        about = [_Subject(row["api_name"], one["topic"], one["partition_index"], None) for one in named]
        what = _common(about) if about else _Subject(row["api_name"], None, None, row["group_id"])
        is_dropped = row["outcome"] == "dropped"
        waiting = _Waiting(row["request_at_us"], what, row["client_id"], row["forwarded_at_us"] is not None, is_dropped)
        self._unanswered[_connection(row)].append(waiting)
        if is_dropped:
            self._silent.append(waiting)

    def _serves(self, what: _Subject, row: RowLike) -> None:
        assert what.topic is not None
        assert what.partition_index is not None
        key = (what.topic, what.partition_index)
        before = self._served.get(key)
        now = _Served(row["response_at_us"], row["node_id"])
        if before is not None and now.at_us - before.at_us >= _SHORTEST_ELECTION_US:
            self._gaps.append((*key, before, now.at_us))
        self._served[key] = now

    def _disconnect(self, row: RowLike) -> None:
        waited = self._unanswered.pop(_connection(row), [])
        why = row["detail"] or ""
        if why.startswith("no broker could be reached"):
            self._unreachable[row["node_id"]].append(row["request_at_us"])
        elif why.startswith(("the broker", "closed by fault", "reset by fault")):
            self._lost[row["node_id"]].append(row["request_at_us"])
            api = Counter(one.what.api for one in waited).most_common(1)[0][0] if waited else None
            self._broken.append((row["request_at_us"], row["client_id"], "reset" in why, api))
        elif why.startswith("the client") and waited and not any(one.is_dropped for one in waited):
            # Kafka answers in order: what came behind the first one waited for that.
            first = waited[0]
            gave_up_us = row["request_at_us"] - first.at_us
            if gave_up_us >= self._slow_us and first.what.api not in _WAITING_APIS:
                self._silent.append(first)

    # ---- what is to be done again ---------------------------------------------------------------

    def steps(self) -> list[Fault]:
        """The faults in the order of their time, each counted from the first exchange by its trigger."""
        if self._first_us is None:
            return []
        elections = self._elections()
        found = [
            *elections,
            *self._downtimes(),
            # A refusal that came late is held by the rule before it, for no rule comes behind one that refuses.
            *self._delays(refused=True),
            *self._error_rules(elections),
            *self._delays(refused=False),
            *self._silences(),
            *self._breaks(),
        ]
        found.sort(key=lambda fault: fault["trigger"]["after_ms"])
        for number, fault in enumerate(found, 1):
            fault["name"] = f"recorded-{number:03d}-{fault['kind'].replace('_', '-')}"
        return [{"name": fault.pop("name"), **fault} for fault in found]

    def summary(self) -> dict[str, int]:
        """How many rules of each kind."""
        return dict(Counter(fault["kind"] for fault in self.steps()))

    def to_yaml(self, source: str) -> str:
        """A config file of `notleader run` with these steps."""
        start: Fault = {"name": START, "kind": "delay", "delay_ms": 0}
        if self._first_api is not None:
            start["match"] = {"api_key": self._first_api}
        document = {
            "faults": [start],
            "steps": [{"after": {"fault": START, "hits": 1}, "add": self.steps()}],
        }
        said = (
            f"# What the clients recorded in {source} went through, for one healthy broker.\n"
            "# Every trigger counts its after_ms from the first request that comes through the proxy.\n"
        )
        return said + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110)

    def _elections(self) -> list[Fault]:
        """Partitions that nobody served while their broker could not be reached."""
        windows: defaultdict[tuple[str, int, int], dict[int, tuple[int, int]]] = defaultdict(dict)
        for topic, partition_index, before, until_us in self._gaps:
            tries = [at_us for at_us in self._unreachable.get(before.node_id, []) if before.at_us <= at_us <= until_us]
            if not tries or self._nobody_answered(min(tries), until_us):
                continue
            # It had no leader while something showed it: before that, and since, its client may have asked for nothing.
            refused = [
                at_us
                for (what, code), times in self._errors.items()
                if code in _LEADERSHIP and (what.topic, what.partition_index) == (topic, partition_index)
                for at_us in times
            ]
            shown = [*tries, *self._lost.get(before.node_id, []), *refused]
            shown = [at_us for at_us in shown if before.at_us <= at_us <= until_us]
            begin, end = min(shown), max(*shown, min(shown) + _SHORTEST_ELECTION_US)
            # Partitions of one broker go and come back together, up to the client's own pace.
            slot = topic, before.at_us // _SAME_WINDOW_US, until_us // _SAME_WINDOW_US
            windows[slot][partition_index] = begin, end
        rules = []
        for key, partitions in windows.items():
            begin, end = min(b for b, _ in partitions.values()), max(e for _, e in partitions.values())
            rules.append(
                {
                    "kind": "leader_election",
                    "match": {"topic": key[0], "partition_index": _one_or_all(sorted(partitions))},
                    "for_ms": _ms(end - begin),
                    "trigger": {"after_ms": self._after(begin), "times": 1, "for_ms": _ms(end - begin)},
                }
            )
        return rules

    def _downtimes(self) -> list[Fault]:
        """Times when no broker at all could be reached: every connection is closed at once."""
        tries = sorted((at_us, node_id) for node_id, times in self._unreachable.items() for at_us in times)
        rules = []
        for window in _windows([at_us for at_us, _ in tries]):
            tried = {node_id for at_us, node_id in tries if window[0] <= at_us <= window[-1]}
            if not self._nodes - {None} <= tried or not self._nobody_answered(window[0], window[-1]):
                continue
            back_us = next((at_us for at_us in sorted(self._answers) if at_us > window[-1]), window[-1])
            rules.append(
                {
                    "kind": "close",
                    "phase": "connection",
                    "trigger": {
                        "after_ms": self._after(window[0]),
                        "times": "forever",
                        "for_ms": max(_ms(back_us - window[0]), 1.0),
                    },
                }
            )
        return rules

    def _nobody_answered(self, first_us: int, last_us: int) -> bool:
        return not any(first_us <= at_us < last_us for at_us in self._answers)

    def _error_rules(self, elections: list[Fault]) -> list[Fault]:
        grouped: defaultdict[tuple[str, str | None, str | None, int, int, int], dict[int | None, list[int]]]
        grouped = defaultdict(dict)
        for (what, code), times in self._errors.items():
            for window in _windows(sorted(times)):
                if code in _LEADERSHIP and self._covered(what, window, elections):
                    continue
                # One rule for the partitions that erred at about the same time, as often.
                slot = window[0] // _SAME_WINDOW_US
                grouped[what.api, what.topic, what.group_id, code, slot, len(window)][what.partition_index] = window
        rules = []
        for (api, topic, group_id, code, _, times_each), partitions in grouped.items():
            match: dict[str, Any] = {"api_key": api}
            named = sorted(index for index in partitions if index is not None)
            if topic is not None:
                match["topic"] = topic
            if named and topic is not None:
                match["partition_index"] = _one_or_all(named)
            if group_id is not None:
                match["group_id"] = group_id
            begin = min(window[0] for window in partitions.values())
            end = max(window[-1] for window in partitions.values())
            trigger = self._trigger(begin, end, times_each)
            if len(named) > 1:
                trigger["per"] = "partition"
            rule: Fault = {"kind": "error", "error_code": error_name(code) or code, "match": match, "trigger": trigger}
            rules.append(rule | _phase(api, code))
        return rules

    def _covered(self, what: _Subject, window: list[int], elections: list[Fault]) -> bool:
        """Whether an election of the replay already makes these errors."""
        for election in elections:
            match, trigger = election["match"], election["trigger"]
            partitions = match["partition_index"]
            inside = trigger["after_ms"] - 1 <= self._after(window[0]) <= trigger["after_ms"] + election["for_ms"]
            if inside and what.topic == match["topic"]:
                return what.partition_index in (partitions if isinstance(partitions, list) else [partitions])
        return False

    def _delays(self, *, refused: bool) -> list[Fault]:
        """What took long: answers without an error, or those that were `refused`."""
        rules = []
        for (what, code), unsorted in self._slow.items():
            if bool(code) != refused:
                continue
            slow = sorted(unsorted)  # they came in the order of their answers
            usual_us = median(self._latencies_us[what.api])
            for window in _windows([at_us for at_us, _ in slow]):
                extra = [latency - usual_us for at_us, latency in slow if window[0] <= at_us <= window[-1]]
                rules.append(
                    {
                        "kind": "delay",
                        "phase": "before_broker" if refused and not _phase(what.api, code) else "after_broker",
                        "delay_ms": _ms(sum(extra) / len(extra)),
                        "match": _match(what),
                        "trigger": self._trigger(window[0], window[-1], len(window)),
                    }
                )
        return rules

    def _silences(self) -> list[Fault]:
        """Requests that were never answered, until their client gave the connection up."""
        grouped: defaultdict[tuple[str | None, bool, _Subject], list[int]] = defaultdict(list)
        for one in self._silent:
            grouped[one.client_id, one.reached_broker, one.what].append(one.at_us)
        return [
            {
                "kind": "drop_response" if reached_broker else "drop_request",
                "match": ({"client_id": client_id} if client_id else {}) | _match(what),
                "trigger": self._trigger(window[0], window[-1], len(window)),
            }
            for (client_id, reached_broker, what), times in grouped.items()
            for window in _windows(sorted(times))
        ]

    def _breaks(self) -> list[Fault]:
        """Connections that the broker ended: each costs its client one connection, at its next request."""
        grouped: defaultdict[tuple[str | None, bool, str | None], list[int]] = defaultdict(list)
        for at_us, client_id, by_reset, api in self._broken:
            grouped[client_id, by_reset, api].append(at_us)
        rules = []
        for (client_id, by_reset, api), times in grouped.items():
            for window in _windows(sorted(times)):
                match: dict[str, Any] = {}
                if client_id:
                    match["client_id"] = client_id
                if api is not None:
                    match["api_key"] = api
                rules.append(
                    {
                        "kind": "reset" if by_reset else "close",
                        **({"match": match} if match else {}),
                        "trigger": self._trigger(window[0], window[-1], len(window)),
                    }
                )
        return rules

    def _trigger(self, begin_us: int, end_us: int, times: int) -> dict[str, Any]:
        """So often, at that time, and a little later."""
        return {"after_ms": self._after(begin_us), "times": times, "for_ms": _ms(end_us - begin_us) + _SLACK_MS}

    def _after(self, at_us: int) -> float:
        assert self._first_us is not None
        return max(_ms(at_us - self._first_us), 0.0)


def _connection(row: RowLike) -> tuple[Any, ...]:
    return row["run_id"], row["proxy_id"], row["connection_id"]


def _phase(api: str, code: int) -> dict[str, Any]:
    """When a refusal strikes that isn't there before the broker has carried the request out."""
    return {"phase": "after_broker"} if api == ApiKey.Produce.name and code in _APPENDED else {}


def _match(what: _Subject) -> dict[str, Any]:
    named = {"topic": what.topic, "partition_index": what.partition_index, "group_id": what.group_id}
    return {"api_key": what.api} | {field: value for field, value in named.items() if value is not None}


def _what(row: RowLike) -> Iterable[tuple[_Subject, int | None]]:
    """What the exchange was about, with the error code of each part."""
    partitions = [one for one in row["partitions"] or () if one["topic"] is not None]
    answered = [one for one in partitions if one["error_code"] is not None]
    if answered:
        for one in answered:
            yield _Subject(row["api_name"], one["topic"], one["partition_index"], None), one["error_code"]
    else:
        yield _Subject(row["api_name"], None, None, row["group_id"]), row["error_code"]


def _lighter(row: RowLike) -> RowLike:
    """A row without its frames: all rows are held at once."""
    return {**row, "request_frame": None, "response_frame": None}


def _common(parts: list[_Subject]) -> _Subject:
    """What all parts of one exchange have in common: it was slow as a whole."""
    common = [value if all(part[index] == value for part in parts) else None for index, value in enumerate(parts[0])]
    return _Subject(*common)  # type: ignore[arg-type]


def _windows(times: list[int]) -> Iterable[list[int]]:
    """Sorted times, cut where two are far apart."""
    if not times:
        return
    window = [times[0]]
    for before, now in pairwise(times):
        if now - before > _SAME_WINDOW_US:
            yield window
            window = []
        window.append(now)
    yield window


def _one_or_all(numbers: list[int]) -> int | list[int]:
    return numbers[0] if len(numbers) == 1 else numbers


def _ms(us: float) -> float:
    return round(us / 1000, 1)
