"""In the place of the cluster: each request gets its answer from the one who knows its API. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from notleader.faults.answers import Failure, NoPlaceForError, merge, partition_key, refusal, unsupported_version
from notleader.proxy.replay import groups, login
from notleader.proxy.replay.choosing import Asked, Choosing, Chosen
from notleader.proxy.replay.coordinators import ByName
from notleader.proxy.replay.exchange import WHO, Ending, subject_of
from notleader.proxy.replay.fetch import Fetch
from notleader.proxy.replay.list_offsets import ListOffsets
from notleader.proxy.replay.metadata import Metadata
from notleader.proxy.replay.offered import IMPLIED, api_versions, offered
from notleader.proxy.replay.produce import Produce
from notleader.proxy.replay.recording import Recording
from notleader.proxy.replay.reply import Answer, Source, ended, source_of
from notleader.proxy.replay.shapes import fitted, newer_request, older_answer
from notleader.proxy.wire.addresses import Advertise, rewrite_addresses
from notleader.proxy.wire.codec import Body, response_codec
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from notleader.proxy.wire.header import encode_response_header
from notleader.proxy.wire.names import api_name
from notleader.proxy.wire.partitions import iter_partitions
from notleader.proxy.wire.view import Request

_IMPLIED: Final = {api_key for others in IMPLIED.values() for api_key in others}
_OF_PARTITIONS: Final = frozenset((ApiKey.OffsetForLeaderEpoch, ApiKey.DeleteRecords, ApiKey.AddPartitionsToTxn))
_OF_GROUPS: Final = frozenset((ApiKey.JoinGroup, ApiKey.SyncGroup))
_COMMITS: Final = frozenset((ApiKey.OffsetCommit, ApiKey.TxnOffsetCommit))


class Reply(NamedTuple):
    """What is sent back: a frame without its length, None for nothing; ``after_us`` is counted from the request."""

    frame: bytes | None
    after_us: int = 0
    ending: Ending = Ending.ANSWERED


class StandIn:
    """The cluster as it was recorded. ``say`` gets one line for each API of which nothing alike was recorded.

    With ``at_once`` recorded latencies are left out; what a request waits for by design is not.
    """

    def __init__(self, recording: Recording, say: Callable[[str], None], *, at_once: bool = False) -> None:
        exchanges = recording.exchanges
        self._recording = recording
        self._names = recording.names
        self._say = say
        self._at_once = at_once
        # Of a login everybody is warned, and every client begins with ApiVersions.
        self._told: set[int] = {ApiKey.SaslHandshake, ApiKey.SaslAuthenticate, ApiKey.ApiVersions}
        self._renamed: set[tuple[str, str]] = set()
        self.counts: Counter[Source] = Counter()
        """How many requests were answered how."""
        self.endings: Counter[Ending] = Counter()
        """How many were not, or ended their connection."""
        self.offer = offered(recording)
        self._metadata = Metadata(exchanges[ApiKey.Metadata], self._names, recording.brokers)
        known = frozenset(self._metadata.partitions)
        self._fetch = Fetch(exchanges[ApiKey.Fetch], recording.log, known)
        self._produce = Produce(exchanges[ApiKey.Produce], recording.log, known)
        self._list_offsets = ListOffsets(exchanges[ApiKey.ListOffsets], recording.log, known)
        self._by_name = {
            ApiKey.FindCoordinator: ByName(
                ApiKey.FindCoordinator, "coordinators", "key", exchanges[ApiKey.FindCoordinator], self._names
            ),
            ApiKey.OffsetFetch: ByName(
                ApiKey.OffsetFetch, "groups", "group_id", exchanges[ApiKey.OffsetFetch], self._names
            ),
        }
        self._choosing: dict[tuple[int, bool], Choosing] = {}
        self._producer_id = max(
            (one.answer["producer_id"] for one in exchanges[ApiKey.InitProducerId] if one.answer), default=0
        )

    def reply(self, node_id: int | None, frame: bytes | memoryview, advertise: Advertise) -> Reply:
        """The reply to a request frame (without its length) at this node, None for the bootstrap listener.

        ``advertise(node_id, host, port)`` is where a node is reached. Raises WireError for what is no request.
        """
        request = Request(frame)
        header = request.header
        if header.api_version not in self.offer.get(header.api_key, ()):
            return self._unknown(request)
        asked = self._asked(node_id, request)
        answer = self._answer(request, asked)
        self._count(request, answer)
        if answer.ending is not Ending.ANSWERED:
            return Reply(None, self._after_us(answer), answer.ending)
        if answer.body is None:
            return Reply(None)
        return Reply(self._frame(request, answer.body, advertise), self._after_us(answer))

    def _after_us(self, answer: Answer) -> int:
        return answer.wait_us if self._at_once else max(answer.latency_us, answer.wait_us)

    def _asked(self, node_id: int | None, request: Request) -> Asked:
        header = request.header
        body = self._names.complete(request.codec, request.body)
        subject = frozenset(
            (kind, self._recorded(kind, name, header.api_key) if kind in WHO else name)
            for kind, name in subject_of(request.codec, body, self._names.topic_name)
        )
        return Asked(
            header.api_key, node_id, header.client_id, subject, newer_request(header.api_key, header.api_version, body)
        )

    def _recorded(self, kind: str, name: str, api_key: int) -> str:
        recorded = self._names.recorded(kind, name, api_key)
        if recorded != name and (kind, name) not in self._renamed:
            self._renamed.add((kind, name))
            self._say(f"no {kind} {name} was recorded: it gets the answers of {recorded}")
        return recorded

    def _answer(self, request: Request, asked: Asked) -> Answer:
        api_key = asked.api_key
        if api_key == ApiKey.ApiVersions:
            return self._api_versions(asked)
        if api_key == ApiKey.Metadata:
            return self._metadata.answer(asked, request.header.api_version)
        if api_key == ApiKey.Produce:
            return self._produce.answer(asked)
        if api_key == ApiKey.Fetch:
            return self._fetch.answer(asked)
        if api_key == ApiKey.ListOffsets:
            return self._list_offsets.answer(asked)
        if api_key == ApiKey.SaslHandshake:
            return Answer(login.handshake(asked.body["mechanism"]), Source.NOTHING)
        if api_key == ApiKey.SaslAuthenticate:
            return Answer(login.welcome(), Source.NOTHING)
        if api_key in self._by_name and (self._recording.exchanges[api_key] or api_key == ApiKey.FindCoordinator):
            return self._by_name[ApiKey(api_key)].answer(asked)
        return self._any_other(request, asked)

    # ---- what has no state of its own ------------------------------------------------------------

    def _any_other(self, request: Request, asked: Asked) -> Answer:
        chosen = self._chosen(asked, request.header.api_version)
        if chosen is None:
            return self._from_nothing(request)
        exchange, is_again = chosen
        if exchange.answer is None:
            return ended(exchange, is_again)
        body = groups.suited(asked.api_key, asked.body, exchange.answer)
        if asked.api_key == ApiKey.ShareFetch and is_again:
            # Every record was acquired once: there is nothing more, as long as one waits for it (KIP-932).
            return Answer({**body, "responses": []}, Source.REPEATED, 0, asked.body["max_wait_ms"] * 1000)
        if asked.api_key == ApiKey.InitProducerId and is_again and not body["error_code"]:
            # Two producers of one id would take each other's batches for their own, sent again.
            self._producer_id += 1
            body = {**body, "producer_id": self._producer_id}
        return Answer(self._with_all(request, body), source_of(is_again), exchange.latency_us)

    def _chosen(self, asked: Asked, api_version: int) -> Chosen | None:
        exchanges = self._recording.exchanges[asked.api_key]
        speaks = api_version >= groups.KNOWS_MEMBER_ID_REQUIRED
        choosing = self._choosing.get((asked.api_key, speaks))
        if choosing is None:
            choosing = self._choosing[asked.api_key, speaks] = Choosing()
            choosing.exchanges += [one for one in exchanges if groups.can_be_told(one, api_version)]
        return choosing.choose(asked)

    def _with_all(self, request: Request, body: Body) -> Body:
        """The answer with each partition that was asked for, and no others."""
        header = request.header
        codec = response_codec(header.api_key, header.api_version)
        if header.api_key not in _COMMITS | _OF_PARTITIONS:
            return body
        body = fitted(codec.fields, body)
        told = {partition_key(entry) for entry in iter_partitions(codec, body)}
        code = 0 if header.api_key in _COMMITS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = {key: Failure(code) for entry in request.partitions if (key := partition_key(entry)) not in told}
        return merge(request, missing, body)

    # ---- what was not recorded ------------------------------------------------------------------

    def _api_versions(self, asked: Asked) -> Answer:
        recorded = self._recording.exchanges[ApiKey.ApiVersions]
        told = next((one for one in recorded if one.answer and not one.answer["error_code"]), None)
        source = Source.NOTHING if told is None else source_of(told.is_used)
        if told is not None:
            told.is_used = True
        return Answer(api_versions(self.offer, None if told is None else told.answer), source)

    def _from_nothing(self, request: Request) -> Answer:
        """Consent to what a recorded membership implies, else a refusal by Kafka's own means."""
        api_key = request.header.api_key
        if api_key in _IMPLIED and not self._recording.exchanges[api_key]:
            return Answer(refusal(request, 0), Source.NOTHING)
        code = ErrorCode.INVALID_GROUP_ID if api_key in _OF_GROUPS else ErrorCode.UNSUPPORTED_VERSION
        try:
            return Answer(refusal(request, code), Source.NOTHING)
        except NoPlaceForError:
            return Answer(None, Source.NOTHING, ending=Ending.CLOSED)

    def _unknown(self, request: Request) -> Reply:
        """The reply to an API or a version that is not offered: a broker closes the connection, too."""
        header = request.header
        self.counts[Source.NOTHING] += 1
        if header.api_key == ApiKey.ApiVersions:
            body = unsupported_version(self.offer[ApiKey.ApiVersions])
            return Reply(_head(request, 0) + response_codec(header.api_key, 0).encode(body))
        self.endings[Ending.CLOSED] += 1
        name = f"{api_name(header.api_key) or f'API {header.api_key}'} v{header.api_version}"
        self._say_once(header.api_key, f"{name} is not offered, for it was not recorded: the connection is closed")
        return Reply(None, 0, Ending.CLOSED)

    def _count(self, request: Request, answer: Answer) -> None:
        header = request.header
        self.counts[answer.source] += 1
        if answer.ending is not Ending.ANSWERED:
            self.endings[answer.ending] += 1
        if answer.source is Source.NOTHING:
            does = "the connection is closed" if answer.ending is Ending.CLOSED else "answered without the recording"
            who = f"client {header.client_id or 'without an id'}"
            self._say_once(
                header.api_key, f"nothing like this {api_name(header.api_key)} of {who} was recorded: {does}"
            )

    def _say_once(self, api_key: int, line: str) -> None:
        if api_key not in self._told:
            self._told.add(api_key)
            self._say(line)

    # ---- frames ---------------------------------------------------------------------------------

    def _frame(self, request: Request, body: Body, advertise: Advertise) -> bytes:
        header = request.header
        codec = response_codec(header.api_key, header.api_version)
        told = fitted(codec.fields, older_answer(header.api_key, header.api_version, body))
        rewrite_addresses(codec, told, advertise)
        return _head(request, header.api_version) + codec.encode(told)


def _head(request: Request, api_version: int) -> bytes:
    return encode_response_header(request.header.api_key, api_version, request.header.correlation_id)
