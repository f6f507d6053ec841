"""The rows of a capture as what can answer requests: exchanges in order, records by offset, brokers, names.

A recording takes rows of level `payload` in any order, and holds all of them in memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final

from notleader.proxy.replay.exchange import WHO, Ending, Exchange, subject_of
from notleader.proxy.replay.log import Log
from notleader.proxy.replay.markers import End
from notleader.proxy.replay.names import Names
from notleader.proxy.replay.sessions import FetchSessions
from notleader.proxy.replay.shapes import newer_answer, newer_request
from notleader.proxy.wire.addresses import rewrite_addresses
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.partitions import iter_partitions
from notleader.proxy.wire.view import Request, Response

Row = Mapping[str, Any]
SASL: Final = frozenset((ApiKey.SaslHandshake, ApiKey.SaslAuthenticate))
_WAITS_FOR_RECORDS: Final = frozenset((ApiKey.Fetch, ApiKey.ShareFetch))
_WAITS_FOR_OTHERS: Final = frozenset((ApiKey.JoinGroup, ApiKey.SyncGroup))
_PATIENCE_US: Final = 1_000_000
"""Who leaves sooner with a request under way didn't wait for its answer; no client's request times out that soon."""
_CLIENT_LEFT: Final = ("the client", "Connection reset by peer")
"""How the reasons begin for which a connection ended by its client's will; the second in captures of before."""

_END_OF_RECORDING: Final = ("", "the proxy stopped")
"""Why connections ended that only the recording ended."""


class Recording:
    """What a capture holds for a replay; ``exchanges`` are in the order of their requests, by API."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.names = Names()
        self.log = Log()
        self.exchanges: defaultdict[int, list[Exchange]] = defaultdict(list)
        self.brokers: dict[int, tuple[str, int]] = {}
        """Node ids and the addresses that clients were told."""
        self.apis: set[int] = set()
        """All APIs that were recorded, also those of which no frame was kept."""
        self.seen = 0
        """Exchanges, with and without frames."""
        self.without_frames: Counter[str] = Counter()
        """Exchanges of which frames are missing, by the reason that their row says."""
        self.unread: Counter[str] = Counter()
        """Exchanges whose frames can't be read, by the reason."""
        self.clusters: set[str] = set()
        """The ids of the clusters that were recorded: more than one can't be told apart by their names."""
        self.lost = 0
        """Gaps: rows in whose place others are missing."""
        self._sessions = FetchSessions(self.names.topic_name)
        self._ends: dict[Any, tuple[int, str]] = {}
        asked = []
        for row in rows:
            if row["event"] == "disconnect":
                self._ends[_connection(row)] = (row["request_at_us"] or 0, row["detail"] or "")
            elif row["event"] == "exchange":
                asked.append(row)
            self.lost += row["event"] == "gap"
        asked.sort(key=lambda row: (row["request_at_us"] or 0, row["connection_id"] or 0, row["exchange_seq"] or 0))
        self._read([row for row in asked if self._is_kept(row)])

    @property
    def read(self) -> int:
        """How many exchanges can answer something."""
        return sum(map(len, self.exchanges.values()))

    def _is_kept(self, row: Row) -> bool:
        """Count an exchange, and say whether its frames are there; an answer that never left need not be."""
        self.seen += 1
        self.apis.add(row["api_key"])
        if row["node_id"] is not None and row["node_id"] >= 0:
            self.brokers.setdefault(row["node_id"], ("", 0))
        is_there = row["request_frame"] is not None and (
            row["response_frame"] is not None or row["response_at_us"] is None
        )
        if not is_there and row["api_key"] not in SASL:
            self.without_frames[row["detail"] or "not recorded at level payload, or hidden by --capture-redact"] += 1
        return is_there

    def _read(self, rows: list[Row]) -> None:
        found: list[tuple[Row, Request, Response | None]] = []
        for row in rows:
            try:
                request = Request(row["request_frame"])
                answer = None if row["response_at_us"] is None else Response(row["response_frame"], request)
                _ = request.body, answer and answer.body
            except WireError as error:
                self.unread[error.reason] += 1
                continue
            if answer is not None:
                self._learn(len(found), answer)
            found.append((row, request, answer))
        # Names are known from here on: what asks by a topic's id goes by its name, too.
        for order, (row, request, answer) in enumerate(found):
            self._take(order, row, request, answer)

    def _learn(self, order: int, answer: Response) -> None:
        """Brokers and topics of an answer."""

        def noted(node_id: int, host: str, port: int) -> tuple[str, int]:
            self.brokers[node_id] = (host, port)
            return host, port

        rewrite_addresses(answer.codec, answer.body, noted)
        if answer.codec.api_key == ApiKey.Metadata:
            self.clusters |= {answer.body["cluster_id"]} if answer.body.get("cluster_id") else set()
            for topic in answer.body["topics"]:
                if self.names.learn(topic["name"], topic.get("topic_id")):
                    self.log.reborn[topic["name"]] = order

    def _take(self, order: int, row: Row, request: Request, answer: Response | None) -> None:
        header = request.header
        subject = subject_of(request.codec, request.body, self.names.topic_name)
        for kind, name in sorted(subject, key=str):
            if kind in WHO:
                self.names.learn_who(kind, name, header.api_key)
        ending, latency_us = self._ending(row, answer)
        body = newer_request(header.api_key, header.api_version, self.names.complete(request.codec, request.body))
        exchange = Exchange(
            order,
            header.api_key,
            header.api_version,
            row["node_id"],
            row["client_id"],
            subject,
            body,
            None if answer is None else self._answer(answer, body),
            latency_us,
            ending,
            row["forwarded_at_us"] is not None,
        )
        if header.api_key == ApiKey.Fetch:
            self._sessions.take(_connection(row), exchange)
        if ending is Ending.ANSWERED and answer is None:
            return  # nobody waited for an answer, or the client left before it was due
        self.exchanges[header.api_key].append(exchange)
        if header.api_key == ApiKey.EndTxn and exchange.answer is not None and not exchange.answer["error_code"]:
            self.log.ends.append(End(order, body["producer_id"], body["committed"]))

    def _answer(self, answer: Response, request: Body) -> Body:
        codec, body = answer.codec, answer.body
        body = newer_answer(codec.api_key, codec.api_version, request, self.names.complete(codec, body))
        if codec.api_key == ApiKey.ListOffsets and codec.api_version == 0:
            for entry in iter_partitions(codec, body):
                entry.fields["offset"] = next(iter(entry.fields["old_style_offsets"]), -1)
        return body

    def _ending(self, row: Row, answer: Response | None) -> tuple[Ending, int]:
        """How an exchange ended, and after how long (µs). ANSWERED without an answer: nobody waited for one."""
        at_us = row["request_at_us"]
        if answer is not None:
            return Ending.ANSWERED, max(row["response_at_us"] - at_us, 0)
        ended_us, why = self._ends.get(_connection(row), (at_us, ""))
        waited_us = max(ended_us - at_us, 0)
        if row["api_key"] == ApiKey.Produce and row["acks"] == 0:
            return Ending.ANSWERED, 0
        if row["outcome"] == "dropped":
            return Ending.UNANSWERED, 0
        if row["outcome"] != "closed" and why in _END_OF_RECORDING:
            return Ending.ANSWERED, 0
        if row["outcome"] == "closed" or not why.startswith(_CLIENT_LEFT):
            return (Ending.RESET if why.startswith("reset") else Ending.CLOSED), waited_us
        if not row["fault_names"] and waited_us <= _longest_wait_us(row):
            return Ending.ANSWERED, 0
        return Ending.SILENT, waited_us


def _longest_wait_us(row: Row) -> float:
    """How long a client has no reason yet to think that its request won't be answered."""
    if row["api_key"] in _WAITS_FOR_OTHERS:
        return inf
    if row["api_key"] not in _WAITS_FOR_RECORDS:
        return _PATIENCE_US
    return int(Request(row["request_frame"]).body["max_wait_ms"]) * 1000 + _PATIENCE_US


def _connection(row: Row) -> tuple[Any, ...]:
    return row["run_id"], row["proxy_id"], row["connection_id"]
