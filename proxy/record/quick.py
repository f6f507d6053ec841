"""From finished exchanges to blocks of numbers, in a microsecond or two each, on the loop. Pure.

Most traffic is the same few shapes over and over: heartbeats differ in their correlation ids, produces in sequences
and offsets. What was read once is looked up by the bytes it was read from. What is not known yet, or was touched by a
fault, is left to the recorder, which reads it in full (``rows``): once for all that have the same bytes (`remember`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, get_args

from notleader.proxy import plain
from notleader.proxy.pump import Exchange, Passing
from notleader.proxy.pump.exchange import Outcome
from notleader.proxy.record.block import (
    ALL_TOLD,
    NONE,
    Block,
    Summary,
    Tables,
    Template,
    Unread,
    Who,
    fits,
    pack_numbers,
    pack_part,
)
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.redaction import NOTHING, Redaction
from notleader.proxy.record.rows import API_NAMES, PARTITION_FIELDS, Level, TopicIds
from notleader.proxy.record.skim import COMPRESSIONS, SKIMMED, PartitionFacts, Skimmed, skim_pieces, skimmed, told
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.probe import facts_program
from notleader.proxy.wire.schemas import Direction
from notleader.proxy.wire.secret_fields import without_secrets

_PRODUCE: Final = int(ApiKey.Produce)
_FETCH: Final = int(ApiKey.Fetch)
_API_VERSIONS: Final = int(ApiKey.ApiVersions)  # where a client tells its software's name
_SHORT_BYTES: Final = 512
_LONG_BYTES: Final = 256 << 10
_MOST_LONG: Final = 32
_MOST_KNOWN: Final = 4096
_MOST_WHOS: Final = 16_384
_MOST_TEMPLATES: Final = 65_536
_MOST_RECORDS: Final = (1 << 31) - 1
_NAMELESS: Final[dict[str, Any]] = dict.fromkeys(PARTITION_FIELDS)
_GENERATIONS: Final = itertools.count(1)


def short_key(api: int, request: bytes, response: bytes) -> bytes:
    """What an exchange of short frames (without their lengths) asked and answered, whatever its correlation id."""
    asked = request[8:]
    return api.to_bytes(3) + len(asked).to_bytes(2) + asked + response[4:]


class CachedClient:
    """Whom a connection was last told of as: the place of a Who in the tables of a generation."""

    __slots__ = ("client_id", "generation", "place", "principal")

    def __init__(self, generation: int, client_id: str | None, principal: str | None, place: int) -> None:
        self.generation = generation
        self.client_id = client_id
        self.principal = principal
        self.place = place


class BlockWriter:
    """How `Quick` takes what it knows; the compiled form of this is in `notleader.proxy.plain`."""

    _reads_bodies: bool
    _tables: Tables
    _block: Block
    _numbers: bytearray  # of the block
    _parts: bytearray
    _generation: int  # of the tables: no two have the same
    _plain: dict[str, dict[int, int]]
    _short: dict[bytes, Summary]
    _count_error: Callable[[int, int], None]
    _compressions: tuple[str, ...]

    def take(self, exchange: Exchange | ConnectionEvent) -> bool:
        """Put an exchange into the block; False when it has to be read in full, or is an event."""
        if type(exchange) is not Exchange or exchange.hits or not fits(exchange):
            return False
        api_key = exchange.api_key
        count = ALL_TOLD
        if not self._reads_bodies or exchange.request is None:
            api = api_key << 8 | exchange.api_version
            what = self._plain[exchange.outcome].get(api, -1)
            if what < 0:
                what = self._header_only(exchange)
        elif api_key in SKIMMED:
            found = self._skimmed(exchange)
            if found is None:
                return False
            what, count = found
        else:
            known = self.known(exchange)
            if known is None:
                return False
            what = known.index
            if what < 0:
                what = self._put(known)
            if known.values[4]:
                self._count_error(api_key, known.values[4])
            self._block.told += known.told
        connection = exchange.connection
        who = connection.known
        if (
            type(who) is not CachedClient
            or who.generation != self._generation
            or who.client_id is not exchange.client_id
            or who.principal is not connection.principal
            or api_key == _API_VERSIONS
        ):
            who = self._who(exchange)
        self._numbers += pack_numbers(
            who.place,
            what,
            exchange.seq,
            exchange.correlation_id,
            exchange.request_at_us,
            exchange.forwarded_at_us,
            exchange.broker_responded_at_us,
            exchange.response_at_us,
            exchange.request_bytes,
            exchange.response_bytes,
            count,
        )
        return True

    def _header_only(self, exchange: Exchange) -> int:
        raise NotImplementedError

    def _put(self, known: Summary) -> int:
        raise NotImplementedError

    def _who(self, exchange: Exchange) -> CachedClient:
        raise NotImplementedError

    def known(self, exchange: Exchange) -> Summary | None:
        """What an exchange of the same bytes was found to say; of APIs that are not read in passing."""
        raise NotImplementedError

    def _skimmed(self, exchange: Exchange) -> tuple[int, int] | None:
        raise NotImplementedError


if not TYPE_CHECKING and plain.IS_NATIVE:
    CachedClient, BlockWriter = plain.native.CachedClient, plain.native.BlockWriter
    short_key = plain.native.short_key


class Quick(BlockWriter):
    """Takes finished exchanges of one run at level ``header`` or ``partition``; `swap` gives what was taken.

    ``count_error(api_key, error_code)`` is told of every error that an answer took to a client, of those read here.
    """

    def __init__(
        self,
        level: Level,
        topics: TopicIds,
        count_error: Callable[[int, int], None] = lambda *_: None,
        redaction: Redaction = NOTHING,
    ) -> None:
        self._reads_bodies = level.reads_bodies
        self._compressions = COMPRESSIONS
        self._topics = topics
        self._redaction = redaction
        self._count_error = count_error
        self._start_tables()

    def _start_tables(self) -> None:
        self._tables = Tables()
        self._start_block()
        self._generation = next(_GENERATIONS)
        self._whos: dict[Who, int] = {}
        self._plain = {outcome: {} for outcome in get_args(Outcome)}  # → API and version → what
        self._short = {}
        self._long: dict[tuple[int, bytes], tuple[bytes, Summary]] = {}
        self._seen: dict[tuple[Any, ...], int] = {}
        self._templates: dict[Template, int] = {}
        self._nameless: dict[Template, int] = {}  # of topics that only have an id so far

    def __len__(self) -> int:
        return len(self._block)

    def swap(self) -> Block:
        """What was taken since the last time; the caller's from now on."""
        block = self._block
        tables = self._tables
        if (
            len(tables.whos) > _MOST_WHOS
            or len(tables.whats) > _MOST_KNOWN
            or len(tables.templates) > _MOST_TEMPLATES
            or len(self._short) > _MOST_KNOWN
        ):
            self._start_tables()
        else:
            self._start_block()
        return block

    def _start_block(self) -> None:
        self._block = Block(self._tables)
        self._numbers, self._parts = self._block.numbers, self._block.parts

    # ---- on the loop ----------------------------------------------------------------------------

    def _header_only(self, exchange: Exchange) -> int:
        """Of which nothing was kept but its header: its place in the table."""
        place = self._plain[exchange.outcome][exchange.api_key << 8 | exchange.api_version] = len(self._tables.whats)
        self._tables.whats.append(Summary(_values(exchange)))
        return place

    def _put(self, known: Summary) -> int:
        """Into the table at hand; its place there."""
        known.index = len(self._tables.whats)
        self._tables.whats.append(known)
        return known.index

    def _who(self, exchange: Exchange) -> CachedClient:
        connection = exchange.connection
        hide = self._redaction.field
        who = (
            connection.connection_id,
            hide("client_addr", connection.client_addr),
            connection.listener,
            connection.node_id,
            hide("client_id", exchange.client_id or connection.client_id),
            hide("client_software_name", connection.client_software_name),
            hide("client_software_version", connection.client_software_version),
            hide("principal", connection.principal),
        )
        place = self._whos.setdefault(who, len(self._tables.whos))
        if place == len(self._tables.whos):
            self._tables.whos.append(who)
        connection.known = known = CachedClient(self._generation, exchange.client_id, connection.principal, place)
        return known

    def known(self, exchange: Exchange) -> Summary | None:
        """What an exchange of the same bytes was found to say; of APIs that are not read in passing."""
        request, response = exchange.request, exchange.response
        if type(request) is not bytes or type(response) is not bytes or exchange.outcome != "answered":
            return None
        api = exchange.api_key << 8 | exchange.api_version
        if len(request) + len(response) <= _SHORT_BYTES:
            return self._short.get(short_key(api, request, response))
        found = self._long.get((api, request[8:]))
        if found is None or len(found[0]) != len(response) - 4 or not response.startswith(found[0], 4):
            return None
        return found[1]

    # ---- Produce and Fetch ----------------------------------------------------------------------

    def _skimmed(self, exchange: Exchange) -> tuple[int, int] | None:
        """Any Produce or Fetch whose bodies are laid out as expected: its place among the whats, its partitions."""
        api_key, version = exchange.api_key, exchange.api_version
        asked = _read(exchange.request, api_key, version, "request")
        if asked is None:
            return None
        answered = None
        if exchange.response is not None:
            answered = _read(exchange.response, api_key, version, "response")
            if answered is None:
                return None
        parts = told(asked, answered)
        if any(NONE in part or max(abs(number or 0) for number in part[8:11]) > _MOST_RECORDS for part in parts):
            return None  # nobody's offset, but our word for none; or more than the columns can hold
        error = answered.error_code if answered is not None else None
        throttle = answered.throttle_time_ms if answered is not None else None
        what = self._what(exchange, error, throttle, asked.transactional_id, asked.acks)
        if error:
            self._count_error(api_key, error)
        for part in parts:
            template, _ = self._template(part)
            self._parts += pack_part(template, *[NONE if value is None else value for value in part[8:]])
        return what, len(parts)

    def _what(
        self,
        exchange: Exchange,
        error: int | None,
        throttle: int | None,
        transactional_id: str | None,
        acks: int | None,
    ) -> int:
        """The place of what a Produce or Fetch has in common with others."""
        key = exchange.api_key, exchange.api_version, exchange.outcome, error, throttle, transactional_id, acks
        what = self._seen.get(key)
        if what is None:
            what = self._seen[key] = len(self._tables.whats)
            hidden = self._redaction.field("transactional_id", transactional_id)
            self._tables.whats.append(Summary(_values(exchange, error, throttle, hidden, None, acks)))
        return what

    def _programs(self, api_key: int, version: int) -> tuple[bytes, bytes] | None:
        """The programs for requests and answers of Produce or Fetch, for the compiled form."""
        asks, answers = facts_program(api_key, version, "request"), facts_program(api_key, version, "response")
        return None if asks is None or answers is None else (asks, answers)

    def _has_name(self, topic_id: bytes | None) -> bool:
        """Whether the topic of an id has a name by now."""
        return topic_id is None or self._topics.of(topic_id)[0] is not None

    def _template(self, part: PartitionFacts | tuple[Any, ...]) -> tuple[int, bool]:
        """The place of what a partition has in common with others, and whether that stays: its topic has a name."""
        key = tuple(part[:8])
        place = self._templates.get(key)
        if place is None:
            name, topic_id = part[0], None
            known = True
            if part[1] is not None:
                found, topic_id = self._topics.of(part[1])
                name = name or found
                known = name is not None or topic_id is None
            if not known and (place := self._nameless.get(key)) is not None:
                return place, False
            place = len(self._tables.templates)
            if self._redaction:
                hidden = self._redaction.partition(_NAMELESS | {"topic": name, "topic_id": topic_id})
                name, topic_id = hidden["topic"], hidden["topic_id"]
            self._tables.templates.append((name or None, topic_id, *part[2:8]))
            # Metadata may tell a name yet that is missing.
            (self._templates if known else self._nameless)[key] = place
            return place, known
        return place, True

    # ---- what the recorder will read -------------------------------------------------------------

    def remember(self, exchange: Exchange) -> None:
        """Take exchanges of the same bytes from now on, which the recorder reads once for all of them."""
        request, response = exchange.request, exchange.response
        if (
            exchange.hits
            or not self._reads_bodies
            or exchange.api_key in SKIMMED
            or type(request) is not bytes
            or type(response) is not bytes
            or exchange.outcome != "answered"
        ):
            return
        api_key, version = exchange.api_key, exchange.api_version
        if without_secrets(api_key, version, request, response) != (request, response):
            return
        unread = Unread(exchange, API_NAMES.get(api_key) or f"Unknown({api_key})", request, response)
        api = api_key << 8 | version
        if len(request) + len(response) <= _SHORT_BYTES:
            self._short[short_key(api, request, response)] = unread
        elif len(response) <= _LONG_BYTES:
            if len(self._long) >= _MOST_LONG:
                self._long = {}
            self._long[api, request[8:]] = response[4:], unread

    def forget_unread(self) -> None:
        """Have everything read anew that is remembered: topics have names now that had none."""
        self._short.clear()
        self._long.clear()


def _values(exchange: Exchange, *facts: Any) -> tuple[Any, ...]:
    """What `Summary` wants, with the facts that were read (from error_code to acks)."""
    api_key = exchange.api_key
    name = API_NAMES.get(api_key) or f"Unknown({api_key})"
    return (api_key, name, exchange.api_version, exchange.outcome, *(facts or (None,) * 5), None)


def _read(frame: Any, api_key: int, version: int, direction: Direction) -> Skimmed | None:
    if isinstance(frame, Passing):
        return skimmed(frame)
    return skim_pieces(api_key, version, direction, frame if isinstance(frame, list) else (frame,))
