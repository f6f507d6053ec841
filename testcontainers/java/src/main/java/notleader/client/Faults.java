package notleader.client;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Every kind of fault, with what can be said of it. A value that is wrong is refused by the server, which names its
 * place. Generated from notleader's OpenAPI document: python -m tools.fault_builders
 */
public final class Faults {
  private Faults() {}

  /** A document under construction, as the HTTP API takes it. */
  public abstract static class Document {
    final Map<String, Object> fields = new LinkedHashMap<>();

    /** The fields that were set, by their names in the HTTP API. */
    public Map<String, Object> asMap() {
      Map<String, Object> made = new LinkedHashMap<>();
      fields.forEach((field, value) -> made.put(field, plain(value)));
      return made;
    }

    private static Object plain(Object value) {
      return value instanceof Document ? ((Document) value).asMap() : value;
    }

    final void set(String field, Object value) {
      fields.put(field, value);
    }

    final void setAll(String field, List<?> values) {
      fields.put(field, values.size() == 1 ? values.get(0) : values);
    }
  }

  /** A fault of any kind. */
  public abstract static class Fault extends Document {}

  /** Every key is optional; a value is one pattern or a list, names take globs, ! means all but. */
  public static final class Match extends Document {

    /** API by name, glob or number. */
    public Match apiKey(String... apiKey) {
      setAll("api_key", Arrays.asList(apiKey));
      return this;
    }

    /** API by name, glob or number. */
    public Match apiKey(long... apiKey) {
      setAll("api_key", Arrays.stream(apiKey).boxed().collect(Collectors.toList()));
      return this;
    }

    /** Version of the request: 7, '3-9', '&gt;=9', '&lt;=4'. */
    public Match apiVersion(String... apiVersion) {
      setAll("api_version", Arrays.asList(apiVersion));
      return this;
    }

    /** Version of the request: 7, '3-9', '&gt;=9', '&lt;=4'. */
    public Match apiVersion(long... apiVersion) {
      setAll("api_version", Arrays.stream(apiVersion).boxed().collect(Collectors.toList()));
      return this;
    }

    /** Topic named in the request (by id too, once seen). */
    public Match topic(String... topic) {
      setAll("topic", Arrays.asList(topic));
      return this;
    }

    /** Partition named in the request. */
    public Match partitionIndex(String... partitionIndex) {
      setAll("partition_index", Arrays.asList(partitionIndex));
      return this;
    }

    /** Partition named in the request. */
    public Match partitionIndex(long... partitionIndex) {
      setAll("partition_index", Arrays.stream(partitionIndex).boxed().collect(Collectors.toList()));
      return this;
    }

    /** The client's own name, from the request header. */
    public Match clientId(String... clientId) {
      setAll("client_id", Arrays.asList(clientId));
      return this;
    }

    /** Group named in the request. */
    public Match groupId(String... groupId) {
      setAll("group_id", Arrays.asList(groupId));
      return this;
    }

    /** Transactional id named in the request. */
    public Match transactionalId(String... transactionalId) {
      setAll("transactional_id", Arrays.asList(transactionalId));
      return this;
    }

    /** Broker whose listener the client is connected to. */
    public Match nodeId(String... nodeId) {
      setAll("node_id", Arrays.asList(nodeId));
      return this;
    }

    /** Broker whose listener the client is connected to. */
    public Match nodeId(long... nodeId) {
      setAll("node_id", Arrays.stream(nodeId).boxed().collect(Collectors.toList()));
      return this;
    }

    /** 'bootstrap', 'broker-&lt;node_id&gt;' or a Toxiproxy proxy. */
    public Match listener(String... listener) {
      setAll("listener", Arrays.asList(listener));
      return this;
    }

    /** Connection by number (from 1) or client address. */
    public Match connection(String... connection) {
      setAll("connection", Arrays.asList(connection));
      return this;
    }

    /** Connection by number (from 1) or client address. */
    public Match connection(long... connection) {
      setAll("connection", Arrays.stream(connection).boxed().collect(Collectors.toList()));
      return this;
    }

    /** Authenticated user of the connection. */
    public Match principal(String... principal) {
      setAll("principal", Arrays.asList(principal));
      return this;
    }
  }

  /** The bell curve; what falls below zero is no delay. */
  public static final class Normal extends Document {
    private Normal() {
      set("distribution", "normal");
    }
  }

  /** The bell curve; what falls below zero is no delay. */
  public static Normal normal(double meanMs, double deviationMs) {
    Normal made = new Normal();
    made.set("mean_ms", meanMs);
    made.set("deviation_ms", deviationMs);
    return made;
  }

  /** Mostly short, now and then very long, as tail latency is. */
  public static final class Pareto extends Document {
    private Pareto() {
      set("distribution", "pareto");
    }

    /** What is longer is cut to this. */
    public Pareto maxMs(double maxMs) {
      set("max_ms", maxMs);
      return this;
    }

    /** The smaller, the heavier the tail (2 is heavy, 1 extreme). */
    public Pareto shape(double shape) {
      set("shape", shape);
      return this;
    }
  }

  /** Mostly short, now and then very long, as tail latency is. */
  public static Pareto pareto(double minMs) {
    Pareto made = new Pareto();
    made.set("min_ms", minMs);
    return made;
  }

  /** Counted once per matching exchange: window first, then skip, every, probability and times. */
  public static final class Trigger extends Document {

    /** How often to hit; 'forever' sets no limit. */
    public Trigger times(long times) {
      set("times", times);
      return this;
    }

    /** How often to hit; 'forever' sets no limit. */
    public Trigger times(String times) {
      set("times", times);
      return this;
    }

    /** How many matching ones pass before the first may be hit. */
    public Trigger skip(long skip) {
      set("skip", skip);
      return this;
    }

    /** Hit each n-th matching one after the skipped ones. */
    public Trigger every(long every) {
      set("every", every);
      return this;
    }

    /** Chance of a hit, drawn from the seeded source. */
    public Trigger probability(double probability) {
      set("probability", probability);
      return this;
    }

    /** Starts this long after the rule was added, or, if it was there before, the proxy began to listen. */
    public Trigger afterMs(double afterMs) {
      set("after_ms", afterMs);
      return this;
    }

    /** Ends this long after it started; times counts all the same. */
    public Trigger forMs(double forMs) {
      set("for_ms", forMs);
      return this;
    }

    /** Starts when the rule of that name first strikes an exchange, not when this one was added. */
    public Trigger afterFault(String afterFault) {
      set("after_fault", afterFault);
      return this;
    }

    /** What skip, every and times are counted for, each on its own. One of rule, connection, client, partition. */
    public Trigger per(String per) {
      set("per", per);
      return this;
    }
  }

  /** Any length between two bounds, each as likely. */
  public static final class Uniform extends Document {
    private Uniform() {
      set("distribution", "uniform");
    }
  }

  /** Any length between two bounds, each as likely. */
  public static Uniform uniform(double minMs, double maxMs) {
    Uniform made = new Uniform();
    made.set("min_ms", minMs);
    made.set("max_ms", maxMs);
    return made;
  }

  /** The matching connections pass no more than so many bytes a second, towards the broker, the client, or both. */
  public static final class BandwidthFault extends Fault {
    private BandwidthFault() {
      set("kind", "bandwidth");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public BandwidthFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public BandwidthFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public BandwidthFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Which way is slow. One of request, response, both. */
    public BandwidthFault direction(String direction) {
      set("direction", direction);
      return this;
    }
  }

  /** The matching connections pass no more than so many bytes a second, towards the broker, the client, or both. */
  public static BandwidthFault bandwidth(long rateBytesPerS) {
    BandwidthFault made = new BandwidthFault();
    made.set("rate_bytes_per_s", rateBytesPerS);
    return made;
  }

  /** The matching listeners and connections fall silent without FIN or RST, as behind a firewall that drops. */
  public static final class BlackholeFault extends Fault {
    private BlackholeFault() {
      set("kind", "blackhole");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public BlackholeFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public BlackholeFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public BlackholeFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether connections that are open fall silent. */
    public BlackholeFault established(boolean established) {
      set("established", established);
      return this;
    }

    /** Whether new connections get no answer. */
    public BlackholeFault new_(boolean new_) {
      set("new", new_);
      return this;
    }

    /** What happens at the end. One of discard, immediate, delayed. */
    public BlackholeFault release(String release) {
      set("release", release);
      return this;
    }

    /** How much later delayed carries on. */
    public BlackholeFault releaseDelayMs(double releaseDelayMs) {
      set("release_delay_ms", releaseDelayMs);
      return this;
    }
  }

  /** The matching listeners and connections fall silent without FIN or RST, as behind a firewall that drops. */
  public static BlackholeFault blackhole() {
    BlackholeFault made = new BlackholeFault();
    return made;
  }

  /** The broker node_id is dead for its clients: its port and its connections, and in what the others tell. */
  public static final class BrokerDownFault extends Fault {
    private BrokerDownFault() {
      set("kind", "broker_down");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public BrokerDownFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public BrokerDownFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public BrokerDownFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether its host answers for it. One of killed, powered_off. */
    public BrokerDownFault how(String how) {
      set("how", how);
      return this;
    }

    /** How long each of its partitions has no leader, and what it coordinates no coordinator; without, until the broker is back. */
    public BrokerDownFault electionMs(double electionMs) {
      set("election_ms", electionMs);
      return this;
    }

    /** How long each of its partitions has no leader, and what it coordinates no coordinator; without, until the broker is back. */
    public BrokerDownFault electionMs(Uniform electionMs) {
      set("election_ms", electionMs);
      return this;
    }

    /** How long each of its partitions has no leader, and what it coordinates no coordinator; without, until the broker is back. */
    public BrokerDownFault electionMs(Normal electionMs) {
      set("election_ms", electionMs);
      return this;
    }

    /** How long each of its partitions has no leader, and what it coordinates no coordinator; without, until the broker is back. */
    public BrokerDownFault electionMs(Pareto electionMs) {
      set("election_ms", electionMs);
      return this;
    }
  }

  /** The broker node_id is dead for its clients: its port and its connections, and in what the others tell. */
  public static BrokerDownFault brokerDown(long nodeId) {
    BrokerDownFault made = new BrokerDownFault();
    made.set("node_id", nodeId);
    return made;
  }

  /** The broker node_id is dead for its clients: its port and its connections, and in what the others tell. */
  public static BrokerDownFault brokerDown(String nodeId) {
    BrokerDownFault made = new BrokerDownFault();
    made.set("node_id", nodeId);
    return made;
  }

  /** ApiVersions answers offer fewer versions than the broker speaks, or leave an API out: one of whose versions it speaks none, as with DeleteRecords: 99-99. */
  public static final class CapVersionsFault extends Fault {
    private CapVersionsFault() {
      set("kind", "cap_versions");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public CapVersionsFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public CapVersionsFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public CapVersionsFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }
  }

  /** ApiVersions answers offer fewer versions than the broker speaks, or leave an API out: one of whose versions it speaks none, as with DeleteRecords: 99-99. */
  public static CapVersionsFault capVersions(Map<String, ?> versions) {
    CapVersionsFault made = new CapVersionsFault();
    made.set("versions", versions);
    return made;
  }

  /** The connection is closed in order (FIN) in place of forwarding the request, answering it or greeting the client. */
  public static final class CloseFault extends Fault {
    private CloseFault() {
      set("kind", "close");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public CloseFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public CloseFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public CloseFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** At which step the connection is closed. One of before_broker, after_broker, connection. */
    public CloseFault phase(String phase) {
      set("phase", phase);
      return this;
    }
  }

  /** The connection is closed in order (FIN) in place of forwarding the request, answering it or greeting the client. */
  public static CloseFault close() {
    CloseFault made = new CloseFault();
    return made;
  }

  /** FindCoordinator answers name another broker for the group or transactional id. */
  public static final class CoordinatorMoveFault extends Fault {
    private CoordinatorMoveFault() {
      set("kind", "coordinator_move");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public CoordinatorMoveFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public CoordinatorMoveFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public CoordinatorMoveFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** The broker to name; else the next one that is known. */
    public CoordinatorMoveFault nodeId(long nodeId) {
      set("node_id", nodeId);
      return this;
    }
  }

  /** FindCoordinator answers name another broker for the group or transactional id. */
  public static CoordinatorMoveFault coordinatorMove() {
    CoordinatorMoveFault made = new CoordinatorMoveFault();
    return made;
  }

  /** The record batches of the matching partitions are damaged: of a Produce (before_broker) or a Fetch answer. */
  public static final class CorruptFault extends Fault {
    private CorruptFault() {
      set("kind", "corrupt");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public CorruptFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public CorruptFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public CorruptFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether a Produce is damaged, or what a Fetch gets. One of before_broker, after_broker. */
    public CorruptFault phase(String phase) {
      set("phase", phase);
      return this;
    }

    /** What is damaged: the checksum, the records, the length or the codec. One of crc, records, length, compression. */
    public CorruptFault part(String part) {
      set("part", part);
      return this;
    }
  }

  /** The record batches of the matching partitions are damaged: of a Produce (before_broker) or a Fetch answer. */
  public static CorruptFault corrupt() {
    CorruptFault made = new CorruptFault();
    return made;
  }

  /** The request reaches the broker later (before_broker), or its answer the client (after_broker). */
  public static final class DelayFault extends Fault {
    private DelayFault() {
      set("kind", "delay");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public DelayFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public DelayFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public DelayFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Which way is slow. One of before_broker, after_broker. */
    public DelayFault phase(String phase) {
      set("phase", phase);
      return this;
    }
  }

  /** The request reaches the broker later (before_broker), or its answer the client (after_broker). */
  public static DelayFault delay(double delayMs) {
    DelayFault made = new DelayFault();
    made.set("delay_ms", delayMs);
    return made;
  }

  /** The request reaches the broker later (before_broker), or its answer the client (after_broker). */
  public static DelayFault delay(Uniform delayMs) {
    DelayFault made = new DelayFault();
    made.set("delay_ms", delayMs);
    return made;
  }

  /** The request reaches the broker later (before_broker), or its answer the client (after_broker). */
  public static DelayFault delay(Normal delayMs) {
    DelayFault made = new DelayFault();
    made.set("delay_ms", delayMs);
    return made;
  }

  /** The request reaches the broker later (before_broker), or its answer the client (after_broker). */
  public static DelayFault delay(Pareto delayMs) {
    DelayFault made = new DelayFault();
    made.set("delay_ms", delayMs);
    return made;
  }

  /** The request is swallowed: the broker never sees it, the client never gets an answer. */
  public static final class DropRequestFault extends Fault {
    private DropRequestFault() {
      set("kind", "drop_request");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public DropRequestFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public DropRequestFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public DropRequestFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** What becomes of later answers of the connection. One of hold, pass. */
    public DropRequestFault later(String later) {
      set("later", later);
      return this;
    }
  }

  /** The request is swallowed: the broker never sees it, the client never gets an answer. */
  public static DropRequestFault dropRequest() {
    DropRequestFault made = new DropRequestFault();
    return made;
  }

  /** The broker applies the request and answers, and the answer is thrown away: the client can't know what happened. */
  public static final class DropResponseFault extends Fault {
    private DropResponseFault() {
      set("kind", "drop_response");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public DropResponseFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public DropResponseFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public DropResponseFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** What becomes of later answers of the connection. One of hold, pass. */
    public DropResponseFault later(String later) {
      set("later", later);
      return this;
    }
  }

  /** The broker applies the request and answers, and the answer is thrown away: the client can't know what happened. */
  public static DropResponseFault dropResponse() {
    DropResponseFault made = new DropResponseFault();
    return made;
  }

  /** The broker receives the request again, or its matching partitions; the client gets the first answer only. */
  public static final class DuplicateFault extends Fault {
    private DuplicateFault() {
      set("kind", "duplicate");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public DuplicateFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public DuplicateFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public DuplicateFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** How often the broker gets it besides. */
    public DuplicateFault copies(long copies) {
      set("copies", copies);
      return this;
    }
  }

  /** The broker receives the request again, or its matching partitions; the client gets the first answer only. */
  public static DuplicateFault duplicate() {
    DuplicateFault made = new DuplicateFault();
    return made;
  }

  /** The answer carries an error code, in the place and with the other fields that a broker would give it. */
  public static final class ErrorFault extends Fault {
    private ErrorFault() {
      set("kind", "error");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public ErrorFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public ErrorFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public ErrorFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether the broker carries the request out before it is refused. One of before_broker, after_broker. */
    public ErrorFault phase(String phase) {
      set("phase", phase);
      return this;
    }
  }

  /** The answer carries an error code, in the place and with the other fields that a broker would give it. */
  public static ErrorFault error(String errorCode) {
    ErrorFault made = new ErrorFault();
    made.set("error_code", errorCode);
    return made;
  }

  /** The answer carries an error code, in the place and with the other fields that a broker would give it. */
  public static ErrorFault error(long errorCode) {
    ErrorFault made = new ErrorFault();
    made.set("error_code", errorCode);
    return made;
  }

  /** The matching partitions have no leader for for_ms, and then one with a higher epoch, for every client. */
  public static final class LeaderElectionFault extends Fault {
    private LeaderElectionFault() {
      set("kind", "leader_election");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public LeaderElectionFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public LeaderElectionFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public LeaderElectionFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** How long the partitions have no leader. */
    public LeaderElectionFault forMs(double forMs) {
      set("for_ms", forMs);
      return this;
    }

    /** Who leads afterwards: a node id, or other for the next replica in sync. */
    public LeaderElectionFault newLeader(long newLeader) {
      set("new_leader", newLeader);
      return this;
    }

    /** Who leads afterwards: a node id, or other for the next replica in sync. */
    public LeaderElectionFault newLeader(String newLeader) {
      set("new_leader", newLeader);
      return this;
    }
  }

  /** The matching partitions have no leader for for_ms, and then one with a higher epoch, for every client. */
  public static LeaderElectionFault leaderElection() {
    LeaderElectionFault made = new LeaderElectionFault();
    return made;
  }

  /** The matching partitions are led by another broker while the rule stands, one leader epoch higher. */
  public static final class LeaderMoveFault extends Fault {
    private LeaderMoveFault() {
      set("kind", "leader_move");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public LeaderMoveFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public LeaderMoveFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public LeaderMoveFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** The broker that leads; other is the next replica in sync, else the next broker. */
    public LeaderMoveFault leaderId(long leaderId) {
      set("leader_id", leaderId);
      return this;
    }

    /** The broker that leads; other is the next replica in sync, else the next broker. */
    public LeaderMoveFault leaderId(String leaderId) {
      set("leader_id", leaderId);
      return this;
    }
  }

  /** The matching partitions are led by another broker while the rule stands, one leader epoch higher. */
  public static LeaderMoveFault leaderMove() {
    LeaderMoveFault made = new LeaderMoveFault();
    return made;
  }

  /** The matching connections are closed once so many bytes have passed since the rule began to touch them. */
  public static final class LimitFault extends Fault {
    private LimitFault() {
      set("kind", "limit");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public LimitFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public LimitFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public LimitFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Which way is counted. One of request, response, both. */
    public LimitFault direction(String direction) {
      set("direction", direction);
      return this;
    }
  }

  /** The matching connections are closed once so many bytes have passed since the rule began to touch them. */
  public static LimitFault limit(long limitBytes) {
    LimitFault made = new LimitFault();
    made.set("limit_bytes", limitBytes);
    return made;
  }

  /** ListOffsets answers name an offset add away from the true one, or offset itself; never below 0. */
  public static final class OffsetLieFault extends Fault {
    private OffsetLieFault() {
      set("kind", "offset_lie");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public OffsetLieFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public OffsetLieFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public OffsetLieFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** How far from the true offset; negative is before it. */
    public OffsetLieFault add(long add) {
      set("add", add);
      return this;
    }

    /** The offset to name, whatever the true one. */
    public OffsetLieFault offset(long offset) {
      set("offset", offset);
      return this;
    }

    /** Which questions are answered wrongly: the log's begin, its end, or all. One of earliest, latest, any. */
    public OffsetLieFault asked(String asked) {
      set("asked", asked);
      return this;
    }
  }

  /** ListOffsets answers name an offset add away from the true one, or offset itself; never below 0. */
  public static OffsetLieFault offsetLie() {
    OffsetLieFault made = new OffsetLieFault();
    return made;
  }

  /** In place of the answer the client gets a length that no frame has, and then nothing, or the end. */
  public static final class OversizedFrameFault extends Fault {
    private OversizedFrameFault() {
      set("kind", "oversized_frame");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public OversizedFrameFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public OversizedFrameFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public OversizedFrameFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether the broker gets the request at all. One of before_broker, after_broker. */
    public OversizedFrameFault phase(String phase) {
      set("phase", phase);
      return this;
    }

    /** The length, as a signed 32-bit number. */
    public OversizedFrameFault length(long length) {
      set("length", length);
      return this;
    }

    /** Whether the connection is closed behind it, or stays open and silent. */
    public OversizedFrameFault close(boolean close) {
      set("close", close);
      return this;
    }
  }

  /** In place of the answer the client gets a length that no frame has, and then nothing, or the end. */
  public static OversizedFrameFault oversizedFrame() {
    OversizedFrameFault made = new OversizedFrameFault();
    return made;
  }

  /** The ports of the matching listeners refuse connections, as where no process listens; open ones live on. */
  public static final class RefuseFault extends Fault {
    private RefuseFault() {
      set("kind", "refuse");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public RefuseFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public RefuseFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public RefuseFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }
  }

  /** The ports of the matching listeners refuse connections, as where no process listens; open ones live on. */
  public static RefuseFault refuse() {
    RefuseFault made = new RefuseFault();
    return made;
  }

  /** The topics of an answer, and the partitions of each, come in reverse order: no broker promises any. */
  public static final class ReorderFault extends Fault {
    private ReorderFault() {
      set("kind", "reorder");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public ReorderFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public ReorderFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public ReorderFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }
  }

  /** The topics of an answer, and the partitions of each, come in reverse order: no broker promises any. */
  public static ReorderFault reorder() {
    ReorderFault made = new ReorderFault();
    return made;
  }

  /** The client's connection is reset (RST), as when a broker's host or a firewall in between gives it up. */
  public static final class ResetFault extends Fault {
    private ResetFault() {
      set("kind", "reset");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public ResetFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public ResetFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public ResetFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** At which step the connection breaks. One of before_broker, after_broker, connection. */
    public ResetFault phase(String phase) {
      set("phase", phase);
      return this;
    }

    /** How many bytes of the request or answer (length included) pass before the break. */
    public ResetFault afterBytes(long afterBytes) {
      set("after_bytes", afterBytes);
      return this;
    }
  }

  /** The client's connection is reset (RST), as when a broker's host or a firewall in between gives it up. */
  public static ResetFault reset() {
    ResetFault made = new ResetFault();
    return made;
  }

  /** Each broker is down for down_ms, in the order of the node ids, with pause_ms between two of them. */
  public static final class RollingRestartFault extends Fault {
    private RollingRestartFault() {
      set("kind", "rolling_restart");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public RollingRestartFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public RollingRestartFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public RollingRestartFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** How long each broker is down. */
    public RollingRestartFault downMs(double downMs) {
      set("down_ms", downMs);
      return this;
    }

    /** How long all of them are up between two restarts. */
    public RollingRestartFault pauseMs(double pauseMs) {
      set("pause_ms", pauseMs);
      return this;
    }

    /** Whether its host answers for a broker. One of killed, powered_off. */
    public RollingRestartFault how(String how) {
      set("how", how);
      return this;
    }

    /** How long each partition of a broker has no leader. */
    public RollingRestartFault electionMs(double electionMs) {
      set("election_ms", electionMs);
      return this;
    }

    /** How long each partition of a broker has no leader. */
    public RollingRestartFault electionMs(Uniform electionMs) {
      set("election_ms", electionMs);
      return this;
    }

    /** How long each partition of a broker has no leader. */
    public RollingRestartFault electionMs(Normal electionMs) {
      set("election_ms", electionMs);
      return this;
    }

    /** How long each partition of a broker has no leader. */
    public RollingRestartFault electionMs(Pareto electionMs) {
      set("election_ms", electionMs);
      return this;
    }
  }

  /** Each broker is down for down_ms, in the order of the node ids, with pause_ms between two of them. */
  public static RollingRestartFault rollingRestart() {
    RollingRestartFault made = new RollingRestartFault();
    return made;
  }

  /** A SaslAuthenticate answer says that the session lasts session_lifetime_ms only (KIP-368). */
  public static final class SessionExpiryFault extends Fault {
    private SessionExpiryFault() {
      set("kind", "session_expiry");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public SessionExpiryFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public SessionExpiryFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public SessionExpiryFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** How long the session is said to last. */
    public SessionExpiryFault sessionLifetimeMs(long sessionLifetimeMs) {
      set("session_lifetime_ms", sessionLifetimeMs);
      return this;
    }
  }

  /** A SaslAuthenticate answer says that the session lasts session_lifetime_ms only (KIP-368). */
  public static SessionExpiryFault sessionExpiry() {
    SessionExpiryFault made = new SessionExpiryFault();
    return made;
  }

  /** What passes the matching connections is cut into small pieces with a pause behind each. */
  public static final class SliceFault extends Fault {
    private SliceFault() {
      set("kind", "slice");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public SliceFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public SliceFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public SliceFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Mean size of a piece. */
    public SliceFault averageBytes(long averageBytes) {
      set("average_bytes", averageBytes);
      return this;
    }

    /** How far above or below that a piece may be. */
    public SliceFault variationBytes(long variationBytes) {
      set("variation_bytes", variationBytes);
      return this;
    }

    /** Pause behind each piece. */
    public SliceFault delayUs(long delayUs) {
      set("delay_us", delayUs);
      return this;
    }

    /** Which way is cut. One of request, response, both. */
    public SliceFault direction(String direction) {
      set("direction", direction);
      return this;
    }
  }

  /** What passes the matching connections is cut into small pieces with a pause behind each. */
  public static SliceFault slice() {
    SliceFault made = new SliceFault();
    return made;
  }

  /** What closes a matching connection, its broker or another fault, reaches the client delay_ms later. */
  public static final class SlowCloseFault extends Fault {
    private SlowCloseFault() {
      set("kind", "slow_close");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public SlowCloseFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public SlowCloseFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public SlowCloseFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }
  }

  /** What closes a matching connection, its broker or another fault, reaches the client delay_ms later. */
  public static SlowCloseFault slowClose(double delayMs) {
    SlowCloseFault made = new SlowCloseFault();
    made.set("delay_ms", delayMs);
    return made;
  }

  /** Metadata answers name the leaders and epochs that were known when the rule was added. */
  public static final class StaleMetadataFault extends Fault {
    private StaleMetadataFault() {
      set("kind", "stale_metadata");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public StaleMetadataFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public StaleMetadataFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public StaleMetadataFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }
  }

  /** Metadata answers name the leaders and epochs that were known when the rule was added. */
  public static StaleMetadataFault staleMetadata() {
    StaleMetadataFault made = new StaleMetadataFault();
    return made;
  }

  /** The request (before_broker) or its answer (after_broker) is held until the rule is released or removed. */
  public static final class StallFault extends Fault {
    private StallFault() {
      set("kind", "stall");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public StallFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public StallFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public StallFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether the request is held, or the answer to it. One of before_broker, after_broker. */
    public StallFault phase(String phase) {
      set("phase", phase);
      return this;
    }

    /** Goes on after this time; else when released or removed. */
    public StallFault forMs(double forMs) {
      set("for_ms", forMs);
      return this;
    }
  }

  /** The request (before_broker) or its answer (after_broker) is held until the rule is released or removed. */
  public static StallFault stall() {
    StallFault made = new StallFault();
    return made;
  }

  /** The answer names a throttle_time_ms, and with muted the connection is then not read for that long. */
  public static final class ThrottleFault extends Fault {
    private ThrottleFault() {
      set("kind", "throttle");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public ThrottleFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public ThrottleFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public ThrottleFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether the connection is muted for that time. */
    public ThrottleFault muted(boolean muted) {
      set("muted", muted);
      return this;
    }
  }

  /** The answer names a throttle_time_ms, and with muted the connection is then not read for that long. */
  public static ThrottleFault throttle(long throttleTimeMs) {
    ThrottleFault made = new ThrottleFault();
    made.set("throttle_time_ms", throttleTimeMs);
    return made;
  }

  /** The connection is closed in order (FIN) after the first bytes of the request or of its answer. */
  public static final class TruncateFault extends Fault {
    private TruncateFault() {
      set("kind", "truncate");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public TruncateFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public TruncateFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public TruncateFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** Whether the request is torn, or the answer to it. One of before_broker, after_broker. */
    public TruncateFault phase(String phase) {
      set("phase", phase);
      return this;
    }

    /** How many bytes still pass, length prefix included. */
    public TruncateFault afterBytes(long afterBytes) {
      set("after_bytes", afterBytes);
      return this;
    }
  }

  /** The connection is closed in order (FIN) after the first bytes of the request or of its answer. */
  public static TruncateFault truncate() {
    TruncateFault made = new TruncateFault();
    return made;
  }

  /** Metadata answers name another broker as leader, which then refuses, for it is none (NOT_LEADER_OR_FOLLOWER). */
  public static final class WrongLeaderFault extends Fault {
    private WrongLeaderFault() {
      set("kind", "wrong_leader");
    }

    /** Unique name of the rule; made from kind and position when absent. */
    public WrongLeaderFault name(String name) {
      set("name", name);
      return this;
    }

    /** Which exchanges or connections are meant. */
    public WrongLeaderFault match(Match match) {
      set("match", match);
      return this;
    }

    /** Which of the matching ones are hit. */
    public WrongLeaderFault trigger(Trigger trigger) {
      set("trigger", trigger);
      return this;
    }

    /** The broker to name; else the next one in the answer. */
    public WrongLeaderFault leaderId(long leaderId) {
      set("leader_id", leaderId);
      return this;
    }

    /** The epoch to name; else the true one. */
    public WrongLeaderFault leaderEpoch(long leaderEpoch) {
      set("leader_epoch", leaderEpoch);
      return this;
    }
  }

  /** Metadata answers name another broker as leader, which then refuses, for it is none (NOT_LEADER_OR_FOLLOWER). */
  public static WrongLeaderFault wrongLeader() {
    WrongLeaderFault made = new WrongLeaderFault();
    return made;
  }
}
