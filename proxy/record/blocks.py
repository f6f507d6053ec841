"""Finished exchanges as blocks of numbers, and the tables that these point into. Pure.

Most of the work is `block_writer`'s, which is compiled: without it there is none of this, and every exchange is left to
the recorder, which reads it in full (``rows``). So is what was touched by a fault, and what has not been seen yet:
exchanges of the same bytes are taken from then on (`remember`), and the recorder reads them once for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from notleader.proxy.pump import Exchange
from notleader.proxy.pump.flags import api_number
from notleader.proxy.record.block import Block, BlockWriter, Summary, Tables, Template, Unread, Who
from notleader.proxy.record.redaction import NOTHING, Redaction
from notleader.proxy.record.rows import API_NAMES, PARTITION_FIELDS, Level, TopicIds
from notleader.proxy.record.skim import COMPRESSIONS, SKIMMED
from notleader.proxy.wire.probe import facts_program
from notleader.proxy.wire.secret_fields import without_secrets

_LONG_BYTES: Final = 256 << 10
_MOST_LONG: Final = 32
_MOST_KNOWN: Final = 4096
_MOST_WHOS: Final = 16_384
_MOST_TEMPLATES: Final = 65_536
_NAMELESS: Final[dict[str, Any]] = dict.fromkeys(PARTITION_FIELDS)
_GENERATIONS: Final = itertools.count(1)


class Blocks:
    """Blocks of one run at level ``header`` or ``partition``: ``writer`` takes exchanges, `swap` gives what was taken.

    ``count_error(api_key, error_code)`` is told of every error that an answer took to a client, of those read here.
    """

    def __init__(
        self,
        level: Level,
        topics: TopicIds,
        count_error: Callable[[int, int], None] = lambda *_: None,
        redaction: Redaction = NOTHING,
    ) -> None:
        """Raises ImportError where nothing is compiled."""
        made = import_module("notleader.proxy.record.block_writer").BlockWriter
        self.writer: BlockWriter = made(self, level.reads_bodies, COMPRESSIONS)
        self.count_error = count_error
        self._reads_bodies = level.reads_bodies
        self._topics = topics
        self._redaction = redaction
        self._start_tables()

    def _start_tables(self) -> None:
        self._tables = Tables()
        self._generation = next(_GENERATIONS)
        self._whos: dict[Who, int] = {}
        self._long: dict[tuple[int, bytes], tuple[bytes, Summary]] = {}
        self._whats: dict[tuple[Any, ...], int] = {}
        self._templates: dict[Template, int] = {}
        self._nameless: dict[Template, int] = {}  # of topics that only have an id so far
        self._start_block()

    def _start_block(self) -> None:
        self._block = Block(self._tables)
        self.writer.begin(self._block, self._generation)

    def __len__(self) -> int:
        return self.writer.rows

    def swap(self) -> Block:
        """What was taken since the last time; the caller's from now on."""
        block = self.writer.end()
        tables = self._tables
        if (
            len(tables.whos) > _MOST_WHOS
            or len(tables.whats) > _MOST_KNOWN
            or len(tables.templates) > _MOST_TEMPLATES
            or self.writer.is_full
        ):
            self._start_tables()
        else:
            self._start_block()
        return block

    # ---- what the writer asks for, the first time -------------------------------------------------

    def put(self, known: Summary) -> None:
        """Into the table at hand."""
        known.index = len(self._tables.whats)
        self._tables.whats.append(known)

    def what(self, exchange: Exchange, *facts: Any) -> int:
        """The place of what an exchange has in common with others.

        The facts are error code, throttle time, transactional id and acks, or there are none.
        """
        key = exchange.api_key, exchange.api_version, exchange.outcome, *facts
        place = self._whats.get(key)
        if place is None:
            error, throttle, transactional_id, acks = facts or (None,) * 4
            hidden = self._redaction.field("transactional_id", transactional_id)
            name = _name(exchange.api_key)
            common = exchange.api_key, name, exchange.api_version, exchange.outcome
            known = Summary((*common, error, throttle, hidden, None, acks, None))
            self.put(known)
            place = self._whats[key] = known.index
        return place

    def who(self, exchange: Exchange) -> int:
        """The place of the client that asked."""
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
        return place

    def long(self, api: int, request: bytes, response: bytes) -> Summary | None:
        """What an exchange of the same bytes was found to say, of those that are not short."""
        found = self._long.get((api, request[8:]))
        if found is None or len(found[0]) != len(response) - 4 or not response.startswith(found[0], 4):
            return None
        return found[1]

    def programs(self, api_key: int, version: int) -> tuple[bytes, ...]:
        """The programs for requests and answers of Produce or Fetch; none where there are not both."""
        asks, answers = facts_program(api_key, version, "request"), facts_program(api_key, version, "response")
        return () if asks is None or answers is None else (asks, answers)

    def has_name(self, topic_id: bytes | None) -> bool:
        """Whether the topic of an id has a name by now."""
        return topic_id is None or self._topics.of(topic_id)[0] is not None

    def template(self, part: Template) -> tuple[int, bool]:
        """The place of what a partition has in common with others, and whether its topic has its name.

        The writer asks again in the next block for what has none.
        """
        place = self._templates.get(part)
        if place is not None:
            return place, True
        name, topic_id = part[0], None
        known = True
        if part[1] is not None:
            found, topic_id = self._topics.of(part[1])
            name = name or found
            known = name is not None or topic_id is None
        if not known and (place := self._nameless.get(part)) is not None:
            return place, False
        place = len(self._tables.templates)
        if self._redaction:
            hidden = self._redaction.partition(_NAMELESS | {"topic": name, "topic_id": topic_id})
            name, topic_id = hidden["topic"], hidden["topic_id"]
        self._tables.templates.append((name or None, topic_id, *part[2:]))
        # Metadata may tell a name yet that is missing.
        (self._templates if known else self._nameless)[part] = place
        return place, known

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
        unread = Unread(exchange, _name(api_key), request, response)
        api = api_number(api_key, version)
        if not self.writer.remember(api, request, response, unread) and len(response) <= _LONG_BYTES:
            if len(self._long) >= _MOST_LONG:
                self._long = {}
            self._long[api, request[8:]] = response[4:], unread

    def forget_unread(self) -> None:
        """Have everything read anew that is remembered: topics have names now that had none."""
        self.writer.forget()
        self._long.clear()


def _name(api_key: int) -> str:
    return API_NAMES.get(api_key) or f"Unknown({api_key})"
