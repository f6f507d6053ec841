"""One request on its way through the rules: who means it, who hits it, and what comes of that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from notleader.faults.actions import (
    TERMINAL,
    Action,
    Answer,
    Body,
    Fail,
    Forward,
    Outcome,
    PartitionKey,
    Relay,
    RewriteRequest,
)
from notleader.faults.answers import Failure, NoPlaceForError, partition_key, refusal, refuses_by_entry, top_key
from notleader.faults.base import Connection, Context, NotApplicableError
from notleader.faults.coordinators import relayed_whole
from notleader.faults.decision import NOTHING, Decision, Hit, Pending, joined
from notleader.faults.effects import Effect, of_request
from notleader.faults.election_state import Elsewhere, Touch
from notleader.faults.fetch_sessions import SESSION_NOT_FOUND
from notleader.faults.match import Match, groups_named
from notleader.faults.needs import REQUEST_BODY, RESPONSE_BODY
from notleader.faults.partial import (
    Chosen,
    asked_topics,
    has_no_response,
    is_altered,
    refuse_metadata,
    refuse_some,
    refuse_whole,
    topics_and_partitions,
)
from notleader.faults.relay import relayed
from notleader.faults.rule import Rule
from notleader.faults.shown_leaders import with_endpoints
from notleader.proxy.wire.codec import is_known
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.partitions import iter_topics

if TYPE_CHECKING:
    from notleader.faults.cluster import Cluster
    from notleader.faults.election import Elections
    from notleader.faults.fetch_sessions import FetchSessions, ShareSessions
    from notleader.faults.rule import Rule
    from notleader.proxy.wire.partitions import PartitionEntry
    from notleader.proxy.wire.view import Request

_NAMES_ENDPOINTS = frozenset((ApiKey.Produce, ApiKey.Fetch))
_NO_SIDE_CONNECTION = "clients with SASL are relayed with the proxy's own credentials only (--relay-sasl-mechanism)"
_UNKNOWN_SESSION = "the session began unseen: the client is asked to open another"


class Rules(Protocol):
    """What is asked of the plan for a decision."""

    @property
    def cluster(self) -> Cluster: ...

    elections: Elections
    sessions: dict[int, FetchSessions | ShareSessions]
    can_log_in: bool

    def rules_for(self, api_key: int) -> tuple[Rule, ...]: ...
    def interest(self, api_key: int, api_version: int) -> int: ...
    def touch(self, rule_name: str, kind: str) -> Hit: ...
    def give_up_moves(self, leader_id: int | None, reason: str) -> None: ...
    def kept_away_by(self, node_id: int) -> list[Touch]: ...
    def fires(self, rule: Rule, scope: object, now_us: int, node_id: int | None) -> bool: ...
    def take_back(self, rule: Rule, counted: Iterable[object], now_us: int) -> None: ...
    def context(self, rule: Rule, connection: Connection, request: Request, now_us: int) -> Context: ...


class OpenDecision:
    """The state of one request's decision; `before`, then `elect`, then `after`, then `decision`."""

    __slots__ = (
        "_actions",
        "_asked",
        "_body",
        "_connection",
        "_coordinator",
        "_ended",
        "_ended_topics",
        "_failures",
        "_hits",
        "_interest",
        "_is_over",
        "_merges",
        "_now_us",
        "_pending",
        "_plan",
        "_refusing",
        "_relays",
        "_request",
        "_terminal",
        "is_readable",
    )

    def __init__(
        self, plan: Rules, connection: Connection, request: Request, now_us: int, *, is_readable: bool = True
    ) -> None:
        self.is_readable = is_readable
        self._plan = plan
        self._connection = connection
        self._request = request
        self._now_us = now_us
        self._actions: list[Action] = []
        self._terminal: Action | None = None
        self._hits: list[Hit] = []
        self._pending: list[Pending] = []
        self._failures: dict[PartitionKey, Failure] = {}
        # What rules have left nothing of to later ones: all of it, these partitions, these topics of a Metadata answer.
        self._is_over = False
        self._ended: set[PartitionKey] = set()
        self._ended_topics: list[Chosen] = []
        self._relays: dict[PartitionKey, Elsewhere] = {}
        self._refusing: set[str] = set()
        self._coordinator: int | None = None
        self._merges: list[Callable[[Body], Body]] = []
        self._body: Body | None = None
        self._asked: list[PartitionEntry] | None = None
        api_key, api_version, *_ = request.header
        self._interest = plan.interest(api_key, api_version)
        in_session = api_key in SESSION_NOT_FOUND and is_known(api_key, api_version)
        if is_readable and in_session and self._interest & REQUEST_BODY:
            self._follow_session()

    def _follow_session(self) -> None:
        connection, api_key = self._connection, self._request.header.api_key
        sessions = self._plan.sessions[api_key]
        self._asked = sessions.partitions(connection.connection_id, connection.node_id, self._request)
        if self._asked is not None:
            return
        self._asked = self._request.partitions
        for rule in self._plan.rules_for(api_key):
            match = rule.fault.match
            in_part = match.selects_partitions or rule.fault.refuses_entries(self._request)
            if in_part and match.header(connection, self._request.header):
                if rule.is_exhausted or not rule.trigger.is_open(self._now_us) or not self._may_be_fetched(match):
                    continue
                self._open_another_session(rule.name, rule.fault.kind)
                return
        if touches := self._plan.elections.touches(connection.node_id, self._now_us):
            self._open_another_session(*min(touches))

    def _may_be_fetched(self, match: Match) -> bool:
        """Whether a session of which nothing is known may hold partitions that are meant; else it may stay."""
        cluster, node_id = self._plan.cluster, self._connection.node_id
        if not match.names(self._request.header.api_key, self._request.body):
            return False
        if not cluster.leaders:
            # Nobody has asked for Metadata yet. A share session ends at a price: what it acknowledges comes again.
            return self._request.header.api_key == ApiKey.Fetch
        return any(match.partition(*name) and cluster.may_be_read_from(*name, node_id) for name in cluster.leaders)

    def _open_another_session(self, rule_name: str, kind: str) -> None:
        code = SESSION_NOT_FOUND[self._request.header.api_key]
        self._terminal = Answer(refusal(self._request, code))
        self._hits.append(Hit(rule_name, kind, "before_broker", _UNKNOWN_SESSION, (Effect("answered", int(code)),)))

    # ---- the rules

    @property
    def is_open(self) -> bool:
        """Whether a further rule can still matter."""
        return self._terminal is None

    def reaches_broker(self) -> bool:
        """Whether the request is forwarded, rebuilt or not."""
        if self._terminal is None:
            self._settle()
        return self._terminal is None or isinstance(self._terminal, Forward | Relay)

    def before(self, rule: Rule) -> None:
        """Ask one rule that acts before the broker."""
        hit = self._hit_by(rule)
        if hit is None:
            return
        context, counted = hit
        asked: list[Outcome] = []
        try:
            for outcome in rule.fault.on_request(context):
                asked.append(outcome)
                if isinstance(outcome, Fail):
                    self._fail(rule, outcome)
                elif isinstance(outcome, RewriteRequest):
                    self._body = outcome.body
                elif isinstance(outcome, TERMINAL):
                    self._terminal = outcome
                else:
                    self._actions.append(outcome)
        except (NotApplicableError, NoPlaceForError) as error:
            rule.refuse(str(error))
            self._plan.take_back(rule, counted, self._now_us)
            return
        self._hits.append(rule.hit(of_request(asked, context.keys, context.topics)))

    def after(self, rule: Rule) -> None:
        """Ask one rule that acts on the answer."""
        hit = self._hit_by(rule)
        if hit is None:
            return
        context, counted = hit
        keys = context.keys
        self._pending.append(Pending(rule, keys, counted))
        self._hits.append(rule.hit())
        if rule.fault.ends is not None:
            self._end(rule, keys if rule.fault.ends == "partitions" else None)

    def watch(self, rule: Rule) -> None:
        """Let a standing rule see the answer; it is a hit when that changes it."""
        self._pending.append(Pending(rule, None))

    def _hit_by(self, rule: Rule) -> tuple[Context, tuple[object, ...]] | None:
        """The context of a rule whose match agrees on the header, if it hits this request; the trigger counts here.

        Beside it what the trigger counted it for.
        """
        fault, request = rule.fault, self._request
        if rule.needs & REQUEST_BODY and not is_known(request.header.api_key, request.header.api_version):
            self._refuse(rule, f"API {request.header.api_key} v{request.header.api_version} can't be decoded")
            return None
        context = self._plan.context(rule, self._connection, request, self._now_us)
        context.rewritten_request = self._body
        if rule.needs & REQUEST_BODY:
            context.asked = self._entries()
        if fault.match.needs_body and not self._means_body(rule, context):
            return None
        if fault.phase == "after_broker" and rule.needs & REQUEST_BODY and has_no_response(request):
            self._refuse(rule, "a Produce with acks=0 has no answer")
            return None
        if self._has_ended(rule, context) or not fault.applies(context):
            return None
        counted = self._fires(rule, context)
        return (context, counted) if counted else None

    def _refuse(self, rule: Rule, reason: str) -> None:
        """Of an exchange that comes outside its time window a rule means nothing."""
        if rule.trigger.is_open(self._now_us):
            rule.refuse(reason)

    def _means_body(self, rule: Rule, context: Context) -> bool:
        match, request = rule.fault.match, self._request
        if not match.names(request.header.api_key, request.body):
            return False
        if not match.selects_partitions:
            return True
        if request.header.api_key == ApiKey.Metadata:
            context.partitions = self._partitions_of(context.asked, match)
            return self._means_metadata(rule, context)
        entries = self._entries()
        if not entries:
            # A request about topics, not partitions: it is meant as a whole, or not.
            if match.topic is None:
                return False
            names = (self._name(topic.topic, topic.topic_id) for topic in iter_topics(request.codec, request.body))
            return any(match.partition(name, -1) for name in names)
        context.partitions = self._partitions_of(entries, match)
        return bool(context.partitions)

    def _partitions_of(self, entries: list[PartitionEntry], match: Match) -> list[PartitionEntry]:
        return [
            entry
            for entry in entries
            if match.partition(self._name(entry.topic, entry.topic_id), entry.partition_index)
        ]

    def groups(self) -> set[str]:
        """The groups that the request names."""
        return set(groups_named(self._request.header.api_key, self._request.body))

    def topics(self) -> set[str | None] | None:
        """The topics that it is about, None where that may be any; in them None for one whose name is not known."""
        request = self._request
        if request.header.api_key == ApiKey.Metadata:
            asked = asked_topics(request)
            if asked is None:
                return set(self._plan.cluster.topics())
            return {self._name(*topic) for topic in asked}
        entries = self._entries()
        named = [(entry.topic, entry.topic_id) for entry in entries] or iter_topics(request.codec, request.body)
        return {self._name(*topic) for topic in named}

    def _means_metadata(self, rule: Rule, context: Context) -> bool:
        match, topics = rule.fault.match, asked_topics(self._request)
        if match.topic is None:
            return bool(context.partitions)
        known = self._plan.cluster.topics()
        if topics is None:
            # One that no answer has named yet may be in this one, or not exist: what is learned of it comes too late.
            names: Iterable[str | None] = known
        else:
            names = [self._name(*topic) for topic in topics]
        meant = [name for name in names if match.partition(name, -1)]
        if match.partition_index is None:
            context.topics = [name for name in meant if name is not None]
            return bool(meant)
        return bool(context.partitions) or any(name not in known for name in meant)

    def _has_ended(self, rule: Rule, context: Context) -> bool:
        """Whether rules before this one have left it nothing; what they have left is what it means from here on."""
        if self._is_over:
            return True
        if self._ended_topics:
            return self._metadata_has_ended(rule.fault.match, context)
        if not self._ended:
            return False
        chosen = self._entries() if context.partitions is None else context.partitions
        left = [entry for entry in chosen if partition_key(entry) not in self._ended]
        if context.partitions is not None or rule.fault.refuses_entries(self._request):
            context.partitions = left
        return not left

    def _metadata_has_ended(self, match: Match, context: Context) -> bool:
        ended = self._ended_topics
        if match.partition_index is not None and context.partitions:
            names = [(self._name(each.topic, each.topic_id), each.partition_index) for each in context.partitions]
            return all(any(chosen(name, -1) or chosen(name, index) for chosen in ended) for name, index in names)
        meant = [name for name in self.topics() or () if match.partition(name, -1)]
        return bool(meant) and all(any(chosen(name, -1) for chosen in ended) for name in meant)

    def _end(self, rule: Rule, partitions: Collection[PartitionKey] | None) -> None:
        """Leave nothing of these partitions to later rules, of None nothing at all."""
        if self._request.header.api_key == ApiKey.Metadata and rule.fault.ends == "partitions":
            if rule.fault.match.topic is None and rule.fault.match.partition_index is None:
                self._is_over = True
            self._ended_topics.append(topics_and_partitions(rule.fault.match))
        elif partitions is None:
            self._is_over = True
        else:
            self._ended.update(partitions)

    def _fires(self, rule: Rule, context: Context) -> tuple[object, ...]:
        """What the trigger has counted a hit for; nothing where it hits nothing."""
        node_id = self._connection.node_id
        if rule.fault.trigger.per == "partition":
            chosen = self._entries() if context.partitions is None else context.partitions
            context.partitions = [
                entry for entry in chosen if self._plan.fires(rule, self._counted_for(entry), self._now_us, node_id)
            ]
            return tuple(map(self._counted_for, context.partitions))
        scope = rule.scope(self._connection)
        return (scope,) if self._plan.fires(rule, scope, self._now_us, node_id) else ()

    def _counted_for(self, entry: PartitionEntry) -> PartitionKey:
        """A partition as `per: partition` counts it: the same, whether a version names its topic or gives its id."""
        return top_key(self._name(entry.topic, entry.topic_id), entry.topic_id), entry.partition_index

    def _entries(self) -> list[PartitionEntry]:
        """What the request asks for, named or not: a Fetch's session, the known partitions of Metadata's topics."""
        if self._asked is None:
            request = self._request
            if request.header.api_key == ApiKey.Metadata:
                self._asked = self._plan.cluster.partitions(asked_topics(request))
            else:
                self._asked = request.partitions
        return self._asked

    def _name(self, topic: str | None, topic_id: UUID | None) -> str | None:
        return topic if topic is not None else self._plan.cluster.topic_name(topic_id)

    # ---- refusals

    def _fail(self, rule: Rule, fail: Fail) -> None:
        api_key, api_version, *_ = self._request.header
        self._refusing.add(rule.name)
        if api_key == ApiKey.Metadata and refuses_by_entry(api_key, api_version, fail.error_code):
            chosen = topics_and_partitions(rule.fault.match)
            self._merges.append(lambda answer: refuse_metadata(answer, fail.error_code, chosen))
            self._end(rule, None)
        elif fail.partitions is not None:
            for key in fail.partitions:
                self._failures.setdefault(key, Failure(fail.error_code))
            self._end(rule, fail.partitions)
        elif is_altered(api_key) and refuses_by_entry(api_key, api_version, fail.error_code):
            for entry in self._entries():
                self._failures.setdefault(partition_key(entry), Failure(fail.error_code))
            self._end(rule, None)
        else:
            self._terminal = refuse_whole(self._request, fail.error_code)

    def elect(self) -> None:
        """Let the elections refuse what needs a leader, and lower the epochs of the rest."""
        elections, header = self._plan.elections, self._request.header
        if elections.interest(header.api_key, header.api_version) & ~self._interest & RESPONSE_BODY:
            # An election began with this request, whose answer has to tell of it.
            self._pending.append(Pending(None, None))
        if self._terminal is not None or not elections.interest(header.api_key, header.api_version) & REQUEST_BODY:
            return
        if (coordinator := elections.coordinators.true_of(self._request, self._connection.node_id)) is not None:
            if self._cant_log_in():
                elections.coordinators.give_up()
            else:
                self._coordinator = coordinator
            return
        routing = elections.routed(self._request, self._entries(), self._connection.node_id)
        if routing.relays and self._cant_log_in():
            self._plan.give_up_moves(self._connection.node_id, _NO_SIDE_CONNECTION)
            routing = elections.routed(self._request, self._entries(), self._connection.node_id)
        self._relays = routing.relays
        asked = self._request.body if self._body is None else self._body
        body, raised = elections.lowered(header, asked)
        fenced: dict[Touch, list[PartitionKey]] = {}
        for key, by in raised.items():
            if key not in routing.failures:
                fenced.setdefault(by, []).append(key)
        self._touch(routing.touched, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._touch(fenced, ErrorCode.FENCED_LEADER_EPOCH)
        if header.api_key == ApiKey.Fetch and body.get("rack_id") and elections.only_leaders_are_read(self._entries()):
            body = {**body, "rack_id": ""}
        if body is not asked:
            self._body = body
        fences = dict.fromkeys(raised, Failure(ErrorCode.FENCED_LEADER_EPOCH))
        for key, failure in (fences | routing.failures).items():
            self._failures.setdefault(key, failure)

    def _touch(self, touched: Mapping[Touch, Iterable[PartitionKey]], code: ErrorCode) -> None:
        """These rules let these partitions be refused with `code`, by an election or a move that they began."""
        told = {hit.rule_name for hit in self._hits}
        touches = []
        for (name, kind), refused in touched.items():
            hit = Hit(name, kind, "before_broker") if name in told else self._plan.touch(name, kind)
            touches.append(hit._replace(effects=(Effect("answered", int(code), frozenset(refused)),)))
        self._hits = list(joined(tuple(self._hits), tuple(touches)))
        self._refusing.update(name for name, _ in touched)

    def _cant_log_in(self) -> bool:
        return self._connection.uses_sasl and not self._plan.can_log_in

    def _settle(self) -> None:
        """Turn refused partitions and rewritten bodies into the one terminal action that they need."""
        relays = {key: leader for key, leader in self._relays.items() if key not in self._failures}
        if relays:
            body = self._request.body if self._body is None else self._body
            self._terminal = relayed(self._request, body, self._entries(), relays, self._failures, self._lower)
        elif self._failures:
            self._terminal = self._located(refuse_some(self._request, self._failures, self._entries(), self._body))
        elif self._merges:
            self._terminal = Forward(self._request.body if self._body is None else self._body, self._merge)
        elif self._body is not None:
            self._terminal = Forward(self._body)
        if self._coordinator is not None and (self._terminal is None or isinstance(self._terminal, Forward)):
            forward = self._terminal or Forward(self._request.body)
            by = self._plan.kept_away_by(self._coordinator)
            self._terminal = relayed_whole(self._coordinator, forward, self._request, by)

    def _lower(self, body: Body) -> Body:
        return self._plan.elections.lowered(self._request.header, body)[0]

    def _located(self, action: Action) -> Action:
        """A local answer that says where the leaders are that it names."""
        api_key, api_version, *_ = self._request.header
        if not isinstance(action, Answer) or api_key not in _NAMES_ENDPOINTS:
            return action
        return Answer(with_endpoints(api_key, api_version, action.body, self._plan.cluster), action.api_version)

    def _merge(self, answer: Body) -> Body:
        for merge in reversed(self._merges):  # of two rules the first has the last word
            answer = merge(answer)
        return answer

    def decision(self) -> Decision:
        """Everything that was said, as one decision."""
        if self._terminal is None:
            self._settle()
        actions = self._actions if self._terminal is None else [*self._actions, self._terminal]
        if not actions and not self._hits and not self._pending:
            return NOTHING
        self._hits = [hit._replace(phase="after_broker") if self._asks_broker(hit) else hit for hit in self._hits]
        return Decision(tuple(actions), tuple(self._hits), tuple(self._pending), frozenset(self._failures))

    def _asks_broker(self, hit: Hit) -> bool:
        """Whether what the rule wants is told in the broker's own answer."""
        api_key = self._request.header.api_key
        if hit.kind in ("leader_election", "leader_move") and api_key == ApiKey.Metadata:
            return True
        return isinstance(self._terminal, Forward) and is_altered(api_key) and hit.rule_name in self._refusing
