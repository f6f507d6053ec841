import java.util.Set;
import org.testcontainers.containers.GenericContainer;

/** The page's container, as Testcontainers makes it, and what its functions do to a proxy: Main HOST PORT ECHO. */
class Main {
  public static void main(String[] arguments) throws Exception {
    GenericContainer<?> made = NotLeader.container(null, "kafka:9093");
    if (!made.getEnvMap().get("NOTLEADER_KAFKA").equals("kafka:9093")) throw new AssertionError(made.getEnvMap());
    if (!made.getExposedPorts().contains(8474)) throw new AssertionError(made.getExposedPorts());
    if (!Set.copyOf(made.getPortBindings()).equals(Set.of("9092:9092/tcp", "9093:9093/tcp"))) {
      throw new AssertionError(made.getPortBindings());
    }
    var proxy = new Started(arguments[0], Integer.valueOf(arguments[1]));
    NotLeader.addFault(proxy, "{\"kind\": \"drop_response\", \"name\": \"java\"}");
    NotLeader.slow(proxy, "127.0.0.1:0", arguments[2]);
    try {
      NotLeader.addFault(proxy, "{\"kind\": \"nonsense\"}");
    } catch (IllegalStateException error) {
      System.out.println("OK, and: " + error.getMessage());
    }
  }
}

/** The proxy that is there, in place of a container that was started. */
class Started extends GenericContainer<Started> {
  private final String host;
  private final Integer port;

  Started(String host, Integer port) {
    super("notleader");
    this.host = host;
    this.port = port;
  }

  @Override public String getHost() {
    return host;
  }

  @Override public Integer getMappedPort(int exposed) {
    return port;
  }
}
