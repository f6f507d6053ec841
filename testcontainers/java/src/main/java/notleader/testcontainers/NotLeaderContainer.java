package notleader.testcontainers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import notleader.client.NotLeader;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * notleader in a container, in front of the brokers that {@link #withKafka} names.
 *
 * <p>Kafka's clients are sent on from the bootstrap address to a port for each broker, which must have the same number
 * outside as inside. So free ports of this machine are chosen when the container is made; {@link #withFirstPort} names
 * others, as it must where the Docker engine is on another machine.
 */
public class NotLeaderContainer extends GenericContainer<NotLeaderContainer> {
  private static final int ADMIN_PORT = 8474;
  private static final String CONFIG = "/tmp/notleader.yaml";

  private final String token = UUID.randomUUID().toString();
  private String kafka = "";
  private String advertised = "";
  private int brokers = 1;
  private int firstPort;

  /** @param image what `docker build -f docker/proxy/Dockerfile` made, or a released image */
  public NotLeaderContainer(String image) {
    this(DockerImageName.parse(image));
  }

  public NotLeaderContainer(DockerImageName image) {
    super(image);
    withExposedPorts(ADMIN_PORT);
    waitingFor(Wait.forHttp("/readyz").forPort(ADMIN_PORT));
  }

  /** Where the brokers are, HOST:PORT[,HOST:PORT…], as this container reaches them. It is needed. */
  public NotLeaderContainer withKafka(String bootstrap) {
    kafka = bootstrap;
    return this;
  }

  /** How many brokers the cluster has, node ids in order; 1 unless told. Each gets a port. */
  public NotLeaderContainer withBrokers(int count) {
    if (count < 1) throw new IllegalArgumentException("a cluster has at least one broker, not " + count);
    brokers = count;
    return this;
  }

  /** The host that clients are told; the Docker host unless told. Clients in containers need its network alias. */
  public NotLeaderContainer withAdvertise(String host) {
    advertised = host;
    return this;
  }

  /** The bootstrap's port, inside and outside; the brokers get those after it. */
  public NotLeaderContainer withFirstPort(int port) {
    firstPort = port;
    return this;
  }

  /** A configuration file (rules, steps, any setting of `notleader run`), in force before the first client. */
  public NotLeaderContainer withConfig(String yaml) {
    withCopyToContainer(Transferable.of(yaml, 0644), CONFIG);
    return withCommand("run", "--config", CONFIG);
  }

  /** The bootstrap address for clients. */
  public String getBootstrapServers() {
    return (advertised.isEmpty() ? getHost() : advertised) + ":" + firstPort;
  }

  /** The HTTP API; also what Toxiproxy's clients may call, with {@link #getToken} as a password. */
  public URI getAdmin() {
    return URI.create("http://" + getHost() + ":" + getMappedPort(ADMIN_PORT));
  }

  /** What the HTTP API asks for: made for this container alone. */
  public String getToken() {
    return token;
  }

  /** What drives it. */
  public NotLeader client() {
    return new NotLeader(getAdmin(), token);
  }

  @Override
  protected void configure() {
    if (kafka.isEmpty()) throw new IllegalStateException("say where the brokers are: withKafka(\"kafka:19092\")");
    if (firstPort == 0) firstPort = freePorts(brokers + 1);
    for (int port = firstPort; port <= firstPort + brokers; port++) addFixedExposedPort(port, port);
    addEnv("NOTLEADER_KAFKA", kafka);
    addEnv("NOTLEADER_LISTEN", "0.0.0.0:" + firstPort);
    addEnv("NOTLEADER_ADVERTISE", advertised.isEmpty() ? getHost() : advertised);
    addEnv("NOTLEADER_ADMIN", "0.0.0.0:" + ADMIN_PORT);
    addEnv("NOTLEADER_TOKEN", token);
  }

  /** The first of so many ports in a row that nobody here listens on, below those the system gives out by itself. */
  private static int freePorts(int count) {
    for (int tries = 0; tries < 100; tries++) {
      int first = ThreadLocalRandom.current().nextInt(20_000, 32_000 - count);
      List<ServerSocket> taken = new ArrayList<>();
      try {
        for (int port = first; port < first + count; port++) taken.add(new ServerSocket(port));
        return first;
      } catch (IOException error) {
        // One of them is somebody's: others are tried.
      } finally {
        taken.forEach(NotLeaderContainer::close);
      }
    }
    throw new IllegalStateException("no " + count + " free ports in a row: name the first with withFirstPort");
  }

  private static void close(ServerSocket socket) {
    try {
      socket.close();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
