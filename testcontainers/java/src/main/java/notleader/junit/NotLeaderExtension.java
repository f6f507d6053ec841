package notleader.junit;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import notleader.client.NotLeader;
import notleader.client.Rule;
import notleader.testcontainers.NotLeaderContainer;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * notleader for the tests of a class: started before them, rid of each test's rules after it, stopped at the end. A
 * test that passed though one of its rules was never hit fails, for it tested nothing.
 *
 * <p>Where NOTLEADER_ADMIN names a notleader that runs already (NOTLEADER_TOKEN its token), that one is used and no
 * container is started: for a machine without Docker, and for looking at the dashboard while a test runs.
 */
public final class NotLeaderExtension
    implements BeforeAllCallback, AfterAllCallback, BeforeEachCallback, AfterEachCallback {
  private final NotLeaderContainer container;
  private final Set<String> standing = new HashSet<>();
  private boolean mayMiss;
  private boolean started;
  private NotLeader client;
  private String bootstrapServers;

  private NotLeaderExtension(NotLeaderContainer container) {
    this.container = container;
  }

  /** With this container, which is started unless it runs, and stopped again if it was started. */
  public static NotLeaderExtension with(NotLeaderContainer container) {
    return new NotLeaderExtension(container);
  }

  /** A rule that was never hit fails no test. */
  public NotLeaderExtension rulesMayMiss() {
    mayMiss = true;
    return this;
  }

  /** What drives it, from the first test on. */
  public NotLeader client() {
    return client;
  }

  /** The address that clients get in place of the brokers', from the first test on. */
  public String bootstrapServers() {
    return bootstrapServers;
  }

  @Override
  public void beforeAll(ExtensionContext context) {
    NotLeader running = NotLeader.fromEnvironment().orElse(null);
    if (running != null) {
      client = running;
      bootstrapServers = running.bootstrapServers();
      return;
    }
    if (!container.isRunning()) {
      container.start();
      started = true;
    }
    client = container.client();
    bootstrapServers = container.getBootstrapServers();
  }

  @Override
  public void beforeEach(ExtensionContext context) {
    standing.clear();
    client.rules().forEach(rule -> standing.add(rule.name()));
  }

  @Override
  public void afterEach(ExtensionContext context) {
    List<Rule> added =
        client.rules().stream().filter(rule -> !standing.contains(rule.name())).collect(Collectors.toList());
    added.forEach(rule -> client.remove(rule.name()));
    List<String> missed =
        added.stream().filter(rule -> rule.hits() == 0).map(Rule::name).collect(Collectors.toList());
    if (!mayMiss && !missed.isEmpty() && context.getExecutionException().isEmpty()) {
      throw new AssertionError("never hit, so nothing was tested: " + String.join(", ", missed));
    }
  }

  @Override
  public void afterAll(ExtensionContext context) {
    if (started) {
      container.stop();
      started = false;
    }
  }
}
