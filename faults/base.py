"""The base of every fault: a described, registered model with the hooks that its phase calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field

from notleader.faults.actions import Action, Body, Outcome, PartitionKey, Standing
from notleader.faults.answers import partition_key
from notleader.faults.connection import Connection as Connection
from notleader.faults.document import Document
from notleader.faults.kinds import Kinds
from notleader.faults.match import Match
from notleader.faults.random_source import RandomSource
from notleader.faults.trigger import Trigger, shared

if TYPE_CHECKING:
    from notleader.faults.cluster import Cluster
    from notleader.faults.election import Elections
    from notleader.proxy.wire.partitions import PartitionEntry
    from notleader.proxy.wire.view import Request, Response

Phase = Literal["before_broker", "after_broker", "connection"]


class NotApplicableError(Exception):
    """The fault can't be applied to this exchange; the reason is counted and shown with the rule."""


@dataclass(slots=True)
class Context:
    """What a hook may look at, and the state that its rule keeps.

    `asked` is what the request asks for, those included that a Fetch session or a Metadata request for all topics
    leaves unsaid; it is empty unless the rule reads the request. `partitions` are the matched entries of
    the request, `hit_partitions` their keys when the answer is there; both are None when the rule means the
    whole exchange. `topics` are the names of those that the rule means as wholes, in a Metadata request.
    """

    rule_name: str
    connection: Connection
    now_us: int
    random: RandomSource
    cluster: Cluster
    elections: Elections
    state: dict[str, Any]
    request: Request
    asked: list[PartitionEntry] = field(default_factory=list)
    partitions: list[PartitionEntry] | None = None
    topics: Collection[str] = ()
    hit_partitions: frozenset[PartitionKey] | None = None
    response: Response | None = None
    rewritten: Body | None = None
    rewritten_request: Body | None = None
    rule_number: int = 0

    @property
    def keys(self) -> frozenset[PartitionKey] | None:
        """What `partitions` are told apart by."""
        return None if self.partitions is None else frozenset(map(partition_key, self.partitions))

    @property
    def body(self) -> Body:
        """The request as it stands: the client's, or what faults before this one made of it."""
        return self.request.body if self.rewritten_request is None else self.rewritten_request

    @property
    def answer(self) -> Body:
        """The answer as it stands: the broker's, or what faults before this one made of it."""
        if self.rewritten is not None:
            return self.rewritten
        assert self.response is not None
        return self.response.body


@dataclass(slots=True)
class BeginContext:
    """What `begin` and `end` may look at."""

    rule_name: str
    now_us: int
    cluster: Cluster
    elections: Elections
    state: dict[str, Any]
    random: RandomSource
    struck_node_id: int | None = None
    """The broker of the exchange that the rule of `after_fault` struck."""


@dataclass(slots=True)
class ConnectContext:
    """What `on_connect` may look at."""

    rule_name: str
    connection: Connection
    now_us: int
    random: RandomSource
    state: dict[str, Any]


class Fault(Document):
    """One rule of a plan. A subclass is one kind: a `kind` literal, a docstring, described fields, its hooks.

    The phase says which hook the plan calls once the rule is triggered: `before_broker` → `on_request`,
    `after_broker` → `on_response`, `connection` → `on_connect`.
    """

    kinds: ClassVar[Kinds[Fault]] = Kinds()
    reads_request: ClassVar[bool] = False
    """Whether `on_request` looks into the body of the request even when the match doesn't."""
    ends: ClassVar[Literal["exchange", "partitions"] | None] = None
    """Of what a hit of phase `after_broker` leaves later rules nothing: of the exchange, or the partitions it means."""
    default_api_keys: ClassVar[frozenset[int] | None] = None
    """The APIs a kind has a meaning for; None is all. A match may name fewer, not others."""

    kind: str
    name: str = Field("", description="Unique name of the rule; made from kind and position when absent.")
    match: Match = Field(default_factory=Match, description="Which exchanges or connections are meant.")
    trigger: Annotated[Trigger, AfterValidator(shared)] = Field(
        default_factory=lambda: shared(Trigger()), description="Which of the matching ones are hit."
    )
    phase: Phase = Field("before_broker", description="When the fault acts.")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" not in cls.__annotations__:
            return
        kinds = get_args(cls.model_fields["kind"].annotation)
        if len(kinds) != 1:
            raise TypeError(f"{cls.__name__}.kind has to be a Literal of one name")
        kind = kinds[0]
        if not (cls.__doc__ or "").strip() or "__doc__" not in cls.__dict__:
            raise TypeError(f"fault kind {kind!r} ({cls.__name__}) has no docstring")
        Fault.kinds.add(kind, cls)

    @property
    def acts_on(self) -> frozenset[int] | None:
        """The APIs that this fault has a meaning for; None is all."""
        return self.default_api_keys

    @property
    def api_keys(self) -> frozenset[int] | None:
        """The APIs that it can hit, None for all, those unknown to `ApiKey` included."""
        if self.match.api_key is None:
            return self.acts_on
        named = self.match.api_key.keys
        return named if self.acts_on is None else named & self.acts_on

    def begin(self, context: BeginContext) -> None:
        """Called once, when the rule is put in force."""
        return

    def refuses_entries(self, request: Request) -> bool:
        """Whether it refuses what a request is about one by one, so that one about nothing can't be refused."""
        return False

    def applies(self, context: Context) -> bool:
        """Asked of a matching request before the trigger counts it; False and it is as if it didn't match."""
        return True

    def on_connect(self, context: ConnectContext) -> Iterable[Action]:
        """Called for an accepted connection that the rule hits (phase `connection`)."""
        return ()

    def on_request(self, context: Context) -> Iterable[Outcome]:
        """Called for a request that the rule hits, before anything is forwarded (phase `before_broker`)."""
        return ()

    def on_response(self, context: Context) -> Iterable[Action]:
        """Called with the answer to a request that the rule hit (phase `after_broker`)."""
        return ()


class StandingFault(Fault):
    """A fault that stands: in force over the trigger's time window, for listeners and connections, not exchanges.

    Its match names listeners, nodes or connections; of its trigger only `after_ms`, `for_ms` and `after_fault`
    have a meaning.
    """

    watches: ClassVar[frozenset[int]] = frozenset()
    """The APIs whose answers `on_response` rewrites while the fault is in force, on every connection."""

    phase: Literal["connection"] = "connection"

    told_alike: ClassVar[frozenset[str] | None] = None
    """Of what every client is told alike, the match keys that mean something; None where it is not all clients'."""

    selects_partitions: ClassVar[bool] = False
    """Whether a match may name topics and partitions, and what it touches are exchanges, which count as hits."""

    @property
    def api_keys(self) -> frozenset[int] | None:
        return self.watches

    def means(
        self, listener: str, node_id: int | None, connection: Connection | None, state: Mapping[str, Any]
    ) -> bool:
        """Whether a listener (connection None), or a connection, is meant; `state` is what the rule keeps."""
        if connection is not None:
            return self.match.connects(connection)
        match = self.match
        return (
            match.connection is None
            and match.principal is None
            and (match.listener is None or match.listener(listener))
            and (match.node_id is None or match.node_id(node_id))
        )

    def of_listener(self) -> Iterable[Standing]:
        """What happens to a listener that is meant."""
        return ()

    def of_connection(self) -> Iterable[Standing]:
        """What happens to a connection that is meant."""
        return ()

    def next_change_us(self, state: Mapping[str, Any]) -> int | None:
        """When `change` has to be called next, while the rule is in force; None when never."""
        return None

    def change(self, context: BeginContext) -> None:
        """Called at `next_change_us` or a little later."""
        return

    def end(self, context: BeginContext) -> None:
        """Called when the rule is no longer in force; `begin` is called when it comes in force."""
        return
