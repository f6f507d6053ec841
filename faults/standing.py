"""Rules that stand: what they make of listeners and connections, from when to when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from notleader.faults.actions import Close, Refuse, Reset, Shape, Silence, Standing
from notleader.faults.base import BeginContext, Connection, StandingFault
from notleader.faults.decision import Hit
from notleader.faults.effects import standing
from notleader.faults.rule import Rule

if TYPE_CHECKING:
    from notleader.faults.cluster import Cluster
    from notleader.faults.election import Elections


class ListenerState(NamedTuple):
    """What a listener has to be now; `hits` are the rules that touch it for the first time."""

    fate: Literal["open", "refusing", "silent"]
    hits: tuple[Hit, ...] = ()


class LinkState(NamedTuple):
    """What a connection has to be now: cut, silent, or shaped; `hits` are the rules that touch it for the
    first time, and `shaped_by` has the rule of each shape.
    """

    cut: Close | Reset | None = None
    silence: Silence | None = None
    shapes: tuple[Shape, ...] = ()
    hits: tuple[Hit, ...] = ()
    shaped_by: tuple[Hit, ...] = ()


OPEN = ListenerState("open")
UNTOUCHED = LinkState()


class StandingRules:
    """The standing rules of a plan, in order, and which of them are in force."""

    __slots__ = ("_cluster", "_elections", "_in_force", "_rules", "_touched")

    def __init__(self, cluster: Cluster, elections: Elections) -> None:
        self._cluster = cluster
        self._elections = elections
        self._rules: list[tuple[Rule, StandingFault]] = []
        self._in_force: list[tuple[Rule, StandingFault]] = []
        self._touched: set[tuple[int, str | int]] = set()

    def replace(self, rules: Iterable[Rule]) -> None:
        """These are the rules of the plan now; what is gone ends."""
        self._rules = [(rule, rule.fault) for rule in rules if isinstance(rule.fault, StandingFault)]
        kept = {id(rule) for rule, _ in self._rules}
        for rule, fault in self._in_force:
            if id(rule) not in kept:
                fault.end(self._context(rule, 0))
        self._in_force = [entry for entry in self._in_force if id(entry[0]) in kept]
        self._touched = {touched for touched in self._touched if touched[0] in kept}

    def advance(self, now_us: int) -> None:
        """Let rules begin and end whose time has come."""
        if not self._rules:
            return
        for rule, fault in self._rules:
            rule.trigger.start(now_us)
            is_in_force = (rule, fault) in self._in_force
            if rule.trigger.is_open(now_us) == is_in_force:
                if is_in_force and (due_us := fault.next_change_us(rule.state)) is not None and now_us >= due_us:
                    fault.change(self._context(rule, now_us))
                continue
            if is_in_force:
                self._in_force.remove((rule, fault))
                rule.is_exhausted = rule.trigger.is_over(now_us)
                fault.end(self._context(rule, now_us))
            else:
                self._in_force.append((rule, fault))
                fault.begin(self._context(rule, now_us))

    def is_in_force(self, rule: Rule) -> bool:
        """Whether a rule stands now."""
        return any(rule is other for other, _ in self._in_force)

    def next_change_us(self, now_us: int) -> int | None:
        """When a rule begins or ends next; None when only a change of the plan can bring it."""
        times = [rule.trigger.next_change_us(now_us) for rule, _ in self._rules]
        times += [fault.next_change_us(rule.state) for rule, fault in self._in_force]
        return min((time for time in times if time is not None), default=None)

    def listener(self, name: str, node_id: int | None, now_us: int) -> ListenerState:
        """What the listener `name` has to be; silence wins over refusal."""
        self.advance(now_us)
        asked: list[Standing] = []
        hits: list[Hit] = []
        for rule, fault in self._in_force:
            reached = self._reached(node_id, rule)
            if fault.means(name, reached, None, rule.state) and (wanted := list(fault.of_listener())):
                asked += wanted
                hits += self._first_touch(rule, name, wanted)
        if any(isinstance(action, Silence) for action in asked):
            return ListenerState("silent", tuple(hits))
        if any(isinstance(action, Refuse) for action in asked):
            return ListenerState("refusing", tuple(hits))
        return OPEN

    def link(self, connection: Connection, now_us: int) -> LinkState:
        """What the connection has to be."""
        self.advance(now_us)
        cut: Close | Reset | None = None
        silence: Silence | None = None
        shapes: list[Shape] = []
        shaped_by: list[Hit] = []
        hits: list[Hit] = []
        for rule, fault in self._in_force:
            reached = self._reached(connection.node_id, rule)
            if not fault.means(connection.listener, reached, connection, rule.state):
                continue
            wanted = list(fault.of_connection())
            if wanted:
                hits += self._first_touch(rule, connection.connection_id, wanted)
            for action in wanted:
                if isinstance(action, Close | Reset):
                    cut = cut or action
                elif isinstance(action, Silence):
                    silence = silence or action
                elif isinstance(action, Shape):
                    shapes.append(action)
                    shaped_by.append(rule.seen())
        if cut is None and silence is None and not shapes:
            return UNTOUCHED
        return LinkState(cut, silence, tuple(shapes), tuple(hits), tuple(shaped_by))

    def _reached(self, node_id: int | None, rule: Rule) -> int | None:
        """The broker at a listener: for whoever bootstraps any that is up, else the one that this rule keeps away."""
        if node_id is not None or not self._elections.nobody_is_left:
            return node_id
        kept_away = self._elections.absent.get(rule.name)
        return kept_away if kept_away in self._cluster.brokers else None

    def _first_touch(self, rule: Rule, touched: str | int, wanted: Iterable[Standing]) -> list[Hit]:
        key = (id(rule), touched)
        if key in self._touched:
            return []
        self._touched.add(key)
        return [rule.hit(standing(wanted))]

    def _context(self, rule: Rule, now_us: int) -> BeginContext:
        return BeginContext(
            rule.name, now_us, self._cluster, self._elections, rule.state, rule.random, rule.trigger.followed_node_id
        )
