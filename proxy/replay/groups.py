"""Members of groups: what of a recorded answer has to suit the member that asks now."""

from __future__ import annotations

from typing import Any, Final

from notleader.proxy.replay.exchange import Exchange
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.enums import ApiKey, ErrorCode

KNOWS_MEMBER_ID_REQUIRED: Final = 4
"""The first version of JoinGroup that a broker sends back for the sake of an id (KIP-394)."""


def can_be_told(exchange: Exchange, api_version: int) -> bool:
    """Whether a client that asks in this version understands the answer."""
    if exchange.api_key != ApiKey.JoinGroup or exchange.answer is None:
        return True
    return exchange.answer["error_code"] != ErrorCode.MEMBER_ID_REQUIRED or api_version >= KNOWS_MEMBER_ID_REQUIRED


def suited(api_key: int, request: Body, answer: Body) -> Body:
    """A group's recorded answer for the member that asks.

    Member ids are the recorded ones. The protocol is one that the member knows, and its metadata its own: assignors
    differ from client to client. A leader gets what it assigns itself, as from a broker, for one client asks first with
    nothing assigned and another at once with all; whoever leads nothing gets the recorded assignment.
    """
    if api_key == ApiKey.JoinGroup and not answer["error_code"]:
        return _joined(request, answer)
    if api_key == ApiKey.SyncGroup:
        told = {name: request[name] for name in ("protocol_type", "protocol_name") if request.get(name)}
        if not answer["error_code"]:
            assigned = {one["member_id"]: one["assignment"] for one in request["assignments"]}
            told["assignment"] = assigned.get(request["member_id"], answer["assignment"])
        return {**answer, **told}
    if api_key == ApiKey.ConsumerGroupHeartbeat and request["member_id"]:
        return {**answer, "member_id": request["member_id"]}  # the member's own choice since v1
    return answer


def _joined(request: Body, answer: Body) -> Body:
    offered: dict[str, Any] = {one["name"]: one["metadata"] for one in request["protocols"]}
    name = answer["protocol_name"] if answer["protocol_name"] in offered else next(iter(offered), None)
    own = answer["member_id"]
    members = [
        {**member, "metadata": offered[name]} if name in offered and member["member_id"] == own else member
        for member in answer["members"]
    ]
    if name != answer["protocol_name"]:
        members = [member for member in members if member["member_id"] == own]  # the others' metadata is of another
    return {**answer, "protocol_type": request["protocol_type"], "protocol_name": name, "members": members}
