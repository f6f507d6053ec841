"""Virtual leader elections: one state that every answer about a partition agrees with.

While an election lasts, Metadata names no leader (LEADER_NOT_AVAILABLE, leader -1; replicas and ISR as they are)
and what needs the leader is refused with NOT_LEADER_OR_FOLLOWER and never reaches a broker. It starts a new
leader epoch, one above what was shown before, as every change of leader in Kafka does; so from then on every
epoch that the proxy shows is the broker's plus a bump, and every epoch that a client claims to know is lowered
by it again, for ever. Which fields carry such epochs, and which don't:

* `current_leader_epoch` of Fetch, ListOffsets and OffsetForLeaderEpoch requests is what the client learned from
  Metadata, for fencing (KIP-320): lowered. Below the bump it is older than the partition ever was for the
  broker, which would take -1 for "don't check": the proxy fences it itself (FENCED_LEADER_EPOCH).
* `leader_epoch` of Metadata and DescribeTopicPartitions answers, and `current_leader` of Produce, Fetch,
  ShareFetch and ShareAcknowledge answers (KIP-951): raised.
* Epochs of the log stay: `last_fetched_epoch` and `diverging_epoch` of Fetch, `leader_epoch` of a ListOffsets
  answer, `committed_leader_epoch` of OffsetCommit and OffsetFetch. They come from and go to record batches, which
  the proxy doesn't rewrite. Clients keep the newest epoch they saw; being lower than the shown one, these never win.
* `leader_epoch` of an OffsetForLeaderEpoch request and answer is one of the log, too, but who asks for one that only
  the proxy has shown gets what there is of it: the end of the log in the broker's own last epoch.

A partition may also be shown under another leader than its true one, from an election's end on (`new_leader`) or
at once (`move`). Then everybody but the shown leader refuses, the true leader included, and what the shown leader
is asked the proxy relays to the true one (`notleader.faults.relay`). Every such change starts a new leader epoch too.

Consumers that fetch from followers (KIP-392) come to the shown leader as well: followers refuse, and the true leader
isn't told the consumer's rack, so that it serves the records itself instead of naming the replica next to it. Once
the true leader leads again followers serve as before. Nor is any leader told a rack while a broker is away that it
might name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from notleader.faults.actions import Body, PartitionKey
from notleader.faults.answers import Failure, partition_key, top_key
from notleader.faults.coordinators import Coordinators
from notleader.faults.election_state import Election as Election
from notleader.faults.election_state import Elsewhere, Shown, State, Touch
from notleader.faults.election_state import Move as Move
from notleader.faults.needs import REQUEST, REQUEST_BODY, RESPONSE_BODY
from notleader.faults.shown_leaders import raised, with_shown_leaders
from notleader.proxy.wire.codec import is_known
from notleader.proxy.wire.names import ApiKey, ErrorCode

if TYPE_CHECKING:
    from notleader.faults.cluster import Cluster
    from notleader.proxy.wire.header import RequestHeader
    from notleader.proxy.wire.partitions import PartitionEntry
    from notleader.proxy.wire.view import Request

# APIs that only the leader of a partition serves.
_LEADER_APIS = frozenset(
    (
        ApiKey.Produce,
        ApiKey.Fetch,
        ApiKey.ListOffsets,
        ApiKey.OffsetForLeaderEpoch,
        ApiKey.DeleteRecords,
        ApiKey.DescribeProducers,
        ApiKey.ShareFetch,
        ApiKey.ShareAcknowledge,
    )
)
# Of these the proxy can't relay any: a share session lives in one broker and has no form without.
_NEVER_RELAYED = frozenset((ApiKey.ShareFetch, ApiKey.ShareAcknowledge))
_FOLLOWERS_SERVE = 11  # the version of Fetch from which on followers serve consumers (KIP-392)
_NAMES_LEADERS = frozenset((ApiKey.Metadata, ApiKey.DescribeTopicPartitions))
# From which version on the request carries `current_leader_epoch`, or asks for an epoch, and the answer ones to raise.
EPOCH_IN_REQUEST: dict[int, int] = {ApiKey.Fetch: 9, ApiKey.ListOffsets: 4, ApiKey.OffsetForLeaderEpoch: 0}
EPOCH_IN_RESPONSE: dict[int, int] = {
    ApiKey.OffsetForLeaderEpoch: 1,
    ApiKey.Produce: 10,
    ApiKey.Fetch: 12,
    ApiKey.Metadata: 7,
    ApiKey.DescribeTopicPartitions: 0,
    ApiKey.ShareFetch: 0,
    ApiKey.ShareAcknowledge: 0,
}


@dataclass(slots=True)
class Routing:
    """What becomes of the partitions that a request asks for: refused, or relayed to their true leader."""

    failures: dict[PartitionKey, Failure] = field(default_factory=dict)
    relays: dict[PartitionKey, Elsewhere] = field(default_factory=dict)
    touched: dict[Touch, list[PartitionKey]] = field(default_factory=dict)


class Elections:
    """All elections of one proxy: those that last, what those before have raised, and who is shown to lead."""

    __slots__ = ("_active", "_changed", "_cluster", "_moved", "_states", "absent", "coordinators")

    def __init__(self, cluster: Cluster, changed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._changed = changed
        self._states: dict[tuple[str, int], State] = {}
        self._active = 0
        self._moved = False  # whether any partition was ever shown under another leader
        self.absent: dict[str, int] = {}
        """The brokers that are away, by the rule that keeps them so."""
        self.coordinators = Coordinators(cluster, changed)

    # ---- starting and ending

    def leave(self, node_id: int, started_by: str) -> None:
        """A broker is away from now on, as this rule wants it."""
        self.absent[started_by] = node_id
        self._changed()

    def come_back(self, started_by: str) -> None:
        """The broker that this rule kept away is back; nothing where there is none."""
        self.coordinators.come_back(started_by)
        if self.absent.pop(started_by, None) is not None:
            self._changed()

    def start(
        self,
        topic: str,
        partition_index: int,
        for_ms: float,
        now_us: int,
        started_by: str = "election",
        kind: str = "leader_election",
        new_leader: int | None = None,
    ) -> Election:
        """Depose the leader of a partition for `for_ms`; an election that lasts there is overtaken by this one.

        Afterwards `new_leader` leads (None: who led before) until `move_back`.
        """
        state = self._states.setdefault((topic, partition_index), State())
        if state.election is None:
            self._active += 1
        state.bump += 1
        state.raised_by = (started_by, kind)
        until_us = now_us + round(for_ms * 1000)
        state.election = Election(topic, partition_index, now_us, until_us, started_by, kind)
        if new_leader is not None:
            self._show(state, topic, partition_index, new_leader, (started_by, kind))
        self._changed()
        return state.election

    def end(self, topic: str, partition_index: int) -> None:
        """End the election of a partition now; KeyError when none lasts there."""
        state = self._states[topic, partition_index]
        if state.election is None:
            raise KeyError((topic, partition_index))
        self._end(state)

    def end_all(self, started_by: str | None = None) -> None:
        """End every election and every move of this rule (None: of any) now; the epochs that they raised stay."""
        for state in self._states.values():
            if state.election is not None and started_by in (None, state.election.started_by):
                self._end(state)
        self.move_all_back(started_by)

    def move(
        self, topic: str, partition_index: int, leader_id: int, started_by: str = "move", kind: str = "leader_move"
    ) -> None:
        """Show another leader from now on, one leader epoch higher."""
        state = self._states.setdefault((topic, partition_index), State())
        state.bump += 1
        state.raised_by = (started_by, kind)
        self._show(state, topic, partition_index, leader_id, (started_by, kind))
        self._changed()

    def move_back(self, topic: str, partition_index: int) -> None:
        """Show the true leader again, one leader epoch higher; KeyError when it is the one shown."""
        state = self._states[topic, partition_index]
        if state.leader_id is None:
            raise KeyError((topic, partition_index))
        state.withdraw(None)
        state.bump += 1
        self._changed()

    def move_all_back(self, started_by: str | None = None) -> None:
        """Take back whom this rule shows to lead (None: any), one leader epoch higher where that shows another.

        Who was shown before it leads again: whom another rule still shows, else the true leader.
        """
        changed = False
        for state in self._states.values():
            if state.withdraw(started_by):
                state.bump += 1
                changed = True
        if changed:
            self._changed()

    def _show(self, state: State, topic: str, partition_index: int, leader_id: int, moved_by: Touch) -> None:
        self._moved = True
        known = self._cluster.leaders.get((topic, partition_index))
        is_true = known is not None and known.leader_id == leader_id
        state.show(Shown(None if is_true else leader_id, moved_by))

    def moves(self) -> tuple[Move, ...]:
        """The partitions that are shown under another leader, in order."""
        return tuple(
            Move(*key, state.leader_id, *state.moved_by)
            for key, state in sorted(self._states.items())
            if state.leader_id is not None and state.moved_by is not None
        )

    def leader(self, topic: str, partition_index: int) -> int | None:
        """Who is shown to lead: None while nobody is, or where nothing is known."""
        state = self._states.get((topic, partition_index))
        if state is not None and state.election is not None:
            return None
        if state is not None and state.leader_id is not None:
            return state.leader_id
        known = self._cluster.leaders.get((topic, partition_index))
        return None if known is None or known.leader_id < 0 else known.leader_id

    def other_leader(self, topic: str, partition_index: int, without: int) -> int | None:
        """Who would lead the partition if not `without`, of the brokers that are there; None where nobody is left."""
        return self._cluster.other_leader(topic, partition_index, without, self.away)

    def refuses_to_lead(self, node_id: int) -> str | None:
        """Why this broker can't be shown to lead anything; None where it can."""
        if node_id not in self._cluster.brokers:
            return f"the cluster has no broker {node_id}"
        return f"broker {node_id} is down" if node_id in self.away else None

    def touches(self, node_id: int | None, now_us: int) -> set[Touch]:
        """The rules whose elections last, or whose moves are shown, for what this broker may be fetched from."""
        self.advance(now_us)
        found = set()
        for (topic, partition_index), state in self._states.items():
            if state.leader_id != node_id and not self._cluster.may_be_read_from(topic, partition_index, node_id):
                continue
            if state.election is not None:
                found.add(state.election.hit)
            if state.leader_id is not None and state.moved_by is not None:
                found.add(state.moved_by)
        return found

    def list(self, now_us: int) -> tuple[Election, ...]:
        """The elections that last, in the order of their partitions."""
        self.advance(now_us)
        found = (state.election for _, state in sorted(self._states.items()))
        return tuple(election for election in found if election is not None)

    def advance(self, now_us: int) -> None:
        """Let the elections whose time is over end."""
        if not self._active:
            return
        for state in self._states.values():
            if state.election is not None and now_us >= state.election.until_us:
                self._end(state)

    def lasts(self, topic: str | None, partition_index: int) -> bool:
        """Whether the partition has no leader now."""
        state = self._states.get((topic or "", partition_index))
        return state is not None and state.election is not None

    def bump(self, topic: str, partition_index: int) -> int:
        """By how much the shown leader epoch of a partition is above the broker's."""
        state = self._states.get((topic, partition_index))
        return state.bump if state is not None else 0

    def _end(self, state: State) -> None:
        state.election = None
        self._active -= 1
        self._changed()

    @property
    def any_ever(self) -> bool:
        """Whether an election was ever started: only then is there anything to show or to translate."""
        return bool(self._states or self.absent)

    @property
    def away(self) -> frozenset[int]:
        """The brokers of this cluster that are away."""
        return frozenset(node_id for node_id in self.absent.values() if node_id in self._cluster.brokers)

    @property
    def nobody_is_left(self) -> bool:
        """Whether all brokers of this cluster, as far as they are known, are away."""
        return len(self.away) == len(self._cluster.brokers) > 0

    # ---- what the session has to show

    def interest(self, api_key: int, api_version: int) -> int:
        """The plan's interest flags for an API; 0 while no election was ever started, and for unknown versions."""
        if not self.any_ever or not is_known(api_key, api_version):
            return 0
        flags = REQUEST | REQUEST_BODY if self.coordinators.any_of(api_key) else 0
        if self.away and api_key == ApiKey.Fetch:
            flags = REQUEST | REQUEST_BODY | (RESPONSE_BODY if api_version >= _FOLLOWERS_SERVE else 0)
        shown = self._active or self._moved
        if (shown and api_key in _LEADER_APIS) or api_version >= EPOCH_IN_REQUEST.get(api_key, 1 << 16):
            flags |= REQUEST | REQUEST_BODY
        if api_key == ApiKey.ShareFetch:
            flags |= REQUEST | REQUEST_BODY  # its sessions are followed
        if (shown and api_key in _NAMES_LEADERS) or (api_version >= EPOCH_IN_RESPONSE.get(api_key, 1 << 16)):
            flags |= RESPONSE_BODY
        return flags

    # ---- requests

    def routed(self, request: Request, asked: Iterable[PartitionEntry], node_id: int | None) -> Routing:
        """What becomes of the partitions asked of the broker `node_id` (None: whoever bootstraps)."""
        routing = Routing()
        api_key = request.header.api_key
        if not (self._active or self._moved) or api_key not in _LEADER_APIS:
            return routing
        for entry in asked:
            topic = entry.topic or self._cluster.topic_name(entry.topic_id) or ""
            state = self._states.get((topic, entry.partition_index))
            if state is None:
                continue
            if state.election is not None:
                by = state.election.hit
                leader_id = -1
            else:
                known = self._cluster.leaders.get((topic, entry.partition_index))
                if state.moved_by is None or known is None or api_key in _NEVER_RELAYED:
                    continue
                leader_id = known.leader_id if state.leader_id is None else state.leader_id
                if leader_id == node_id:
                    if known.leader_id != node_id:
                        routing.relays[partition_key(entry)] = Elsewhere(known.leader_id, state.moved_by)
                    continue
                if state.leader_id is None and (node_id is None or self._serves(request, state, node_id)):
                    continue
                by = state.moved_by
            routing.touched.setdefault(by, []).append(partition_key(entry))
            epoch = self._shown_epoch(topic, entry.partition_index, state)
            current_leader = {"leader_id": leader_id, "leader_epoch": epoch}
            routing.failures[partition_key(entry)] = Failure(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, {"current_leader": current_leader}
            )
        return routing

    def _serves(self, request: Request, state: State, node_id: int) -> bool:
        """Whether a follower takes this Fetch, now that the true leader leads again.

        The one that was shown to lead takes it only from a consumer that names its rack: only those are sent to
        followers, whoever else comes still believes in it.
        """
        if request.header.api_key != ApiKey.Fetch or request.header.api_version < _FOLLOWERS_SERVE:
            return False
        return node_id != state.moved_to or bool(request.body["rack_id"])

    def only_leaders_are_read(self, asked: Iterable[PartitionEntry]) -> bool:
        """Whether a leader, asked for these partitions, must not send the consumer to a follower (KIP-392)."""
        if self.away:
            return True
        names = (
            (entry.topic or self._cluster.topic_name(entry.topic_id) or "", entry.partition_index) for entry in asked
        )
        states = (self._states.get(name) for name in names)
        return any(state is not None and state.leader_id is not None for state in states)

    def lowered(self, header: RequestHeader, body: Body) -> tuple[Body, dict[PartitionKey, Touch]]:
        """The request with the epochs that brokers know, and the partitions that are fenced for one they can't know.

        Of these the rule that raised their epoch.
        """
        api_key, api_version, *_ = header
        fenced: dict[PartitionKey, Touch] = {}
        if not self._states or api_version < EPOCH_IN_REQUEST.get(api_key, 1 << 16):
            return body, fenced
        changed = False
        topics = []
        for topic in body["topics"]:
            name = self._name(topic)
            partitions = []
            for partition in topic["partitions"]:
                index = partition["partition"] if "partition" in partition else partition["partition_index"]
                state = self._states.get((name, index))
                bump = 0 if state is None else state.bump
                epoch = partition.get("current_leader_epoch", -1)
                if bump and api_key == ApiKey.OffsetForLeaderEpoch:
                    asked = self._asked_epoch(name, index, partition["leader_epoch"])
                    changed |= asked != partition["leader_epoch"]
                    partition = {**partition, "leader_epoch": asked}
                if bump and epoch >= bump:
                    partition = {**partition, "current_leader_epoch": epoch - bump}
                    changed = True
                elif state is not None and state.raised_by is not None and epoch >= 0:
                    key = (top_key(topic.get("name") or topic.get("topic"), topic.get("topic_id")), index)
                    fenced[key] = state.raised_by
                partitions.append(partition)
            topics.append({**topic, "partitions": partitions})
        return ({**body, "topics": topics} if changed else body), fenced

    # ---- responses

    def told(self, request: Request, answer: Body, refused: frozenset[PartitionKey]) -> tuple[Body, tuple[Touch, ...]]:
        """An answer that agrees with the elections, and the rules that the client notices in it.

        `refused` are the partitions that the proxy answered for, in the shown epochs already.
        """
        api_key, api_version, *_ = request.header
        if api_key in _NAMES_LEADERS:
            return with_shown_leaders(answer, self._state_of) if self._states else (answer, ())
        if api_key == ApiKey.OffsetForLeaderEpoch:
            return self._with_asked_epochs(request, answer), ()
        if api_key in EPOCH_IN_RESPONSE:
            return raised(api_key, api_version, answer, self._state_of, refused, self._cluster, self.away), ()
        return answer, ()

    def _asked_epoch(self, topic: str, partition_index: int, epoch: int) -> int:
        """The epoch to ask brokers for where a client asks for this one: their last for one that was only shown."""
        known = self._cluster.leaders.get((topic, partition_index))
        if known is None or known.leader_epoch < 0:
            return epoch
        shown = known.leader_epoch + self.bump(topic, partition_index)
        return known.leader_epoch if known.leader_epoch < epoch <= shown else epoch

    def _with_asked_epochs(self, request: Request, answer: Body) -> Body:
        """An OffsetForLeaderEpoch answer that names, of those that were only shown, the epochs that were asked for."""
        asked = {}
        for entry in request.partitions:
            epoch = entry.fields["leader_epoch"]
            lowered = self._asked_epoch(entry.topic or "", entry.partition_index, epoch)
            if lowered != epoch:
                asked[entry.topic, entry.partition_index, lowered] = epoch
        if not asked:
            return answer
        topics = []
        for topic in answer["topics"]:
            partitions = []
            for partition in topic["partitions"]:
                key = (topic["topic"], partition["partition"], partition["leader_epoch"])
                partitions.append({**partition, "leader_epoch": asked.get(key, partition["leader_epoch"])})
            topics.append({**topic, "partitions": partitions})
        return {**answer, "topics": topics}

    def told_now(self, answer: Body, only: frozenset[tuple[str | None, int]]) -> Body:
        """A Metadata answer that was told before these partitions changed hands, and so lacks them alone."""
        return with_shown_leaders(answer, self._state_of, only)[0] if only and "topics" in answer else answer

    def _state_of(self, topic: Body, partition_index: int) -> State | None:
        return self._states.get((self._name(topic), partition_index))

    def _name(self, topic: Body) -> str:
        name = topic.get("name") or topic.get("topic") or self._cluster.topic_name(topic.get("topic_id"))
        return name or ""

    def _shown_epoch(self, topic: str, partition_index: int, state: State) -> int:
        known = self._cluster.leaders.get((topic, partition_index))
        return -1 if known is None or known.leader_epoch < 0 else known.leader_epoch + state.bump
