package notleader.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.util.List;
import java.util.stream.Collectors;
import notleader.client.Faults;
import notleader.client.NotLeader;
import notleader.client.Rule;
import notleader.testcontainers.NotLeaderContainer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/** Test classes with the extension, run by JUnit in front of the notleader that NOTLEADER_ADMIN names. */
class NotLeaderExtensionTest {
  final NotLeader notleader = NotLeader.fromEnvironment().orElseThrow();

  // Not run by themselves: their names don't end in Test.
  static class Missing {
    @RegisterExtension
    static final NotLeaderExtension notleader = NotLeaderExtension.with(new NotLeaderContainer("notleader"));

    @Test
    void addsWhatNobodyMeets() {
      notleader.client().add(Faults.dropRequest().name("unmet"));
    }

    @Test
    void failsByItself() {
      notleader.client().add(Faults.dropRequest().name("unmet"));
      throw new AssertionError("its own");
    }
  }

  static class Tolerant {
    @RegisterExtension
    static final NotLeaderExtension notleader =
        NotLeaderExtension.with(new NotLeaderContainer("notleader")).rulesMayMiss();

    @Test
    void addsWhatNobodyMeets() {
      notleader.client().add(Faults.dropRequest().name("unmet"));
    }
  }

  @Test
  void aRuleThatNobodyMetFailsItsTestAndEachTestsRulesGo() {
    notleader.add(Faults.dropResponse().name("standing"));
    try {
      TestExecutionSummary summary = run(Missing.class);
      List<String> told =
          summary.getFailures().stream().map(each -> each.getException().getMessage()).sorted().collect(Collectors.toList());
      assertEquals(List.of("its own", "never hit, so nothing was tested: unmet"), told);
      assertEquals(List.of("standing"), notleader.rules().stream().map(Rule::name).collect(Collectors.toList()));
    } finally {
      notleader.clear();
    }
  }

  @Test
  void itMayBeToldThatRulesMiss() {
    TestExecutionSummary summary = run(Tolerant.class);
    assertEquals(1, summary.getTestsSucceededCount());
    assertTrue(summary.getFailures().isEmpty());
  }

  private static TestExecutionSummary run(Class<?> tests) {
    SummaryGeneratingListener listener = new SummaryGeneratingListener();
    LauncherFactory.create()
        .execute(LauncherDiscoveryRequestBuilder.request().selectors(selectClass(tests)).build(), listener);
    return listener.getSummary();
  }
}
