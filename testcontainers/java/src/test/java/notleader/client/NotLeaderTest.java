package notleader.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Against the notleader that NOTLEADER_ADMIN names. */
class NotLeaderTest {
  final NotLeader notleader = NotLeader.fromEnvironment().orElseThrow();

  @AfterEach
  void clear() {
    notleader.clear();
  }

  @Test
  void aRuleIsAddedSwitchedReleasedAndRemoved() {
    Rule rule = notleader.add(Faults.stall().name("a b").phase("before_broker"));
    assertEquals("a b", rule.name());
    assertEquals("stall", rule.kind());
    assertEquals(0, rule.hits());
    assertTrue(rule.isEnabled());
    assertFalse(notleader.enable("a b", false).isEnabled());
    notleader.release("a b");
    assertTrue(notleader.rule("a b").isReleased());
    assertTrue(notleader.rule("a b").isExhausted());
    notleader.remove("a b");
    assertEquals(List.of(), notleader.rules());
  }

  @Test
  void everySortOfFieldArrives() {
    List<Rule> made =
        notleader.add(
            List.of(
                Faults.error(6)
                    .match(new Faults.Match().topic("a", "b").partitionIndex(0, 1).apiKey("Produce"))
                    .trigger(new Faults.Trigger().times("forever").probability(0.5).skip(2)),
                Faults.delay(Faults.uniform(1, 20)).phase("after_broker"),
                Faults.delay(250),
                Faults.blackhole().new_(false),
                Faults.capVersions(Map.of("Fetch", 11, "Produce", "3-7")),
                Faults.leaderElection().newLeader("other").forMs(500)));
    assertEquals(6, made.size());
    assertEquals("leader_election", made.get(5).kind());
    assertEquals(6, notleader.rules().size());
  }

  @Test
  void jsonIsTakenAsItIs() {
    assertEquals("x", notleader.add("{\"kind\": \"refuse\", \"name\": \"x\"}").get(0).name());
  }

  @Test
  void whatIsWrongIsToldWithItsPlace() {
    NotLeaderException refused =
        assertThrows(
            NotLeaderException.class,
            () -> notleader.add(List.of(Faults.refuse(), Faults.duplicate().copies(-1))));
    assertEquals(422, refused.status());
    assertTrue(refused.getMessage().contains("[1].copies: "), refused.getMessage());
    assertEquals(List.of(), notleader.rules());
    assertEquals(404, assertThrows(NotLeaderException.class, () -> notleader.rule("nobody")).status());
  }

  @Test
  void hitsThatDoNotComeAreCounted() {
    notleader.add(Faults.dropResponse().name("never"));
    TimeoutException late =
        assertThrows(TimeoutException.class, () -> notleader.awaitHits("never", 2, Duration.ofMillis(50)));
    assertTrue(late.getMessage().contains("0"), late.getMessage());
  }

  @Test
  void whereNobodyIsItSaysWhere() {
    NotLeader nobody = new NotLeader(URI.create("http://127.0.0.1:1"), "");
    NotLeaderException error = assertThrows(NotLeaderException.class, nobody::rules);
    assertTrue(error.getMessage().contains("no notleader answers at http://127.0.0.1:1"), error.getMessage());
    assertThrows(IllegalArgumentException.class, () -> new NotLeader(URI.create("localhost:8474"), ""));
  }

  @Test
  void theTokenIsAskedFor() {
    URI admin = URI.create("http://" + System.getenv("NOTLEADER_ADMIN"));
    assertEquals(401, assertThrows(NotLeaderException.class, () -> new NotLeader(admin, "").rules()).status());
  }
}
