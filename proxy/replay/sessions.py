"""At which offsets a recorded Fetch asked: in a fetch session (KIP-227) a request names only what has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from notleader.proxy.replay.exchange import Exchange
from notleader.proxy.replay.log import Key


class FetchSessions:
    """The partitions of each recorded fetch session, kept up to the request at hand."""

    def __init__(self, topic_name: Callable[[UUID], str | None]) -> None:
        self._topic_name = topic_name
        self._asked: dict[tuple[Any, int], dict[Key, int]] = {}

    def take(self, connection: Any, exchange: Exchange) -> None:
        """Put the offset of every partition that the request means into it, as ``fetch_offsets``."""
        body, answer = exchange.request, exchange.answer
        session = (connection, body.get("session_id", 0))
        epoch = body.get("session_epoch", -1)
        offsets = {
            (topic["topic"], partition["partition"]): partition["fetch_offset"]
            for topic in body["topics"]
            if "topic" in topic
            for partition in topic["partitions"]
        }
        if epoch > 0:
            offsets = {**self._asked.get(session, {}), **offsets}
            for forgotten in body.get("forgotten_topics_data", ()):
                name = forgotten.get("topic") or self._topic_name(forgotten["topic_id"])
                for index in forgotten["partitions"]:
                    offsets.pop((name, index), None)
        body["fetch_offsets"] = offsets
        session_id = 0 if answer is None else answer.get("session_id", 0)
        if session_id:
            self._asked[connection, session_id] = offsets
