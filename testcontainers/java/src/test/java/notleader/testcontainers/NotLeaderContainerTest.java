package notleader.testcontainers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.testcontainers.images.builder.Transferable;

/** What a Docker engine would be asked for. None is here: the host and the mapped port are made up. */
class NotLeaderContainerTest {
  static class Unstarted extends NotLeaderContainer {
    final Map<String, String> copied = new HashMap<>();

    Unstarted() {
      super("notleader");
    }

    @Override
    public String getHost() {
      return "docker.test";
    }

    @Override
    public Integer getMappedPort(int port) {
      return port + 1;
    }

    @Override
    public NotLeaderContainer withCopyToContainer(Transferable file, String path) {
      copied.put(path, new String(file.getBytes(), StandardCharsets.UTF_8));
      return this;
    }

    Unstarted configured() {
      configure();
      return this;
    }
  }

  static Unstarted configured(NotLeaderContainer made) {
    return ((Unstarted) made).configured();
  }

  @Test
  void everyBrokerHasAPortOfTheSameNumberOutsideAndInside() {
    Unstarted made = configured(new Unstarted().withKafka("kafka:19092").withBrokers(2).withFirstPort(21000));
    assertEquals(Set.of("21000:21000/tcp", "21001:21001/tcp", "21002:21002/tcp"), Set.copyOf(made.getPortBindings()));
    assertEquals("0.0.0.0:21000", made.getEnvMap().get("NOTLEADER_LISTEN"));
    assertEquals("docker.test:21000", made.getBootstrapServers());
  }

  @Test
  void freePortsAreFoundAndTwoContainersGetDifferentTokens() {
    Unstarted one = configured(new Unstarted().withKafka("kafka:19092"));
    assertEquals(2, one.getPortBindings().size());
    assertFalse(one.getBootstrapServers().endsWith(":0"));
    assertFalse(one.getToken().equals(new Unstarted().getToken()));
  }

  @Test
  void theApiListensForTheTestsWithATokenOfItsOwn() {
    Unstarted made = configured(new Unstarted().withKafka("kafka:19092"));
    assertEquals("kafka:19092", made.getEnvMap().get("NOTLEADER_KAFKA"));
    assertEquals("docker.test", made.getEnvMap().get("NOTLEADER_ADVERTISE"));
    assertEquals("0.0.0.0:8474", made.getEnvMap().get("NOTLEADER_ADMIN"));
    assertEquals(made.getToken(), made.getEnvMap().get("NOTLEADER_TOKEN"));
    assertTrue(made.getExposedPorts().contains(8474));
    assertEquals(URI.create("http://docker.test:8475"), made.getAdmin());
  }

  @Test
  void clientsInOtherContainersAreToldTheAlias() {
    Unstarted made = configured(new Unstarted().withKafka("kafka:19092").withAdvertise("proxy").withFirstPort(9092));
    assertEquals("proxy", made.getEnvMap().get("NOTLEADER_ADVERTISE"));
    assertEquals("proxy:9092", made.getBootstrapServers());
  }

  @Test
  void aConfigurationIsCopiedAndNamed() {
    Unstarted made = new Unstarted();
    made.withConfig("faults: [{kind: refuse}]");
    assertEquals(List.of("run", "--config", "/tmp/notleader.yaml"), List.of(made.getCommandParts()));
    assertEquals(Map.of("/tmp/notleader.yaml", "faults: [{kind: refuse}]"), made.copied);
  }

  @Test
  void withoutBrokersItSaysWhatIsMissing() {
    Exception error = assertThrows(IllegalStateException.class, () -> new Unstarted().configured());
    assertTrue(error.getMessage().contains("withKafka"), error.getMessage());
    assertThrows(IllegalArgumentException.class, () -> new Unstarted().withBrokers(0));
  }
}
