"""`session_expiry`: the authentication doesn't last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, RewriteResponse
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.faults.document import YEAR_MS
from notleader.proxy.wire.names import ApiKey


class SessionExpiry(Fault):
    """A SaslAuthenticate answer says that the session lasts `session_lifetime_ms` only (KIP-368).

    A client that supports it authenticates again in time, most at 85 to 95 % of the lifetime, at most once a second;
    only a broker whose own sessions expire (`connections.max.reauth.ms`) lets it. What brokers do to clients that don't
    is a `close` with `trigger: {after_ms: …}`.
    """

    kind: Literal["session_expiry"] = "session_expiry"
    phase: Literal["after_broker"] = "after_broker"
    default_api_keys = frozenset((ApiKey.SaslAuthenticate,))

    session_lifetime_ms: int = Field(10_000, ge=1, le=YEAR_MS, description="How long the session is said to last.")

    def on_response(self, context: Context) -> Iterable[Action]:
        if "session_lifetime_ms" not in context.answer:
            raise NotApplicableError("SaslAuthenticate before version 1 names no lifetime")
        yield RewriteResponse({**context.answer, "session_lifetime_ms": self.session_lifetime_ms})
