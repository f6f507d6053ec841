// Code generated from notleader's OpenAPI document by tools/fault_builders; DO NOT EDIT.

package notleader

// Fault is a fault of any kind: what the functions named after the kinds make.
type Fault interface{ fault() document }

// Match: Every key is optional; a value is one pattern or a list, names take globs, ! means all but.
type Match struct{ document }

// APIKey: API by name, glob or number.
func (f Match) APIKey(apiKey ...any) Match {
	return Match{f.with("api_key", one(apiKey))}
}

// APIVersion: Version of the request: 7, '3-9', '>=9', '<=4'.
func (f Match) APIVersion(apiVersion ...any) Match {
	return Match{f.with("api_version", one(apiVersion))}
}

// Topic: Topic named in the request (by id too, once seen).
func (f Match) Topic(topic ...string) Match {
	return Match{f.with("topic", one(topic))}
}

// PartitionIndex: Partition named in the request.
func (f Match) PartitionIndex(partitionIndex ...any) Match {
	return Match{f.with("partition_index", one(partitionIndex))}
}

// ClientID: The client's own name, from the request header.
func (f Match) ClientID(clientID ...string) Match {
	return Match{f.with("client_id", one(clientID))}
}

// GroupID: Group named in the request.
func (f Match) GroupID(groupID ...string) Match {
	return Match{f.with("group_id", one(groupID))}
}

// TransactionalID: Transactional id named in the request.
func (f Match) TransactionalID(transactionalID ...string) Match {
	return Match{f.with("transactional_id", one(transactionalID))}
}

// NodeID: Broker whose listener the client is connected to.
func (f Match) NodeID(nodeID ...any) Match {
	return Match{f.with("node_id", one(nodeID))}
}

// Listener: 'bootstrap', 'broker-<node_id>' or a Toxiproxy proxy.
func (f Match) Listener(listener ...string) Match {
	return Match{f.with("listener", one(listener))}
}

// Connection: Connection by number (from 1) or client address.
func (f Match) Connection(connection ...any) Match {
	return Match{f.with("connection", one(connection))}
}

// Principal: Authenticated user of the connection.
func (f Match) Principal(principal ...string) Match {
	return Match{f.with("principal", one(principal))}
}

// NormalDistribution: The bell curve; what falls below zero is no delay.
type NormalDistribution struct{ document }

// Normal: The bell curve; what falls below zero is no delay.
func Normal(meanMS float64, deviationMS float64) NormalDistribution {
	return NormalDistribution{document{"distribution": "normal", "mean_ms": meanMS, "deviation_ms": deviationMS}}
}

// ParetoDistribution: Mostly short, now and then very long, as tail latency is.
type ParetoDistribution struct{ document }

// Pareto: Mostly short, now and then very long, as tail latency is.
func Pareto(minMS float64) ParetoDistribution {
	return ParetoDistribution{document{"distribution": "pareto", "min_ms": minMS}}
}

// MaxMS: What is longer is cut to this.
func (f ParetoDistribution) MaxMS(maxMS float64) ParetoDistribution {
	return ParetoDistribution{f.with("max_ms", maxMS)}
}

// Shape: The smaller, the heavier the tail (2 is heavy, 1 extreme).
func (f ParetoDistribution) Shape(shape float64) ParetoDistribution {
	return ParetoDistribution{f.with("shape", shape)}
}

// Trigger: Counted once per matching exchange: window first, then skip, every, probability and times.
type Trigger struct{ document }

// Times: How often to hit; 'forever' sets no limit.
func (f Trigger) Times(times any) Trigger {
	return Trigger{f.with("times", times)}
}

// Skip: How many matching ones pass before the first may be hit.
func (f Trigger) Skip(skip int64) Trigger {
	return Trigger{f.with("skip", skip)}
}

// Every: Hit each n-th matching one after the skipped ones.
func (f Trigger) Every(every int64) Trigger {
	return Trigger{f.with("every", every)}
}

// Probability: Chance of a hit, drawn from the seeded source.
func (f Trigger) Probability(probability float64) Trigger {
	return Trigger{f.with("probability", probability)}
}

// AfterMS: Starts this long after the rule was added, or, if it was there before, the proxy began to listen.
func (f Trigger) AfterMS(afterMS float64) Trigger {
	return Trigger{f.with("after_ms", afterMS)}
}

// ForMS: Ends this long after it started; times counts all the same.
func (f Trigger) ForMS(forMS float64) Trigger {
	return Trigger{f.with("for_ms", forMS)}
}

// AfterFault: Starts when the rule of that name first strikes an exchange, not when this one was added.
func (f Trigger) AfterFault(afterFault string) Trigger {
	return Trigger{f.with("after_fault", afterFault)}
}

// Per: What skip, every and times are counted for, each on its own. One of rule, connection, client, partition.
func (f Trigger) Per(per string) Trigger {
	return Trigger{f.with("per", per)}
}

// UniformDistribution: Any length between two bounds, each as likely.
type UniformDistribution struct{ document }

// Uniform: Any length between two bounds, each as likely.
func Uniform(minMS float64, maxMS float64) UniformDistribution {
	return UniformDistribution{document{"distribution": "uniform", "min_ms": minMS, "max_ms": maxMS}}
}

// BandwidthFault: The matching connections pass no more than so many bytes a second, towards the broker, the client, or both.
type BandwidthFault struct{ document }

// Bandwidth: The matching connections pass no more than so many bytes a second, towards the broker, the client, or both.
func Bandwidth(rateBytesPerS int64) BandwidthFault {
	return BandwidthFault{document{"kind": "bandwidth", "rate_bytes_per_s": rateBytesPerS}}
}

func (f BandwidthFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f BandwidthFault) Name(name string) BandwidthFault {
	return BandwidthFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f BandwidthFault) Match(match Match) BandwidthFault {
	return BandwidthFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f BandwidthFault) Trigger(trigger Trigger) BandwidthFault {
	return BandwidthFault{f.with("trigger", trigger)}
}

// Direction: Which way is slow. One of request, response, both.
func (f BandwidthFault) Direction(direction string) BandwidthFault {
	return BandwidthFault{f.with("direction", direction)}
}

// BlackholeFault: The matching listeners and connections fall silent without FIN or RST, as behind a firewall that drops.
type BlackholeFault struct{ document }

// Blackhole: The matching listeners and connections fall silent without FIN or RST, as behind a firewall that drops.
func Blackhole() BlackholeFault {
	return BlackholeFault{document{"kind": "blackhole"}}
}

func (f BlackholeFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f BlackholeFault) Name(name string) BlackholeFault {
	return BlackholeFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f BlackholeFault) Match(match Match) BlackholeFault {
	return BlackholeFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f BlackholeFault) Trigger(trigger Trigger) BlackholeFault {
	return BlackholeFault{f.with("trigger", trigger)}
}

// Established: Whether connections that are open fall silent.
func (f BlackholeFault) Established(established bool) BlackholeFault {
	return BlackholeFault{f.with("established", established)}
}

// New: Whether new connections get no answer.
func (f BlackholeFault) New(new_ bool) BlackholeFault {
	return BlackholeFault{f.with("new", new_)}
}

// Release: What happens at the end. One of discard, immediate, delayed.
func (f BlackholeFault) Release(release string) BlackholeFault {
	return BlackholeFault{f.with("release", release)}
}

// ReleaseDelayMS: How much later delayed carries on.
func (f BlackholeFault) ReleaseDelayMS(releaseDelayMS float64) BlackholeFault {
	return BlackholeFault{f.with("release_delay_ms", releaseDelayMS)}
}

// BrokerDownFault: The broker node_id is dead for its clients: its port and its connections, and in what the others tell.
type BrokerDownFault struct{ document }

// BrokerDown: The broker node_id is dead for its clients: its port and its connections, and in what the others tell.
func BrokerDown(nodeID any) BrokerDownFault {
	return BrokerDownFault{document{"kind": "broker_down", "node_id": nodeID}}
}

func (f BrokerDownFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f BrokerDownFault) Name(name string) BrokerDownFault {
	return BrokerDownFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f BrokerDownFault) Match(match Match) BrokerDownFault {
	return BrokerDownFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f BrokerDownFault) Trigger(trigger Trigger) BrokerDownFault {
	return BrokerDownFault{f.with("trigger", trigger)}
}

// How: Whether its host answers for it. One of killed, powered_off.
func (f BrokerDownFault) How(how string) BrokerDownFault {
	return BrokerDownFault{f.with("how", how)}
}

// ElectionMS: How long each of its partitions has no leader, and what it coordinates no coordinator; without, until the broker is back.
func (f BrokerDownFault) ElectionMS(electionMS any) BrokerDownFault {
	return BrokerDownFault{f.with("election_ms", electionMS)}
}

// CapVersionsFault: ApiVersions answers offer fewer versions than the broker speaks, or leave an API out: one of whose versions it speaks none, as with DeleteRecords: 99-99.
type CapVersionsFault struct{ document }

// CapVersions: ApiVersions answers offer fewer versions than the broker speaks, or leave an API out: one of whose versions it speaks none, as with DeleteRecords: 99-99.
func CapVersions(versions map[string]any) CapVersionsFault {
	return CapVersionsFault{document{"kind": "cap_versions", "versions": versions}}
}

func (f CapVersionsFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f CapVersionsFault) Name(name string) CapVersionsFault {
	return CapVersionsFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f CapVersionsFault) Match(match Match) CapVersionsFault {
	return CapVersionsFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f CapVersionsFault) Trigger(trigger Trigger) CapVersionsFault {
	return CapVersionsFault{f.with("trigger", trigger)}
}

// CloseFault: The connection is closed in order (FIN) in place of forwarding the request, answering it or greeting the client.
type CloseFault struct{ document }

// Close: The connection is closed in order (FIN) in place of forwarding the request, answering it or greeting the client.
func Close() CloseFault {
	return CloseFault{document{"kind": "close"}}
}

func (f CloseFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f CloseFault) Name(name string) CloseFault {
	return CloseFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f CloseFault) Match(match Match) CloseFault {
	return CloseFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f CloseFault) Trigger(trigger Trigger) CloseFault {
	return CloseFault{f.with("trigger", trigger)}
}

// Phase: At which step the connection is closed. One of before_broker, after_broker, connection.
func (f CloseFault) Phase(phase string) CloseFault {
	return CloseFault{f.with("phase", phase)}
}

// CoordinatorMoveFault: FindCoordinator answers name another broker for the group or transactional id.
type CoordinatorMoveFault struct{ document }

// CoordinatorMove: FindCoordinator answers name another broker for the group or transactional id.
func CoordinatorMove() CoordinatorMoveFault {
	return CoordinatorMoveFault{document{"kind": "coordinator_move"}}
}

func (f CoordinatorMoveFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f CoordinatorMoveFault) Name(name string) CoordinatorMoveFault {
	return CoordinatorMoveFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f CoordinatorMoveFault) Match(match Match) CoordinatorMoveFault {
	return CoordinatorMoveFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f CoordinatorMoveFault) Trigger(trigger Trigger) CoordinatorMoveFault {
	return CoordinatorMoveFault{f.with("trigger", trigger)}
}

// NodeID: The broker to name; else the next one that is known.
func (f CoordinatorMoveFault) NodeID(nodeID int64) CoordinatorMoveFault {
	return CoordinatorMoveFault{f.with("node_id", nodeID)}
}

// CorruptFault: The record batches of the matching partitions are damaged: of a Produce (before_broker) or a Fetch answer.
type CorruptFault struct{ document }

// Corrupt: The record batches of the matching partitions are damaged: of a Produce (before_broker) or a Fetch answer.
func Corrupt() CorruptFault {
	return CorruptFault{document{"kind": "corrupt"}}
}

func (f CorruptFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f CorruptFault) Name(name string) CorruptFault {
	return CorruptFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f CorruptFault) Match(match Match) CorruptFault {
	return CorruptFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f CorruptFault) Trigger(trigger Trigger) CorruptFault {
	return CorruptFault{f.with("trigger", trigger)}
}

// Phase: Whether a Produce is damaged, or what a Fetch gets. One of before_broker, after_broker.
func (f CorruptFault) Phase(phase string) CorruptFault {
	return CorruptFault{f.with("phase", phase)}
}

// Part: What is damaged: the checksum, the records, the length or the codec. One of crc, records, length, compression.
func (f CorruptFault) Part(part string) CorruptFault {
	return CorruptFault{f.with("part", part)}
}

// DelayFault: The request reaches the broker later (before_broker), or its answer the client (after_broker).
type DelayFault struct{ document }

// Delay: The request reaches the broker later (before_broker), or its answer the client (after_broker).
func Delay(delayMS any) DelayFault {
	return DelayFault{document{"kind": "delay", "delay_ms": delayMS}}
}

func (f DelayFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f DelayFault) Name(name string) DelayFault {
	return DelayFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f DelayFault) Match(match Match) DelayFault {
	return DelayFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f DelayFault) Trigger(trigger Trigger) DelayFault {
	return DelayFault{f.with("trigger", trigger)}
}

// Phase: Which way is slow. One of before_broker, after_broker.
func (f DelayFault) Phase(phase string) DelayFault {
	return DelayFault{f.with("phase", phase)}
}

// DropRequestFault: The request is swallowed: the broker never sees it, the client never gets an answer.
type DropRequestFault struct{ document }

// DropRequest: The request is swallowed: the broker never sees it, the client never gets an answer.
func DropRequest() DropRequestFault {
	return DropRequestFault{document{"kind": "drop_request"}}
}

func (f DropRequestFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f DropRequestFault) Name(name string) DropRequestFault {
	return DropRequestFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f DropRequestFault) Match(match Match) DropRequestFault {
	return DropRequestFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f DropRequestFault) Trigger(trigger Trigger) DropRequestFault {
	return DropRequestFault{f.with("trigger", trigger)}
}

// Later: What becomes of later answers of the connection. One of hold, pass.
func (f DropRequestFault) Later(later string) DropRequestFault {
	return DropRequestFault{f.with("later", later)}
}

// DropResponseFault: The broker applies the request and answers, and the answer is thrown away: the client can't know what happened.
type DropResponseFault struct{ document }

// DropResponse: The broker applies the request and answers, and the answer is thrown away: the client can't know what happened.
func DropResponse() DropResponseFault {
	return DropResponseFault{document{"kind": "drop_response"}}
}

func (f DropResponseFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f DropResponseFault) Name(name string) DropResponseFault {
	return DropResponseFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f DropResponseFault) Match(match Match) DropResponseFault {
	return DropResponseFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f DropResponseFault) Trigger(trigger Trigger) DropResponseFault {
	return DropResponseFault{f.with("trigger", trigger)}
}

// Later: What becomes of later answers of the connection. One of hold, pass.
func (f DropResponseFault) Later(later string) DropResponseFault {
	return DropResponseFault{f.with("later", later)}
}

// DuplicateFault: The broker receives the request again, or its matching partitions; the client gets the first answer only.
type DuplicateFault struct{ document }

// Duplicate: The broker receives the request again, or its matching partitions; the client gets the first answer only.
func Duplicate() DuplicateFault {
	return DuplicateFault{document{"kind": "duplicate"}}
}

func (f DuplicateFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f DuplicateFault) Name(name string) DuplicateFault {
	return DuplicateFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f DuplicateFault) Match(match Match) DuplicateFault {
	return DuplicateFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f DuplicateFault) Trigger(trigger Trigger) DuplicateFault {
	return DuplicateFault{f.with("trigger", trigger)}
}

// Copies: How often the broker gets it besides.
func (f DuplicateFault) Copies(copies int64) DuplicateFault {
	return DuplicateFault{f.with("copies", copies)}
}

// ErrorFault: The answer carries an error code, in the place and with the other fields that a broker would give it.
type ErrorFault struct{ document }

// Error: The answer carries an error code, in the place and with the other fields that a broker would give it.
func Error(errorCode any) ErrorFault {
	return ErrorFault{document{"kind": "error", "error_code": errorCode}}
}

func (f ErrorFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f ErrorFault) Name(name string) ErrorFault {
	return ErrorFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f ErrorFault) Match(match Match) ErrorFault {
	return ErrorFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f ErrorFault) Trigger(trigger Trigger) ErrorFault {
	return ErrorFault{f.with("trigger", trigger)}
}

// Phase: Whether the broker carries the request out before it is refused. One of before_broker, after_broker.
func (f ErrorFault) Phase(phase string) ErrorFault {
	return ErrorFault{f.with("phase", phase)}
}

// LeaderElectionFault: The matching partitions have no leader for for_ms, and then one with a higher epoch, for every client.
type LeaderElectionFault struct{ document }

// LeaderElection: The matching partitions have no leader for for_ms, and then one with a higher epoch, for every client.
func LeaderElection() LeaderElectionFault {
	return LeaderElectionFault{document{"kind": "leader_election"}}
}

func (f LeaderElectionFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f LeaderElectionFault) Name(name string) LeaderElectionFault {
	return LeaderElectionFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f LeaderElectionFault) Match(match Match) LeaderElectionFault {
	return LeaderElectionFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f LeaderElectionFault) Trigger(trigger Trigger) LeaderElectionFault {
	return LeaderElectionFault{f.with("trigger", trigger)}
}

// ForMS: How long the partitions have no leader.
func (f LeaderElectionFault) ForMS(forMS float64) LeaderElectionFault {
	return LeaderElectionFault{f.with("for_ms", forMS)}
}

// NewLeader: Who leads afterwards: a node id, or other for the next replica in sync.
func (f LeaderElectionFault) NewLeader(newLeader any) LeaderElectionFault {
	return LeaderElectionFault{f.with("new_leader", newLeader)}
}

// LeaderMoveFault: The matching partitions are led by another broker while the rule stands, one leader epoch higher.
type LeaderMoveFault struct{ document }

// LeaderMove: The matching partitions are led by another broker while the rule stands, one leader epoch higher.
func LeaderMove() LeaderMoveFault {
	return LeaderMoveFault{document{"kind": "leader_move"}}
}

func (f LeaderMoveFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f LeaderMoveFault) Name(name string) LeaderMoveFault {
	return LeaderMoveFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f LeaderMoveFault) Match(match Match) LeaderMoveFault {
	return LeaderMoveFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f LeaderMoveFault) Trigger(trigger Trigger) LeaderMoveFault {
	return LeaderMoveFault{f.with("trigger", trigger)}
}

// LeaderID: The broker that leads; other is the next replica in sync, else the next broker.
func (f LeaderMoveFault) LeaderID(leaderID any) LeaderMoveFault {
	return LeaderMoveFault{f.with("leader_id", leaderID)}
}

// LimitFault: The matching connections are closed once so many bytes have passed since the rule began to touch them.
type LimitFault struct{ document }

// Limit: The matching connections are closed once so many bytes have passed since the rule began to touch them.
func Limit(limitBytes int64) LimitFault {
	return LimitFault{document{"kind": "limit", "limit_bytes": limitBytes}}
}

func (f LimitFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f LimitFault) Name(name string) LimitFault {
	return LimitFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f LimitFault) Match(match Match) LimitFault {
	return LimitFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f LimitFault) Trigger(trigger Trigger) LimitFault {
	return LimitFault{f.with("trigger", trigger)}
}

// Direction: Which way is counted. One of request, response, both.
func (f LimitFault) Direction(direction string) LimitFault {
	return LimitFault{f.with("direction", direction)}
}

// OffsetLieFault: ListOffsets answers name an offset add away from the true one, or offset itself; never below 0.
type OffsetLieFault struct{ document }

// OffsetLie: ListOffsets answers name an offset add away from the true one, or offset itself; never below 0.
func OffsetLie() OffsetLieFault {
	return OffsetLieFault{document{"kind": "offset_lie"}}
}

func (f OffsetLieFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f OffsetLieFault) Name(name string) OffsetLieFault {
	return OffsetLieFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f OffsetLieFault) Match(match Match) OffsetLieFault {
	return OffsetLieFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f OffsetLieFault) Trigger(trigger Trigger) OffsetLieFault {
	return OffsetLieFault{f.with("trigger", trigger)}
}

// Add: How far from the true offset; negative is before it.
func (f OffsetLieFault) Add(add int64) OffsetLieFault {
	return OffsetLieFault{f.with("add", add)}
}

// Offset: The offset to name, whatever the true one.
func (f OffsetLieFault) Offset(offset int64) OffsetLieFault {
	return OffsetLieFault{f.with("offset", offset)}
}

// Asked: Which questions are answered wrongly: the log's begin, its end, or all. One of earliest, latest, any.
func (f OffsetLieFault) Asked(asked string) OffsetLieFault {
	return OffsetLieFault{f.with("asked", asked)}
}

// OversizedFrameFault: In place of the answer the client gets a length that no frame has, and then nothing, or the end.
type OversizedFrameFault struct{ document }

// OversizedFrame: In place of the answer the client gets a length that no frame has, and then nothing, or the end.
func OversizedFrame() OversizedFrameFault {
	return OversizedFrameFault{document{"kind": "oversized_frame"}}
}

func (f OversizedFrameFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f OversizedFrameFault) Name(name string) OversizedFrameFault {
	return OversizedFrameFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f OversizedFrameFault) Match(match Match) OversizedFrameFault {
	return OversizedFrameFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f OversizedFrameFault) Trigger(trigger Trigger) OversizedFrameFault {
	return OversizedFrameFault{f.with("trigger", trigger)}
}

// Phase: Whether the broker gets the request at all. One of before_broker, after_broker.
func (f OversizedFrameFault) Phase(phase string) OversizedFrameFault {
	return OversizedFrameFault{f.with("phase", phase)}
}

// Length: The length, as a signed 32-bit number.
func (f OversizedFrameFault) Length(length int64) OversizedFrameFault {
	return OversizedFrameFault{f.with("length", length)}
}

// Close: Whether the connection is closed behind it, or stays open and silent.
func (f OversizedFrameFault) Close(close bool) OversizedFrameFault {
	return OversizedFrameFault{f.with("close", close)}
}

// RefuseFault: The ports of the matching listeners refuse connections, as where no process listens; open ones live on.
type RefuseFault struct{ document }

// Refuse: The ports of the matching listeners refuse connections, as where no process listens; open ones live on.
func Refuse() RefuseFault {
	return RefuseFault{document{"kind": "refuse"}}
}

func (f RefuseFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f RefuseFault) Name(name string) RefuseFault {
	return RefuseFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f RefuseFault) Match(match Match) RefuseFault {
	return RefuseFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f RefuseFault) Trigger(trigger Trigger) RefuseFault {
	return RefuseFault{f.with("trigger", trigger)}
}

// ReorderFault: The topics of an answer, and the partitions of each, come in reverse order: no broker promises any.
type ReorderFault struct{ document }

// Reorder: The topics of an answer, and the partitions of each, come in reverse order: no broker promises any.
func Reorder() ReorderFault {
	return ReorderFault{document{"kind": "reorder"}}
}

func (f ReorderFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f ReorderFault) Name(name string) ReorderFault {
	return ReorderFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f ReorderFault) Match(match Match) ReorderFault {
	return ReorderFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f ReorderFault) Trigger(trigger Trigger) ReorderFault {
	return ReorderFault{f.with("trigger", trigger)}
}

// ResetFault: The client's connection is reset (RST), as when a broker's host or a firewall in between gives it up.
type ResetFault struct{ document }

// Reset: The client's connection is reset (RST), as when a broker's host or a firewall in between gives it up.
func Reset() ResetFault {
	return ResetFault{document{"kind": "reset"}}
}

func (f ResetFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f ResetFault) Name(name string) ResetFault {
	return ResetFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f ResetFault) Match(match Match) ResetFault {
	return ResetFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f ResetFault) Trigger(trigger Trigger) ResetFault {
	return ResetFault{f.with("trigger", trigger)}
}

// Phase: At which step the connection breaks. One of before_broker, after_broker, connection.
func (f ResetFault) Phase(phase string) ResetFault {
	return ResetFault{f.with("phase", phase)}
}

// AfterBytes: How many bytes of the request or answer (length included) pass before the break.
func (f ResetFault) AfterBytes(afterBytes int64) ResetFault {
	return ResetFault{f.with("after_bytes", afterBytes)}
}

// RollingRestartFault: Each broker is down for down_ms, in the order of the node ids, with pause_ms between two of them.
type RollingRestartFault struct{ document }

// RollingRestart: Each broker is down for down_ms, in the order of the node ids, with pause_ms between two of them.
func RollingRestart() RollingRestartFault {
	return RollingRestartFault{document{"kind": "rolling_restart"}}
}

func (f RollingRestartFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f RollingRestartFault) Name(name string) RollingRestartFault {
	return RollingRestartFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f RollingRestartFault) Match(match Match) RollingRestartFault {
	return RollingRestartFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f RollingRestartFault) Trigger(trigger Trigger) RollingRestartFault {
	return RollingRestartFault{f.with("trigger", trigger)}
}

// DownMS: How long each broker is down.
func (f RollingRestartFault) DownMS(downMS float64) RollingRestartFault {
	return RollingRestartFault{f.with("down_ms", downMS)}
}

// PauseMS: How long all of them are up between two restarts.
func (f RollingRestartFault) PauseMS(pauseMS float64) RollingRestartFault {
	return RollingRestartFault{f.with("pause_ms", pauseMS)}
}

// How: Whether its host answers for a broker. One of killed, powered_off.
func (f RollingRestartFault) How(how string) RollingRestartFault {
	return RollingRestartFault{f.with("how", how)}
}

// ElectionMS: How long each partition of a broker has no leader.
func (f RollingRestartFault) ElectionMS(electionMS any) RollingRestartFault {
	return RollingRestartFault{f.with("election_ms", electionMS)}
}

// SessionExpiryFault: A SaslAuthenticate answer says that the session lasts session_lifetime_ms only (KIP-368).
type SessionExpiryFault struct{ document }

// SessionExpiry: A SaslAuthenticate answer says that the session lasts session_lifetime_ms only (KIP-368).
func SessionExpiry() SessionExpiryFault {
	return SessionExpiryFault{document{"kind": "session_expiry"}}
}

func (f SessionExpiryFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f SessionExpiryFault) Name(name string) SessionExpiryFault {
	return SessionExpiryFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f SessionExpiryFault) Match(match Match) SessionExpiryFault {
	return SessionExpiryFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f SessionExpiryFault) Trigger(trigger Trigger) SessionExpiryFault {
	return SessionExpiryFault{f.with("trigger", trigger)}
}

// SessionLifetimeMS: How long the session is said to last.
func (f SessionExpiryFault) SessionLifetimeMS(sessionLifetimeMS int64) SessionExpiryFault {
	return SessionExpiryFault{f.with("session_lifetime_ms", sessionLifetimeMS)}
}

// SliceFault: What passes the matching connections is cut into small pieces with a pause behind each.
type SliceFault struct{ document }

// Slice: What passes the matching connections is cut into small pieces with a pause behind each.
func Slice() SliceFault {
	return SliceFault{document{"kind": "slice"}}
}

func (f SliceFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f SliceFault) Name(name string) SliceFault {
	return SliceFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f SliceFault) Match(match Match) SliceFault {
	return SliceFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f SliceFault) Trigger(trigger Trigger) SliceFault {
	return SliceFault{f.with("trigger", trigger)}
}

// AverageBytes: Mean size of a piece.
func (f SliceFault) AverageBytes(averageBytes int64) SliceFault {
	return SliceFault{f.with("average_bytes", averageBytes)}
}

// VariationBytes: How far above or below that a piece may be.
func (f SliceFault) VariationBytes(variationBytes int64) SliceFault {
	return SliceFault{f.with("variation_bytes", variationBytes)}
}

// DelayUs: Pause behind each piece.
func (f SliceFault) DelayUs(delayUs int64) SliceFault {
	return SliceFault{f.with("delay_us", delayUs)}
}

// Direction: Which way is cut. One of request, response, both.
func (f SliceFault) Direction(direction string) SliceFault {
	return SliceFault{f.with("direction", direction)}
}

// SlowCloseFault: What closes a matching connection, its broker or another fault, reaches the client delay_ms later.
type SlowCloseFault struct{ document }

// SlowClose: What closes a matching connection, its broker or another fault, reaches the client delay_ms later.
func SlowClose(delayMS float64) SlowCloseFault {
	return SlowCloseFault{document{"kind": "slow_close", "delay_ms": delayMS}}
}

func (f SlowCloseFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f SlowCloseFault) Name(name string) SlowCloseFault {
	return SlowCloseFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f SlowCloseFault) Match(match Match) SlowCloseFault {
	return SlowCloseFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f SlowCloseFault) Trigger(trigger Trigger) SlowCloseFault {
	return SlowCloseFault{f.with("trigger", trigger)}
}

// StaleMetadataFault: Metadata answers name the leaders and epochs that were known when the rule was added.
type StaleMetadataFault struct{ document }

// StaleMetadata: Metadata answers name the leaders and epochs that were known when the rule was added.
func StaleMetadata() StaleMetadataFault {
	return StaleMetadataFault{document{"kind": "stale_metadata"}}
}

func (f StaleMetadataFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f StaleMetadataFault) Name(name string) StaleMetadataFault {
	return StaleMetadataFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f StaleMetadataFault) Match(match Match) StaleMetadataFault {
	return StaleMetadataFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f StaleMetadataFault) Trigger(trigger Trigger) StaleMetadataFault {
	return StaleMetadataFault{f.with("trigger", trigger)}
}

// StallFault: The request (before_broker) or its answer (after_broker) is held until the rule is released or removed.
type StallFault struct{ document }

// Stall: The request (before_broker) or its answer (after_broker) is held until the rule is released or removed.
func Stall() StallFault {
	return StallFault{document{"kind": "stall"}}
}

func (f StallFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f StallFault) Name(name string) StallFault {
	return StallFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f StallFault) Match(match Match) StallFault {
	return StallFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f StallFault) Trigger(trigger Trigger) StallFault {
	return StallFault{f.with("trigger", trigger)}
}

// Phase: Whether the request is held, or the answer to it. One of before_broker, after_broker.
func (f StallFault) Phase(phase string) StallFault {
	return StallFault{f.with("phase", phase)}
}

// ForMS: Goes on after this time; else when released or removed.
func (f StallFault) ForMS(forMS float64) StallFault {
	return StallFault{f.with("for_ms", forMS)}
}

// ThrottleFault: The answer names a throttle_time_ms, and with muted the connection is then not read for that long.
type ThrottleFault struct{ document }

// Throttle: The answer names a throttle_time_ms, and with muted the connection is then not read for that long.
func Throttle(throttleTimeMS int64) ThrottleFault {
	return ThrottleFault{document{"kind": "throttle", "throttle_time_ms": throttleTimeMS}}
}

func (f ThrottleFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f ThrottleFault) Name(name string) ThrottleFault {
	return ThrottleFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f ThrottleFault) Match(match Match) ThrottleFault {
	return ThrottleFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f ThrottleFault) Trigger(trigger Trigger) ThrottleFault {
	return ThrottleFault{f.with("trigger", trigger)}
}

// Muted: Whether the connection is muted for that time.
func (f ThrottleFault) Muted(muted bool) ThrottleFault {
	return ThrottleFault{f.with("muted", muted)}
}

// TruncateFault: The connection is closed in order (FIN) after the first bytes of the request or of its answer.
type TruncateFault struct{ document }

// Truncate: The connection is closed in order (FIN) after the first bytes of the request or of its answer.
func Truncate() TruncateFault {
	return TruncateFault{document{"kind": "truncate"}}
}

func (f TruncateFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f TruncateFault) Name(name string) TruncateFault {
	return TruncateFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f TruncateFault) Match(match Match) TruncateFault {
	return TruncateFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f TruncateFault) Trigger(trigger Trigger) TruncateFault {
	return TruncateFault{f.with("trigger", trigger)}
}

// Phase: Whether the request is torn, or the answer to it. One of before_broker, after_broker.
func (f TruncateFault) Phase(phase string) TruncateFault {
	return TruncateFault{f.with("phase", phase)}
}

// AfterBytes: How many bytes still pass, length prefix included.
func (f TruncateFault) AfterBytes(afterBytes int64) TruncateFault {
	return TruncateFault{f.with("after_bytes", afterBytes)}
}

// WrongLeaderFault: Metadata answers name another broker as leader, which then refuses, for it is none (NOT_LEADER_OR_FOLLOWER).
type WrongLeaderFault struct{ document }

// WrongLeader: Metadata answers name another broker as leader, which then refuses, for it is none (NOT_LEADER_OR_FOLLOWER).
func WrongLeader() WrongLeaderFault {
	return WrongLeaderFault{document{"kind": "wrong_leader"}}
}

func (f WrongLeaderFault) fault() document { return f.document }

// Name: Unique name of the rule; made from kind and position when absent.
func (f WrongLeaderFault) Name(name string) WrongLeaderFault {
	return WrongLeaderFault{f.with("name", name)}
}

// Match: Which exchanges or connections are meant.
func (f WrongLeaderFault) Match(match Match) WrongLeaderFault {
	return WrongLeaderFault{f.with("match", match)}
}

// Trigger: Which of the matching ones are hit.
func (f WrongLeaderFault) Trigger(trigger Trigger) WrongLeaderFault {
	return WrongLeaderFault{f.with("trigger", trigger)}
}

// LeaderID: The broker to name; else the next one in the answer.
func (f WrongLeaderFault) LeaderID(leaderID int64) WrongLeaderFault {
	return WrongLeaderFault{f.with("leader_id", leaderID)}
}

// LeaderEpoch: The epoch to name; else the true one.
func (f WrongLeaderFault) LeaderEpoch(leaderEpoch int64) WrongLeaderFault {
	return WrongLeaderFault{f.with("leader_epoch", leaderEpoch)}
}
