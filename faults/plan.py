"""The rules in force, and what they decide for one connection, request or response."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from notleader.faults.actions import TERMINAL, Action, Body, RewriteResponse
from notleader.faults.answers import NoPlaceForError
from notleader.faults.base import (
    BeginContext,
    ConnectContext,
    Connection,
    Context,
    Fault,
    NotApplicableError,
    Phase,
    StandingFault,
)
from notleader.faults.cluster import Cluster
from notleader.faults.decision import NOTHING, Decision, Hit, Pending
from notleader.faults.effects import Effect, altered, of_answer, of_request
from notleader.faults.election import Elections
from notleader.faults.election_state import Touch
from notleader.faults.fetch_sessions import FetchSessions, ShareSessions
from notleader.faults.index import Index
from notleader.faults.needs import REQUEST, REQUEST_BODY, RESPONSE_BODY
from notleader.faults.open_decision import OpenDecision
from notleader.faults.random_source import RandomSource, SeededRandom
from notleader.faults.rule import Rule, union
from notleader.faults.standing import LinkState, ListenerState, StandingRules
from notleader.proxy.wire.codec import is_known
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import ApiKey

if TYPE_CHECKING:
    from notleader.proxy.wire.view import Request, Response

__all__ = ["NOTHING", "REQUEST", "REQUEST_BODY", "RESPONSE_BODY", "Decision", "Hit", "Pending", "Plan", "Rule"]

_MOST_GONE = 10_000


class Plan:
    """Rules in order, elections and the cluster as seen; every decision depends on nothing but these and `now_us`.

    `now_us` is any monotonic clock in microseconds, the same for all calls.
    """

    def __init__(
        self,
        seed: int = 0,
        faults: Iterable[Fault] = (),
        *,
        random_source: Callable[[str], RandomSource] = SeededRandom,
    ) -> None:
        self.seed = seed
        self.generation = 0
        self.cluster = Cluster()
        self.elections = Elections(self.cluster, self._changed)
        self.sessions: dict[int, FetchSessions | ShareSessions] = {
            ApiKey.Fetch: FetchSessions(),
            ApiKey.ShareFetch: ShareSessions(),
        }
        self.standing = StandingRules(self.cluster, self.elections)
        self.can_log_in = False
        """Whether requests of clients that authenticate can be relayed, for there are credentials to do it with."""
        self.on_refusal: Callable[[Rule, str], None] | None = None
        """Told of a rule that meant an exchange but can't be applied to it, once for each reason in a row."""
        self.on_start: Callable[[], None] | None = None
        """Told when a rule struck that others wait for: what stands may be another from now on."""
        self._rules_in_order: list[Rule] = []
        self._random_source = random_source
        self._rules: dict[str, Rule] = {}
        self._rules_ever = 0
        self._awaited: set[str] = set()  # the rules that others wait for
        self._gone: dict[str, str | None] = {}  # the kinds of rules that are gone unhit; None once one was hit
        self._numbers: dict[str, int] = {}
        self._connect_rules: tuple[Rule, ...] = ()
        self._indexes: dict[int, Index] = {}
        self._interest: dict[int, int] = {}
        self._interest_elsewhere = 0
        self._is_changing = False
        with self.together():
            for fault in faults:
                self.add(fault)

    # ---- the rules

    def add(self, fault: Fault, now_us: int | None = None) -> Rule:
        """Put a fault in force after the others; its time window opens at `now_us` (None: when it is next asked).

        Raises ValueError when the name is taken.
        """
        return self._put(self._named(fault), now_us)

    def replace(self, name: str, fault: Fault, now_us: int | None = None) -> Rule:
        """Put `fault` at the place of the rule `name` (or last, when there is none), its counters at zero."""
        self.elections.end_all(name)
        if name in self._rules:
            self._note(self._rules[name])
        return self._put(fault.model_copy(update={"name": name}), now_us)

    def remove(self, name: str) -> None:
        """Take a rule out, and let go what it holds, its elections and moves too; KeyError when there is none."""
        self._note(self._rules.pop(name))
        self.elections.end_all(name)
        self._changed()

    def clear(self) -> None:
        """Take all rules out and end all elections."""
        for rule in self._rules.values():
            self._note(rule)
        self._rules.clear()
        self.elections.end_all()
        self._changed()

    @contextmanager
    def together(self) -> Generator[None]:
        """Several changes as one: what depends on all rules is worked out at the end. Decide nothing within."""
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False
            self._changed()

    def get(self, name: str) -> Rule:
        """The rule of that name; KeyError when there is none."""
        return self._rules[name]

    def begin(self, now_us: int) -> None:
        """From `now_us` on there is something to hit: the time windows of rules that are there already open then."""
        for rule in self._rules.values():
            rule.trigger.start(now_us)

    def rules(self) -> list[Rule]:
        """All rules in their order, the exhausted ones too."""
        return list(self._rules.values())

    def unhit(self) -> dict[str, str]:
        """The kinds of the rules that never hit anything, by name: those of now, and those that are gone."""
        seen = dict(self._gone)
        for rule in self._rules.values():
            _see(seen, rule)
        return {name: kind for name, kind in seen.items() if kind is not None}

    def _note(self, rule: Rule) -> None:
        if rule.name in self._gone or len(self._gone) < _MOST_GONE:
            _see(self._gone, rule)

    def release(self, name: str) -> None:
        """Let go what the rule holds, for good: it is spent, until it is replaced. KeyError when unknown."""
        rule = self._rules[name]
        rule.released = rule.is_exhausted = True
        self._changed()

    def switch(self, name: str, on: bool) -> None:
        """Let the rule rest, or act again: it keeps its place and its counters, not what it holds. KeyError."""
        self._rules[name].is_on = on
        if not on:
            self.elections.end_all(name)
        self._changed()

    def is_held(self, rule_name: str, number: int | None = None) -> bool:
        """Whether an exchange held by that rule still has to wait; with `number`, by that one of those of this name."""
        rule = self._rules.get(rule_name)
        return rule is not None and rule.is_on and not rule.released and number in (None, rule.number)

    def _named(self, fault: Fault) -> Fault:
        if fault.name:
            if fault.name in self._rules:
                raise ValueError(f"a rule named {fault.name!r} is already in force")
            return fault
        number = self._numbers.get(fault.kind, 0) + 1
        while f"{fault.kind}-{number}" in self._rules:
            number += 1
        self._numbers[fault.kind] = number
        return fault.model_copy(update={"name": f"{fault.kind}-{number}"})

    def _put(self, fault: Fault, now_us: int | None) -> Rule:
        self._rules_ever += 1
        random = self._random_source(f"{self.seed}:{fault.name}")
        rule = Rule(fault, random, now_us, self._refused, self._rules_ever)
        awaited = self._rules.get(rule.trigger.waits_for or "")
        if awaited is not None and awaited.hits:
            rule.trigger.follow(now_us or 0, awaited.struck_node_id)
        elif rule.trigger.waits_for is not None:
            self._awaited.add(rule.trigger.waits_for)
        self._rules[fault.name] = rule
        if not isinstance(fault, StandingFault):
            fault.begin(BeginContext(fault.name, now_us or 0, self.cluster, self.elections, rule.state, rule.random))
        self._changed()
        return rule

    # ---- the index

    def _changed(self) -> None:
        if self._is_changing:
            return
        self.generation += 1
        acting = [rule for rule in self._rules.values() if rule.is_on]
        self._connect_rules = tuple(
            rule for rule in acting if rule.fault.phase == "connection" and not isinstance(rule.fault, StandingFault)
        )
        if self._rules_in_order != acting:
            self._rules_in_order = acting
            self.standing.replace(self._rules_in_order)
        rules_by_api: dict[int, list[Rule]] = {int(key): [] for key in ApiKey}
        elsewhere: list[Rule] = []
        for rule in acting:
            if not rule.needs or rule.is_exhausted:
                continue
            if rule.api_keys is None:
                elsewhere.append(rule)
            for api_key in rules_by_api if rule.api_keys is None else rule.api_keys:
                rules_by_api[api_key].append(rule)
        self._indexes = {api_key: Index(rules) for api_key, rules in rules_by_api.items()}
        self._index_elsewhere = Index(elsewhere)
        self._interest_elsewhere = union(elsewhere)
        self._interest = {api_key: union(rules) for api_key, rules in rules_by_api.items()}
        for api_key, sessions in self.sessions.items():
            if not self._interest[api_key] & REQUEST_BODY and not self.elections.any_ever:
                sessions.clear()  # from here on requests pass unseen

    def rules_for(self, api_key: int) -> tuple[Rule, ...]:
        """The rules in force that may mean exchanges of an API, in order."""
        return self._indexes.get(api_key, self._index_elsewhere).rules

    def interest(self, api_key: int, api_version: int) -> int:
        """Bit flags: what the plan has to be shown of the exchanges of an API; 0 when it has nothing to say."""
        flags = self._interest.get(api_key, self._interest_elsewhere)
        if self.elections.any_ever:
            flags |= self.elections.interest(api_key, api_version)
        return flags

    # ---- what stands

    def listener(self, name: str, node_id: int | None, now_us: int) -> ListenerState:
        """What a listener has to be now: to be asked after each change, and at `next_change_us`."""
        return self.standing.listener(name, node_id, now_us)

    def link(self, connection: Connection, now_us: int) -> LinkState:
        """What an open connection has to be now: to be asked when it opens, and when a listener is."""
        return self.standing.link(connection, now_us)

    def next_change_us(self, now_us: int) -> int | None:
        """When a standing rule begins or ends by itself; None when only a change of the plan can bring it."""
        return self.standing.next_change_us(now_us)

    # ---- the decisions

    def on_connect(self, connection: Connection, now_us: int) -> Decision:
        """What to do with a connection that was just accepted."""
        actions: list[Action] = []
        hits: list[Hit] = []
        for rule in self._connect_rules:
            if rule.is_exhausted or not rule.fault.match.connects(connection):
                continue
            if not self.fires(rule, rule.scope(connection), now_us, connection.node_id):
                continue
            done = False
            context = ConnectContext(rule.name, connection, now_us, rule.random, rule.state)
            asked = list(rule.fault.on_connect(context))
            hits.append(rule.hit(of_request(asked, None)))
            for action in asked:
                actions.append(action)
                done |= isinstance(action, TERMINAL)
            if done:
                break
        return Decision(tuple(actions), tuple(hits)) if hits else NOTHING

    def on_request(self, connection: Connection, request: Request, now_us: int) -> Decision:
        """What to do with a request; every rule that matches counts it here, once.

        First the rules of phase `before_broker`, in order: delays add up, and behind a terminal action nobody is
        asked and nobody counts. Then, if anything of the request reaches the broker, those of `after_broker`.
        """
        self.elections.advance(now_us)
        self.standing.advance(now_us)
        header = request.header
        index = self._indexes.get(header.api_key, self._index_elsewhere)
        known = is_known(header.api_key, header.api_version)
        deciding = None
        candidates: Sequence[Rule] = index.rules
        try:
            if index.is_needed and known:
                deciding = OpenDecision(self, connection, request, now_us)
                candidates = index.meaning(header.client_id, deciding.groups, deciding.topics)
            rules = [r for r in candidates if not r.is_exhausted and r.fault.match.header(connection, header)]
            if not rules and not self._follows(header.api_key, header.api_version):
                return NOTHING
            elected = self.elections.interest(header.api_key, header.api_version) & REQUEST_BODY
            if known and (elected or any(rule.needs & REQUEST_BODY for rule in rules)):
                _ = request.body  # before the first trigger counts
            if deciding is None:
                deciding = OpenDecision(self, connection, request, now_us)
        except WireError as error:
            # What the broker thinks of such a body is the broker's to say.
            rules = [rule for rule in index.rules if not rule.is_exhausted]
            rules = self._needing_no_body(rules, connection, request, error.reason)
            deciding = OpenDecision(self, connection, request, now_us, is_readable=False)
        for rule in rules:
            if rule.fault.phase == "before_broker" and deciding.is_open:
                deciding.before(rule)
        if deciding.is_readable:
            deciding.elect()
        if deciding.reaches_broker():
            for rule in rules:
                if rule.fault.phase == "after_broker":
                    deciding.after(rule)
                elif self.standing.is_in_force(rule):
                    deciding.watch(rule)
        return deciding.decision()

    def _needing_no_body(
        self, rules: Iterable[Rule], connection: Connection, request: Request, reason: str
    ) -> list[Rule]:
        """The rules that may mean a request whose body can't be read; those that would have to read it are told so."""
        others: list[Rule] = []
        for rule in rules:
            if rule.fault.match.header(connection, request.header):
                if rule.needs & REQUEST_BODY:
                    rule.refuse(f"its body can't be read: {reason}")
                else:
                    others.append(rule)
        return others

    def _follows(self, api_key: int, api_version: int) -> bool:
        """Whether a request has to be seen for what later ones leave unsaid, or for the elections."""
        if api_key in self.sessions and self._interest[api_key] & REQUEST_BODY:
            return True
        return self.elections.interest(api_key, api_version) & REQUEST != 0

    def on_response(
        self, connection: Connection, request: Request, response: Response, decision: Decision, now_us: int
    ) -> Decision:
        """What to do with the answer to a request that was decided with `decision` (also when that was NOTHING)."""
        self.elections.advance(now_us)
        self.standing.advance(now_us)
        actions: list[Action] = []
        hits: tuple[Hit, ...] = ()
        rewritten: Body | None = None
        if request.header.api_key == ApiKey.DescribeTopicPartitions:
            self.cluster.observe_metadata(response.body)  # some clients ask for no other Metadata of a topic
        if self.elections.interest(request.header.api_key, request.header.api_version) & RESPONSE_BODY:
            told, touched = self.elections.told(request, response.body, decision.refused)
            known = {hit.rule_name for hit in decision.hits}
            effects: tuple[Effect, ...] = (altered(response.codec, response.body, told),) if touched else ()
            for name, kind in touched:
                hit = Hit(name, kind, "after_broker") if name in known else self.touch(name, kind, "after_broker")
                hits += (hit._replace(effects=effects),)
            rewritten = told if told is not response.body else None
        undone: set[str] = set()
        for rule, partitions, counted in decision.on_response:
            if rule is None:
                continue
            stands = isinstance(rule.fault, StandingFault)
            if stands and not self.standing.is_in_force(rule):
                continue  # what stood when the request came may have ended before its answer
            context = self.context(rule, connection, request, now_us)
            context.response = response
            context.hit_partitions = partitions
            context.rewritten = rewritten
            done = False
            effects = ()
            try:
                for action in rule.fault.on_response(context):
                    if isinstance(action, RewriteResponse) and action.body == context.answer:
                        continue
                    effect = of_answer(action, response.codec, context.answer, partitions)
                    if isinstance(action, RewriteResponse):
                        if stands and all(hit.rule_name != rule.name for hit in hits):
                            hit = self.touch(rule.name, rule.fault.kind, "after_broker")
                            hits += (hit._replace(effects=(effect,)),)
                        rewritten = context.rewritten = action.body
                    else:
                        actions.append(action)
                        done |= isinstance(action, TERMINAL)
                    effects += (effect,)
                if not effects and not stands:
                    raise NotApplicableError("there is nothing in the answer that it would change")
            except (NotApplicableError, NoPlaceForError) as error:
                rule.refuse(str(error))
            if effects and not stands:
                hits += (rule.seen(effects),)
            elif not stands:
                rule.hits -= 1
                self.take_back(rule, counted, now_us)
                undone.add(rule.name)
            if done:
                break
        if rewritten is not None:
            actions.insert(0, RewriteResponse(rewritten))
        if not actions and not hits and not undone:
            return NOTHING
        return Decision(tuple(actions), hits, undone=frozenset(undone))

    def _refused(self, rule: Rule, reason: str) -> None:
        if self.on_refusal is not None:
            self.on_refusal(rule, reason)

    # ---- what a decision in the making asks of the plan

    def touch(self, rule_name: str, kind: str, phase: Phase = "before_broker") -> Hit:
        """The hit of a rule whose election or move the client notices."""
        rule = self._rules.get(rule_name)
        if rule is not None and isinstance(rule.fault, StandingFault) and rule.fault.selects_partitions:
            rule.hits += 1
        return Hit(rule_name, kind, phase)

    def kept_away_by(self, node_id: int) -> list[Touch]:
        """The rules in whose outage this broker is shown to coordinate nothing."""
        names = self.elections.coordinators.away_by(node_id)
        return [(name, self._rules[name].fault.kind) for name in names if name in self._rules]

    def give_up_moves(self, leader_id: int | None, reason: str) -> None:
        """Let the true leaders lead again where this broker was shown to, for what it gets can't be relayed."""
        for move in self.elections.moves():
            if move.leader_id == leader_id:
                self.elections.move_back(move.topic, move.partition_index)
                if move.started_by in self._rules:
                    self._rules[move.started_by].refuse(reason)

    def fires(self, rule: Rule, scope: object, now_us: int, node_id: int | None) -> bool:
        """Count one matching exchange with that broker, and take the rule out of the index when that was its last."""
        fires = rule.trigger.fires(scope, now_us)
        if fires:
            rule.struck_node_id = node_id
            self._let_follow(rule, now_us)
        if rule.trigger.is_exhausted(now_us):
            rule.is_exhausted = True
            self._changed()
        return fires

    def take_back(self, rule: Rule, counted: Iterable[object], now_us: int) -> None:
        """What the trigger counted came to nothing; a rule whose last hit that was is in the index again."""
        for scope in counted:
            rule.trigger.take_back(scope)
        if rule.is_exhausted and not rule.released and not rule.trigger.is_exhausted(now_us):
            rule.is_exhausted = False
            self._changed()

    def _let_follow(self, struck: Rule, now_us: int) -> None:
        if struck.name not in self._awaited:
            return
        self._awaited.discard(struck.name)
        following = [rule for rule in self._rules.values() if rule.trigger.waits_for == struck.name]
        for rule in following:
            rule.trigger.follow(now_us, struck.struck_node_id)
        if following and self.on_start is not None:
            self.on_start()

    def context(self, rule: Rule, connection: Connection, request: Request, now_us: int) -> Context:
        """What a hook of the rule gets to see."""
        return Context(
            rule_name=rule.name,
            connection=connection,
            now_us=now_us,
            random=rule.random,
            cluster=self.cluster,
            elections=self.elections,
            state=rule.state,
            request=request,
            rule_number=rule.number,
        )


def _see(kinds: dict[str, str | None], rule: Rule) -> None:
    """Note by its name the kind of a rule that is unhit; None for ever once one of that name was hit."""
    was_hit = rule.hits or kinds.get(rule.name, rule.fault.kind) is None
    kinds[rule.name] = None if was_hit else rule.fault.kind
