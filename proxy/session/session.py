"""One client↔broker conversation: bytes and the time go in, commands come out.

Pure: no socket, no clock, no randomness of its own. A pump splits the bytes and passes on what nothing has to see; what
stops is shown to the fault plan and sent on whole.

Rules it keeps (see ARCHITECTURE.md): answers leave in request order; a held message holds the later ones of its
direction back; an ``acks=0`` Produce never enters the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.proxy.pump import Broken, Carrier, Pump, Stop, Turn
from notleader.proxy.session.answers import Answering
from notleader.proxy.session.commands import Commands, Outlet
from notleader.proxy.session.conversation import Conversation
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.life import CLIENT_IS_OVER, Answers, Event
from notleader.proxy.session.login import Login, LoginError
from notleader.proxy.session.relays import Relays
from notleader.proxy.session.requests import Requesting
from notleader.proxy.wire.addresses import Advertise
from notleader.proxy.wire.errors import Side, WireError


@final
class Session:
    """One client connection and its broker connection.

    ``advertise(node_id, host, port)`` gives the address under which clients reach that broker through
    the proxy, ``login()`` how the proxy authenticates where it relays to. ``max_frame_bytes`` bounds one
    frame, ``max_held_bytes`` what waits in one direction before reading pauses.
    """

    __slots__ = ("_answers", "_conversation", "_relays", "_requests", "_resting", "carrier", "connection")

    def __init__(
        self,
        connection: Connection,
        plan: Plan,
        table: Handling,
        commands: Commands,
        advertise: Advertise,
        *,
        login: Callable[[], Login | None] = lambda: None,
        max_frame_bytes: int = 100 << 20,
        max_held_bytes: int = 4 << 20,
    ) -> None:
        self.connection = connection
        pump = Pump(connection, table, plan, max_frame_bytes=max_frame_bytes)
        self.carrier = Carrier(pump, self)
        """Where the bytes come in; whoever executes the commands may have what passes go a shorter way."""
        self.carrier.client, self.carrier.broker = Outlet(commands.to_client), Outlet(commands.to_broker)
        self.carrier.records = commands
        self._conversation = Conversation(connection, plan, commands, pump)
        self._relays = Relays(commands.to_node, max_frame_bytes, login)
        self._answers = Answering(self._conversation, advertise, max_held_bytes=max_held_bytes)
        self._requests = Requesting(self._conversation, self._answers, self._relays, max_held_bytes=max_held_bytes)
        self._resting: dict[Side, bool] = {}  # of which nothing more is read now, and whether that was all of it

    @property
    def exchanges(self) -> int:
        """How many requests there were."""
        return self.carrier.pump.requests

    def client_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the client sent."""
        self.carrier.client_bytes(data, now_us)

    def broker_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the broker sent."""
        self.carrier.broker_bytes(data, now_us)

    # ---- what the carrier shows -----------------------------------------------------------------

    def requested(self, step: Stop | Turn | Broken, now_us: int) -> None:
        """A request that doesn't just pass."""
        if self._conversation.life.is_closed:
            return
        if isinstance(step, Broken):
            raise WireError(step.reason, side=step.side)
        assert isinstance(step, Stop)
        if step.exchange is None:
            self._requests.token(step.frame, now_us)
        else:
            self._requests.take(step.exchange, step.frame, now_us)

    def answered(self, step: Stop | Turn | Broken, now_us: int) -> None:
        """An answer that doesn't just pass, or one whose turn has come."""
        if self._conversation.life.is_closed:
            return
        if isinstance(step, Broken):
            raise WireError(step.reason, side=step.side)
        if isinstance(step, Turn):
            self._answers.flush(now_us)
        elif step.exchange is None:
            self._answers.token(step.frame)
        else:
            self._answers.take(step.exchange, step.frame, now_us)
        self._let_leave(now_us)

    def rests(self, side: Side, now_us: int) -> None:
        """Read no more of a side: until others have had their turn, or the client has answers."""
        if self._conversation.life.is_closed:
            return
        if side not in self._resting:
            self._resting[side] = False
            self._conversation.commands.pause(side, True)
        if self._may_go_on(side):
            self._conversation.commands.wake(now_us)

    def failed(self, error: Exception, side: Side, now_us: int) -> None:
        """What a side sent can't be taken: close over it."""
        self._conversation.fail(error, side, now_us)

    # ---- the rest -------------------------------------------------------------------------------

    def node_bytes(self, node_id: int, data: bytes, now_us: int) -> None:
        """Take what another broker sent, in answer to parts of requests that were relayed to it."""
        life = self._conversation.life
        if life.is_closed:
            return
        try:
            for exchange in self._relays.received(node_id, data, now_us):
                if not life.is_closed:
                    self._answers.relayed(exchange, now_us)
            self.carrier.ease(now_us)
            self._let_leave(now_us)
        except LoginError as error:
            self._conversation.commands.not_let_in(node_id, str(error))
            if self._relays.waits_for(node_id):
                reason = f"broker {node_id}, to which a request was relayed, doesn't let the proxy in: {error}"
                self._conversation.end(now_us, reason)
        except Exception as error:
            self._conversation.fail(error, "broker", now_us)

    def node_gone(self, node_id: int, reason: str, now_us: int) -> None:
        """The connection to another broker ended: what waits for it is refused in its place."""
        life = self._conversation.life
        for exchange in () if life.is_closed else self._relays.gone(node_id, reason):
            if not life.is_closed:
                self._answers.relayed(exchange, now_us)
        self._let_leave(now_us)

    def client_eof(self, now_us: int) -> None:
        """The client will send no more; what it asked for is still answered."""
        life = self._conversation.life
        if self._conversation.client_left_us is None:
            self._conversation.client_left_us = now_us
        if "client" in self._resting:
            self._resting["client"] = True
        elif not life.is_closed and life.requests not in CLIENT_IS_OVER:
            self._requests.end(now_us)

    def broker_eof(self, now_us: int) -> None:
        """The broker will send no more; answers that wait here for their time still leave."""
        here = self._conversation
        if "broker" in self._resting:
            self._resting["broker"] = True
        elif here.life.answers is Answers.SILENT:
            here.end_with_broker(now_us)
        elif not here.life.is_closed:
            if here.life.answers is not Answers.ENDED:
                here.life.happens(Event.BROKER_ENDED)
            here.end_if_drained(now_us)

    def gone(self, now_us: int, reason: str, *, reset: bool = False) -> None:
        """One side vanished, or never came: account for what was open and close the other."""
        self._conversation.end(now_us, reason, reset=reset)

    def wake(self, now_us: int) -> None:
        """Go on with whatever waited for this time, or for a rule that changed."""
        if self._conversation.life.is_closed:
            return
        try:
            self._requests.run_held(now_us)
            self._answers.flush(now_us)
        except Exception as error:
            self._conversation.fail(error, "client", now_us)
        self.carrier.ease(now_us)
        for side in tuple(self._resting):
            if self._may_go_on(side):
                self._go_on(side, now_us)

    def _let_leave(self, now_us: int) -> None:
        """Have it noticed that the client leaves where it waits for answers of which none will come any more."""
        if self.carrier.is_crowded and self._conversation.is_stuck():
            self._conversation.commands.wake(now_us)

    def _may_go_on(self, side: Side) -> bool:
        """Whether a side only rests for the others' sake, or can only leave."""
        return side == "broker" or not self.carrier.is_crowded or self._conversation.is_stuck()

    def _go_on(self, side: Side, now_us: int) -> None:
        """Take what is still here of a side that has rested, and read on."""
        was_all = self._resting.pop(side)
        self._conversation.commands.pause(side, False)
        if side == "client" and self.carrier.is_crowded:
            self._conversation.pump.ignores_requests = True
        (self.carrier.client_bytes if side == "client" else self.carrier.broker_bytes)(b"", now_us)
        if was_all:
            (self.client_eof if side == "client" else self.broker_eof)(now_us)
