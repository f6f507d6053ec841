"""What an incremental Fetch (KIP-227) or ShareFetch (KIP-932) asks for without saying so.

A session begins with a full request (epoch 0); from then on a request names only what changed. The proxy
follows the sessions whose requests it was shown from the first to the last; of any other it knows nothing, and
says so.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from notleader.faults.actions import PartitionKey
from notleader.faults.answers import partition_key, top_key
from notleader.proxy.wire.names import ApiKey, ErrorCode

if TYPE_CHECKING:
    from notleader.proxy.wire.partitions import PartitionEntry
    from notleader.proxy.wire.view import Request

_MOST_SESSIONS = 10_000
_FINAL_EPOCH = -1
_INITIAL_EPOCH = 0
_LAST_EPOCH = 2**31 - 1


SESSION_NOT_FOUND: dict[int, ErrorCode] = {
    ApiKey.Fetch: ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ApiKey.ShareFetch: ErrorCode.SHARE_SESSION_NOT_FOUND,
}
"""The APIs whose requests belong to a session, and what makes a client begin another one."""

_Partitions = OrderedDict[PartitionKey, "PartitionEntry"]


@dataclass(slots=True)
class _Session:
    next_epoch: int
    partitions: _Partitions


class FetchSessions:
    """The fetch sessions of one proxy, by connection and session id."""

    __slots__ = ("_opening", "_sessions")

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[int | None, int], _Session] = OrderedDict()
        self._opening: OrderedDict[int, _Partitions] = OrderedDict()

    def clear(self) -> None:
        """Forget everything: requests have passed unseen."""
        self._sessions.clear()
        self._opening.clear()

    def partitions(self, connection_id: int, node_id: int | None, request: Request) -> list[PartitionEntry] | None:
        """Follow one Fetch request; all partitions that it asks for, None when its session's begin wasn't seen.

        To be called once for each request, in their order.
        """
        body = request.body
        named = _named(request)
        session_id, epoch = body.get("session_id", 0), body.get("session_epoch", _FINAL_EPOCH)
        if epoch in (_INITIAL_EPOCH, _FINAL_EPOCH):
            self._sessions.pop((node_id, session_id), None)
            if epoch == _INITIAL_EPOCH:
                self._opening[connection_id] = named
                if len(self._opening) > _MOST_SESSIONS:
                    self._opening.popitem(last=False)
            return list(named.values())
        session = self._session(connection_id, node_id, session_id, epoch)
        if session is None:
            return None
        _change(session.partitions, request, named)
        session.next_epoch = epoch + 1 if epoch < _LAST_EPOCH else 1
        return list(session.partitions.values())

    def _session(self, connection_id: int, node_id: int | None, session_id: int, epoch: int) -> _Session | None:
        key = (node_id, session_id)
        session = self._sessions.get(key)
        if session is None and epoch == 1 and connection_id in self._opening:
            session = self._sessions[key] = _Session(1, self._opening.pop(connection_id))
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        if session is None or session.next_epoch != epoch:
            self._sessions.pop(key, None)
            return None
        self._sessions.move_to_end(key)
        return session


class ShareSessions:
    """The share sessions of one proxy: a broker has one for each member of a share group."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[int | None, str | None, str | None], _Partitions] = OrderedDict()

    def clear(self) -> None:
        """Forget everything: requests have passed unseen."""
        self._sessions.clear()

    def partitions(self, connection_id: int, node_id: int | None, request: Request) -> list[PartitionEntry] | None:
        """Follow one ShareFetch request, as `FetchSessions.partitions` does a Fetch.

        Its epoch isn't checked: a ShareAcknowledge, which names its partitions, raises it too.
        """
        body, named = request.body, _named(request)
        key = (node_id, body["group_id"], body["member_id"])
        if body["share_session_epoch"] == _FINAL_EPOCH:
            self._sessions.pop(key, None)
            return list(named.values())
        if body["share_session_epoch"] == _INITIAL_EPOCH:
            self._sessions[key] = OrderedDict()
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        session = self._sessions.get(key)
        if session is None:
            return None
        self._sessions.move_to_end(key)
        _change(session, request, named)
        return list(session.values())


def _named(request: Request) -> _Partitions:
    return OrderedDict((partition_key(entry), entry) for entry in request.partitions)


def _change(partitions: _Partitions, request: Request, named: _Partitions) -> None:
    """What a session asks for after this request, which names these."""
    for topic in request.body["forgotten_topics_data"]:
        above = top_key(topic.get("topic"), topic.get("topic_id"))
        for index in topic["partitions"]:
            partitions.pop((above, index), None)
    partitions.update(named)
