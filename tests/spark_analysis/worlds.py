"""Small worlds of clients, brokers and a proxy with rules, played in made-up time: what happened, and without a rule.

A world is played again with some of its rules only; what then becomes of a send is what the rules did to it. Nothing
here knows how the analysis finds causes. Times are ms since the world began.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.spark_analysis.synthetic import MS, START_US, Story

END_MS = 14_000
_BROKER_MS = 2
_BACKOFF_MS = 100
_BOOTSTRAP = 0
OWN = ("refuses", "slow")
"""What brokers do by themselves."""


@dataclass(frozen=True)
class Rule:
    """Strikes requests of that kind in its time, those of one client and of one partition where it says so.

    Of Metadata it changes what is said of that partition.
    """

    name: str
    does: str
    api: str
    since: int
    until: int
    client: str | None = None
    partition: int | None = None
    hold: int = 0
    broker: int | None = None
    """Of what stands (STANDING): at the listener of that broker, for as long as it is its time."""
    discard: bool = False
    """Of a silence: at its end its connections are reset."""

    def strikes(self, at: int, client: str, api: str, partition: int | None) -> bool:
        """Whether a request of then and there is struck."""
        return (
            self.since <= at < self.until
            and api == self.api
            and self.client in (None, client)
            and (self.partition in (None, partition) or api == "Metadata")
        )


@dataclass(frozen=True)
class Habits:
    """How a client sends: its bounds, and whether a partition's next batch waits for the one before."""

    in_flight: int
    ordered: bool
    request_ms: int
    delivery_ms: int
    acks: int = -1
    obeys: bool = False
    """Whether it sends nothing over a connection for as long as an answer there says (`throttle_time_ms`)."""


@dataclass(frozen=True)
class World:
    """What there is and what is planned: each client's sends as (when, partition), the brokers' own troubles."""

    clients: dict[str, Habits]
    sends: dict[str, tuple[tuple[int, int], ...]]
    rules: tuple[Rule, ...]
    refuses: tuple[tuple[int, int, int], ...]
    """Partition, since, until: its broker says that it is not the leader, of its own accord."""
    slow: tuple[tuple[int, int, int, int], ...]
    """Broker, since, until, ms: its answers take that long."""


class Became(NamedTuple):
    """What became of a send, for its application, on the wire and in the log; `took` None: it was never told."""

    outcome: str
    took: int | None
    attempts: int
    copies: int


_KINDS = {
    "held_answer": "stall", "held_request": "stall", "answered": "error", "swallowed_request": "drop_request",
    "swallowed_answer": "drop_response", "cut": "reset", "altered_answer": "leader_election", "muted": "throttle",
}  # fmt: skip
STANDING = {"silenced": "blackhole", "refused": "refuse"}
"""What is done to listeners and connections, not to requests."""
_WIDER = {**_KINDS, **STANDING, "throttled": "throttle"}
_OF_ANSWERS = ("answered", "held_answer", "swallowed_answer", "altered_answer", "muted", "throttled")


def wide_world(seed: int) -> World:
    """The world of that number, its clients of more kinds: some want no acknowledgement, some obey a throttle.

    Some of its rules are others: they refuse or silence connections, or tell clients to wait.
    """
    world, dice = random_world(seed), random.Random(f"wide {seed}")
    clients = {
        name: replace(habits, acks=0 if dice.random() < 0.4 else -1, obeys=dice.random() < 0.6)
        for name, habits in world.clients.items()
    }
    rules = tuple(
        _wide_rule(dice, number, tuple(clients)) if number == 0 or dice.random() < 0.5 else rule
        for number, rule in enumerate(world.rules)
    )
    return replace(world, clients=clients, rules=rules)


def _wide_rule(dice: random.Random, number: int, names: tuple[str, ...]) -> Rule:
    does = dice.choice(["silenced", "silenced", "refused", "refused", "throttled", "throttled", "muted", "cut",
                        "swallowed_request", "held_request"])  # fmt: skip
    since = dice.randrange(0, 5000, 10)
    until = since + dice.choice([30, 300, 1200, 4000])
    name = f"rule-{number}-{does}".replace("_", "-")
    if does in STANDING:
        return Rule(
            name, does, "", since, until, broker=dice.randrange(3), discard=does == "silenced" and dice.random() < 0.5
        )
    api = "Metadata" if does == "throttled" and dice.random() < 0.3 else "Produce"
    hold = dice.choice([400, 1300, 2600]) if does in ("throttled", "muted", "held_request") else 0
    return Rule(name, does, api, since, until, dice.choice([None, *names]), hold=hold)


def random_world(seed: int) -> World:
    """The world of that number: always the same."""
    dice = random.Random(seed)
    names = ("a", "b")[: dice.choice([1, 2, 2])]
    clients = {
        name: Habits(
            dice.choice([1, 2, 5]), dice.random() < 0.6, dice.choice([1500, 2500]), dice.choice([2000, 4000, 60_000])
        )
        for name in names
    }  # fmt: skip
    sends = {
        name: tuple(sorted((dice.randrange(200, 5000, 10), dice.randrange(3)) for _ in range(dice.randrange(4, 10))))
        for name in names
    }
    return World(
        clients,
        sends,
        tuple(_random_rule(dice, number, names) for number in range(dice.choice([1, 2, 2, 3, 4]))),
        tuple((dice.randrange(3), at, at + dice.choice([300, 1500])) for at in _moments(dice, 0.25)),
        tuple((dice.randrange(2), at, at + 400, dice.choice([1200, 2000])) for at in _moments(dice, 0.25)),
    )


def _moments(dice: random.Random, chance: float) -> list[int]:
    return [dice.randrange(200, 5000, 10)] if dice.random() < chance else []


def _random_rule(dice: random.Random, number: int, names: tuple[str, ...]) -> Rule:
    does = dice.choice([*_KINDS, "held_answer", "held_request"])
    told = does == "altered_answer"
    api = "Metadata" if told or (does in ("held_answer", "swallowed_answer") and dice.random() < 0.2) else "Produce"
    since = dice.randrange(0, 5000, 10)
    one = api == "Produce" and dice.random() < 0.4
    return Rule(
        f"rule-{number}-{does}".replace("_", "-"), does, api, since,
        since + dice.choice([30, 300, 1200, 4000, 12_000]),
        dice.choice([None, *names]), dice.randrange(3) if one or (told and dice.random() < 0.5) else None,
        dice.choice([15, 40, 1300, 2600]) if does.startswith("held") or does == "muted" else 0,
    )  # fmt: skip


def powers(world: World) -> frozenset[str]:
    """All that may have a hand in it: the rules by name, and the brokers' own OWN."""
    return frozenset([*(rule.name for rule in world.rules), *OWN])


def play(world: World, with_: Collection[str] | None = None, story: Story | None = None) -> dict[str, Became]:
    """By message id what became of it, with those `powers` only; `story` is told what proxy and clients would tell."""
    return _Played(_with(world, powers(world) if with_ is None else with_), story).all()


def first_strikes(world: World) -> dict[str, int]:
    """When each rule first struck."""
    played = _Played(world, None)
    played.all()
    return played.struck


def ended(world: World, at: int, but: str) -> World:
    """The world where from then on nothing goes wrong any more, but by that rule."""
    return replace(
        world,
        rules=tuple(r if r.name == but else replace(r, until=min(r.until, at)) for r in world.rules),
        refuses=tuple((partition, since, min(until, at)) for partition, since, until in world.refuses),
        slow=tuple((broker, since, min(until, at), ms) for broker, since, until, ms in world.slow),
    )


def _with(world: World, some: Collection[str]) -> World:
    left = {name: getattr(world, name) if name in some else () for name in OWN}
    return replace(world, rules=tuple(rule for rule in world.rules if rule.name in some), **left)


@dataclass
class _Send:
    id: str
    partition: int
    called: int
    attempts: int = 0
    outcome: str = "pending"
    done: int | None = None
    not_before: int = 0
    offset: int | None = None


@dataclass
class _Exchange:
    row: dict[str, Any]
    send: _Send | None
    effects: list[tuple[Rule, int | None]] = field(default_factory=list)
    over: bool = False


class _Line:
    """One connection: what is on it, in turn."""

    def __init__(self, number: int, broker: int, owner: _Client) -> None:
        self.number, self.broker, self.owner = number, broker, owner
        self.told_until = 0
        self.turn = 0
        self.waiting: deque[_Exchange] = deque()
        self.forwarded = 0
        self.muted_until = 0
        self.closed = False


class _Client:
    def __init__(self, name: str, habits: Habits) -> None:
        self.name, self.habits = name, habits
        self.queues: dict[int, deque[_Send]] = defaultdict(deque)
        self.led: dict[int, bool] = {}
        self.lines: dict[int, _Line] = {}
        self.dials_at: dict[int, int] = {}
        self.asking = False


class _Played:
    def __init__(self, world: World, story: Story | None) -> None:
        self.world, self.rules, self.story = world, world.rules, story
        self.now, self.number, self.lines = 0, 0, 0
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.sends: dict[str, _Send] = {}
        self.logs: dict[int, list[str]] = defaultdict(list)
        self.struck: dict[str, int] = {}
        self.open: list[_Line] = []

    def all(self) -> dict[str, Became]:
        for rule in self.rules:
            if rule.does == "silenced" and rule.since < rule.until:
                self.at(rule.since, lambda r=rule: self.falls_silent(r))  # type: ignore[misc]
                self.at(rule.until, lambda r=rule: self.goes_on(r))  # type: ignore[misc]
        for name, habits in self.world.clients.items():
            client = _Client(name, habits)
            self.at(0, lambda client=client: self.ask(client))  # type: ignore[misc]
            for place, (when, partition) in enumerate(self.world.sends[name]):
                send = _Send(f"{name}{place}", partition, when)
                self.sends[send.id] = send
                self.at(when, lambda c=client, s=send: self.call(c, s))  # type: ignore[misc]
                self.at(when + habits.delivery_ms, lambda c=client, s=send: self.give_up(c, s))  # type: ignore[misc]
        while self.agenda and self.agenda[0][0] < END_MS:
            self.now, _, do = heapq.heappop(self.agenda)
            do()
        if self.story is not None:
            self.tell()
        return {
            send.id: Became(
                send.outcome,
                None if send.done is None else send.done - send.called,
                send.attempts,
                self.logs[send.partition].count(send.id),
            )
            for send in self.sends.values()
        }

    def at(self, when: int, do: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.agenda, (when, self.number, do))

    # The client.

    def call(self, client: _Client, send: _Send) -> None:
        client.queues[send.partition].append(send)
        self.drain(client)

    def give_up(self, client: _Client, send: _Send) -> None:
        if send.done is None:
            send.outcome, send.done = "info", self.now
            if send in client.queues[send.partition]:
                client.queues[send.partition].remove(send)
            self.drain(client)

    def drain(self, client: _Client) -> None:
        for partition, queue in sorted(client.queues.items()):
            while queue:
                if not client.led.get(partition):
                    self.ask(client)
                    break
                line = self.line(client, 1 + partition % 2)
                if line is None:
                    break
                flying = [e.send for e in line.waiting if not e.over and e.send is not None]
                if len(flying) >= client.habits.in_flight:
                    break
                if client.habits.ordered and any(send.partition == partition for send in flying):
                    break
                if queue[0].not_before > self.now:
                    break
                self.produce(client, line, queue.popleft())

    def line(self, client: _Client, broker: int) -> _Line | None:
        """Its connection to that broker; None where there is none, or it may say nothing there now."""
        line = client.lines.get(broker)
        if line is not None and not line.closed:
            if line.told_until > self.now:
                return None
            return line
        if client.dials_at.get(broker, 0) > self.now:
            return None
        refusing, silent = self.standing("refused", broker), self.standing("silenced", broker)
        for rule in silent or refusing:
            self.struck.setdefault(rule.name, self.now)
        if refusing or silent:
            # A dial that nobody answers ends when somebody does, or is given up.
            gives_up = self.now + (client.habits.request_ms if silent else _BACKOFF_MS)
            client.dials_at[broker] = min(gives_up, self.silent_until(broker)) if silent else gives_up
            self.at(client.dials_at[broker], lambda: self.drain(client))
            return None
        self.lines += 1
        line = client.lines[broker] = _Line(self.lines, broker, client)
        self.open.append(line)
        self.event(line, "connect", detail=_listener(broker))
        return line

    def produce(self, client: _Client, line: _Line, send: _Send) -> None:
        exchange = self.request(client, line, send)
        if client.habits.acks == 0:
            exchange.over = True
            line.waiting.remove(exchange)
            send.outcome, send.done = "ok", self.now
            return
        self.at(self.now + client.habits.request_ms, lambda: self.late(client, line, exchange))

    def late(self, client: _Client, line: _Line, exchange: _Exchange) -> None:
        """Nobody answered in time: the connection is given up, and what was on it goes out again."""
        if not exchange.over and not line.closed:
            self.close(client, line)

    def close(self, client: _Client, line: _Line) -> None:
        line.closed = True
        # Nobody hears of the end of a connection that is silent before that is over.
        heard = self.silent_until(line.broker)
        if heard > self.now:
            self.event(line, "fault", heard, detail="goes on")
        self.event(line, "disconnect", heard)
        again = [e for e in line.waiting if not e.over]
        for exchange in again:
            exchange.over = True
        for exchange in reversed(again):
            if exchange.send is not None:
                self.retry(client, exchange.send)
        if any(e.send is None for e in again):
            client.asking = False
            self.at(self.now + _BACKOFF_MS, lambda: self.ask(client))
        self.drain(client)

    def retry(self, client: _Client, send: _Send) -> None:
        if send.done is None:
            send.not_before = self.now + _BACKOFF_MS
            client.queues[send.partition].appendleft(send)
            self.at(send.not_before, lambda: self.drain(client))

    def ask(self, client: _Client) -> None:
        line = None if client.asking else self.line(client, _BOOTSTRAP)
        if line is not None:
            client.asking = True
            exchange = self.request(client, line, None)
            self.at(self.now + client.habits.request_ms, lambda: self.late(client, line, exchange))

    # The proxy.

    def request(self, client: _Client, line: _Line, send: _Send | None) -> _Exchange:
        """A Produce of `send`, or else a Metadata."""
        exchange = _Exchange({}, send)
        line.waiting.append(exchange)
        self.read(client, line, exchange)
        return exchange

    def standing(self, does: str, broker: int) -> list[Rule]:
        return [r for r in self.rules if r.does == does and r.broker == broker and r.since <= self.now < r.until]

    def silent_until(self, broker: int) -> int:
        """When what is silent there is so no more; now, where nothing is."""
        until = self.now
        silences = [rule for rule in self.rules if rule.does == "silenced" and rule.broker == broker]
        while longer := [rule.until for rule in silences if rule.since <= until < rule.until]:
            until = max(longer)
        return until

    def falls_silent(self, rule: Rule) -> None:
        for line in list(self.open):
            if line.broker == rule.broker and not line.closed:
                self.struck.setdefault(rule.name, self.now)
                self.event(line, "fault", rules=[rule])

    def goes_on(self, rule: Rule) -> None:
        """A line goes on where it stopped, or is reset, once no rule silences it any more."""
        if self.standing("silenced", rule.broker or 0):
            return
        for line in list(self.open):
            if line.broker == rule.broker and not line.closed:
                self.event(line, "fault", detail="goes on")
                if rule.discard:
                    self.close(line.owner, line)
                else:
                    self.at(self.now, lambda at=line: self.deliver(at.owner, at))  # type: ignore[misc]

    def waits_for_its_line(self, line: _Line, do: Callable[[], None]) -> bool:
        """Whether the line is silent now: then it is done when it goes on."""
        until = self.silent_until(line.broker)
        if until > self.now:
            self.at(until, do)
        return until > self.now

    def read(self, client: _Client, line: _Line, exchange: _Exchange) -> None:
        """A request is read unless the connection is gone by now: one that was muted is read when that is over."""
        if line.closed:
            return
        if line.muted_until > self.now:
            self.at(line.muted_until, lambda: self.read(client, line, exchange))
            return
        if self.waits_for_its_line(line, lambda: self.read(client, line, exchange)):
            return
        line.turn += 1
        api, partition = "Metadata", None
        if exchange.send is not None:
            api, partition = "Produce", exchange.send.partition
            exchange.send.attempts += 1
        row = exchange.row
        row |= {"at": self.now, "client": client.name, "line": line, "turn": line.turn, "exchange": exchange}
        if self.story is not None:
            self.story.exchanges.append(row)
        met = [r for r in self.rules if r.strikes(self.now, client.name, api, partition)]
        if exchange.send is not None and client.habits.acks == 0:
            # There is no answer to do something to.
            met = [r for r in met if r.does not in _OF_ANSWERS]
        for rule in met:
            self.struck.setdefault(rule.name, self.now)
        ending = next((r for r in met if r.does in ("answered", "swallowed_request", "cut")), None)
        held = 0
        for rule in met:
            if rule.does == "held_request":
                held += rule.hold
                exchange.effects.append((rule, rule.hold * MS))
            if rule is ending:
                break
        if ending is not None:
            exchange.effects.append((ending, None))
            self.at(self.now + held, lambda: self.end(client, line, exchange, ending))
            return
        line.forwarded = max(self.now, line.forwarded) + held
        self.at(line.forwarded, lambda: self.forward(client, line, exchange, met))

    def end(self, client: _Client, line: _Line, exchange: _Exchange, rule: Rule) -> None:
        if line.closed or self.waits_for_its_line(line, lambda: self.end(client, line, exchange, rule)):
            return
        row = exchange.row
        if rule.does == "cut":
            row["outcome"] = "closed"
            self.close(client, line)
        elif rule.does == "swallowed_request":
            row["outcome"] = "dropped"
        else:
            self.answer(client, line, exchange, 6, "injected", self.now)

    def forward(self, client: _Client, line: _Line, exchange: _Exchange, met: list[Rule]) -> None:
        if line.closed or self.waits_for_its_line(line, lambda: self.forward(client, line, exchange, met)):
            return
        row = exchange.row
        row["forwarded"] = self.now
        took = max([_BROKER_MS, *[ms for broker, since, until, ms in self.world.slow
                                  if line.broker == broker + 1 and since <= self.now < until]])  # fmt: skip
        self.at(self.now + took, lambda: self.broker(client, line, exchange, met))

    def broker(self, client: _Client, line: _Line, exchange: _Exchange, met: list[Rule]) -> None:
        if line.closed:
            return
        row, code = exchange.row, 0
        if exchange.send is not None:
            place = exchange.send.partition
            if any(p == place and since <= self.now < until for p, since, until in self.world.refuses):
                code = 6
            else:
                row["offset"] = exchange.send.offset = len(self.logs[place])
                self.logs[place].append(exchange.send.id)
            if client.habits.acks == 0:
                if code:
                    # A broker has no other way to say so.
                    client.led[place] = False
                    self.close(client, line)
                return
        self.said(client, line, exchange, met, code)

    def said(self, client: _Client, line: _Line, exchange: _Exchange, met: list[Rule], code: int) -> None:
        """The broker's answer is read."""
        if line.closed or self.waits_for_its_line(line, lambda: self.said(client, line, exchange, met, code)):
            return
        row = exchange.row
        row["broker"] = self.now
        held = sum(r.hold for r in met if r.does == "held_answer")
        exchange.effects += [(r, r.hold * MS) for r in met if r.does == "held_answer"]
        swallows = next((r for r in met if r.does == "swallowed_answer"), None)
        if swallows is not None:
            exchange.effects.append((swallows, None))
            row["outcome"] = "dropped"
            return
        throttles = next((r for r in met if r.does in ("muted", "throttled")), None)
        if throttles is not None:
            exchange.effects.append((throttles, None))
            row["told_ms"] = throttles.hold
            row["muted_ms"] = throttles.hold if throttles.does == "muted" else 0
        lies = tuple(r for r in met if r.does == "altered_answer")
        exchange.effects += [(r, None) for r in lies]
        outcome = "altered" if lies or throttles else "answered"
        self.answer(client, line, exchange, code, outcome, self.now + held, lies)

    def answer(
        self,
        client: _Client,
        line: _Line,
        exchange: _Exchange,
        code: int,
        outcome: str,
        when: int,
        lies: tuple[Rule, ...] = (),
    ) -> None:
        exchange.row["ready"] = (code, outcome, when, lies)
        self.deliver(client, line)

    def deliver(self, client: _Client, line: _Line) -> None:
        """Answers go out in turn, each when it may."""
        while line.waiting and not line.closed:
            if self.silent_until(line.broker) > self.now:
                return  # it goes on when the line does
            exchange = line.waiting[0]
            if "ready" not in exchange.row:
                return
            code, outcome, when, lies = exchange.row["ready"]
            if when > self.now:
                self.at(when, lambda: self.deliver(client, line))
                return
            line.waiting.popleft()
            exchange.row |= {"code": code, "outcome": outcome, "answered": self.now}
            exchange.over = True
            line.muted_until = max(line.muted_until, self.now + exchange.row.get("muted_ms", 0))
            if client.habits.obeys and exchange.row.get("told_ms"):
                line.told_until = max(line.told_until, self.now + exchange.row["told_ms"])
                self.at(line.told_until, lambda: self.drain(client))
            self.got(client, exchange, code, lies)
        self.drain(client)

    # The client again.

    def got(self, client: _Client, exchange: _Exchange, code: int, lies: tuple[Rule, ...]) -> None:
        send = exchange.send
        if send is None:
            client.asking = False
            lost = {r.partition for r in lies}
            for partition in range(3):
                client.led[partition] = not (None in lost or partition in lost)
            if any(queue and not client.led[partition] for partition, queue in client.queues.items()):
                self.at(self.now + _BACKOFF_MS, lambda: self.drain(client))
        elif code:
            client.led[send.partition] = False
            self.retry(client, send)
            return
        elif send.done is None:
            send.outcome, send.done = "ok", self.now
        self.drain(client)

    # What is recorded.

    def event(
        self, line: _Line, event: str, at: int | None = None, detail: str | None = None, rules: Collection[Rule] = ()
    ) -> None:
        if self.story is not None:
            client = None if event == "connect" else line.owner.name
            told = {"at": self.now if at is None else at, "event": event, "detail": detail, "rules": rules}
            self.story.exchanges.append({**told, "client": client, "line": line})

    def tell(self) -> None:
        """Rows as a capture has them, and the clients' lines."""
        assert self.story is not None
        told, self.story.exchanges = self.story.exchanges, []
        prefix = self.story.client
        for row in told:
            line = row["line"]
            client = None if row["client"] is None else f"{prefix}-{row['client']}"
            where = {"client_id": client, "connection_id": line.number, **_at_listener(line.broker)}
            if "event" in row:
                self._tell_event(row["at"], row["event"], row["detail"], row["rules"], **where)
            else:
                self._tell_exchange(row, where)
        self._tell_listeners()
        self.story.exchange(END_MS, "ApiVersions", client_id=f"{prefix}-nobody", connection_id=10_000)
        for partition, messages in self.logs.items():
            self.story.holds(*[f"{prefix}-{message}" for message in messages], topic=prefix, partition=partition)
        for send in self.sends.values():
            took = None if send.done is None else send.done - send.called
            name = f"{prefix}-{send.id[0]}"
            self.story.send(
                send.called, f"{prefix}-{send.id}", client=name, client_id=name, partition=send.partition,
                took_ms=took, outcome=send.outcome, topic=prefix,
                offset=send.offset if send.outcome == "ok" and self.world.clients[send.id[0]].acks else None,
                error="timed out" if send.outcome == "info" else None,
            )  # fmt: skip

    def _tell_event(self, at: int, event: str, detail: str | None, rules: Collection[Rule], **where: Any) -> None:
        assert self.story is not None
        effects = [
            {"rule": r.name, "kind": _WIDER[r.does], "did": r.does, "held_us": None, "error_code": None,
             "partitions": None}
            for r in rules
        ]  # fmt: skip
        names, kinds = ([e[of] for e in effects] for of in ("rule", "kind"))
        made = self.story.exchange(
            at, "", event=event, took_ms=None, detail=detail or ", ".join(names) or None, effects=effects or None,
            fault_names=names, fault_kinds=kinds, **where,
        )  # fmt: skip
        made |= dict.fromkeys(("api_name", "api_key", "exchange_seq", "forwarded_at_us", "outcome", "error_code"))

    def _tell_listeners(self) -> None:
        """What has become of each listener, whenever that changes or a rule begins; a silence wins."""
        for broker in range(3):
            of_it = [r for r in self.rules if r.does in STANDING and r.broker == broker and r.since < r.until]
            was = "open"
            for at in sorted({moment for r in of_it for moment in (r.since, r.until) if moment < END_MS}):
                now = {r.does for r in of_it if r.since <= at < r.until}
                fate = "silent" if "silenced" in now else "refusing" if now else "open"
                begun = [r for r in of_it if r.since == at]
                if fate != was or begun:
                    names = ", ".join(r.name for r in begun)
                    detail = f"listener {_listener(broker)} is {fate}{names and f': {names}'}"
                    nowhere = {"client_id": None, "connection_id": None, "node_id": None, "listener": None}
                    self._tell_event(at, "fault", detail, begun, **nowhere)
                was = fate

    def _tell_exchange(self, row: dict[str, Any], where: dict[str, Any]) -> None:
        assert self.story is not None
        exchange: _Exchange = row["exchange"]
        send, at = exchange.send, row["at"]
        effects = [
            {"rule": r.name, "kind": _WIDER[r.does], "held_us": held_us,
             "did": "altered_answer" if r.does == "throttled" else r.does,
             "error_code": 6 if r.does == "answered" else 5 if r.does == "altered_answer" else None,
             "partitions": None if r.partition is None or r.does != "altered_answer" else [r.partition]}
            for r, held_us in exchange.effects
        ]  # fmt: skip
        # The answer says for how long its connection is muted.
        effects += [{**e, "did": "altered_answer"} for e in effects if e["did"] == "muted"]
        lost = {r.partition for r, _ in exchange.effects if r.does == "altered_answer"}
        answered = row.get("answered")
        outcome = row.get("outcome", "no_response")
        of_request = any(r.does not in _OF_ANSWERS or r.does == "answered" for r, _ in exchange.effects)
        given = {
            **where,
            "exchange_seq": row["turn"],
            "took_ms": None if answered is None else answered - at,
            "outcome": outcome,
            "effects": effects or None,
            "fault_names": list(dict.fromkeys(e["rule"] for e in effects)),
            "fault_kinds": list(dict.fromkeys(e["kind"] for e in effects)),
            "fault_phase": None if not effects else "before_broker" if of_request else "after_broker",
            "forwarded_at_us": _us(row.get("forwarded")),
            "broker_responded_at_us": _us(row.get("broker")),
            "error_code": row.get("code", 0) or (5 if outcome == "altered" and lost else 0),
            "throttle_time_ms": row.get("told_ms"),
        }
        prefix = self.story.client
        if send is None:
            places = [
                {"topic": prefix, "partition_index": p, "error_code": 5 if None in lost or p in lost else 0}
                for p in range(3)
            ]
            self.story.exchange(at, "Metadata", partitions=places, **given)
        else:
            acks = self.world.clients[send.id[0]].acks
            self.story.produce(
                at, send.partition, topic=prefix, message_ids=[f"{prefix}-{send.id}"],
                acks=acks, base_offset=row.get("offset", -1) if acks else -1, **given,
            )  # fmt: skip


def _listener(broker: int) -> str:
    return f"broker-{broker}" if broker else "bootstrap"


def _at_listener(broker: int) -> dict[str, Any]:
    return {"listener": _listener(broker), "node_id": broker or None}


def _us(at: int | None) -> int | None:
    return None if at is None else START_US + at * MS
