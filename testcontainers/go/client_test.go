package notleader

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// running is the notleader that NOTLEADER_ADMIN names, rid of its rules after the test.
func running(t *testing.T) *Client {
	client := FromEnvironment()
	if client == nil {
		t.Fatal("NOTLEADER_ADMIN names no notleader: start one with `notleader run`")
	}
	t.Cleanup(func() { must(t, client.Clear(context.Background())) })
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestARuleIsAddedSwitchedReleasedAndRemoved(t *testing.T) {
	client, ctx := running(t), t.Context()
	rules, err := client.Add(ctx, Stall().Name("a b").Phase("before_broker"))
	must(t, err)
	if len(rules) != 1 || rules[0].Name != "a b" || rules[0].Kind != "stall" || rules[0].Hits != 0 || !rules[0].Enabled {
		t.Fatal(rules)
	}
	must(t, client.Enable(ctx, "a b", false))
	must(t, client.Release(ctx, "a b"))
	if rule, err := client.Rule(ctx, "a b"); err != nil || rule.Enabled || !rule.Released {
		t.Fatal(rule, err)
	}
	must(t, client.Remove(ctx, "a b"))
	if rules, err := client.Rules(ctx); err != nil || len(rules) != 0 {
		t.Fatal(rules, err)
	}
}

func TestEverySortOfFieldArrives(t *testing.T) {
	client, ctx := running(t), t.Context()
	rules, err := client.Add(ctx,
		Error(6).Match(Match{}.Topic("a", "b").PartitionIndex(0, "1-3").APIKey("Produce")).
			Trigger(Trigger{}.Times("forever").Probability(0.5).Skip(2)),
		Delay(Uniform(1, 20)).Phase("after_broker"),
		Delay(250),
		Blackhole().New(false),
		CapVersions(map[string]any{"Fetch": 11, "Produce": "3-7"}),
		LeaderElection().NewLeader("other").ForMS(500))
	must(t, err)
	if len(rules) != 6 || rules[5].Kind != "leader_election" {
		t.Fatal(rules)
	}
	_, err = client.AddJSON(ctx, `[{"kind": "refuse"}]`)
	must(t, err)
}

func TestABuilderLeavesWhatItWasMadeFrom(t *testing.T) {
	client, ctx := running(t), t.Context()
	plain := DropResponse().Name("plain")
	rules, err := client.Add(ctx, plain.Name("other"), plain)
	must(t, err)
	if rules[0].Name != "other" || rules[1].Name != "plain" {
		t.Fatal(rules)
	}
}

func TestWhatIsWrongIsToldWithItsPlace(t *testing.T) {
	client, ctx := running(t), t.Context()
	_, err := client.Add(ctx, Refuse(), Duplicate().Copies(-1))
	var problem *Problem
	if !errors.As(err, &problem) || problem.Status != 422 || !strings.Contains(err.Error(), "\n  [1].copies: ") {
		t.Fatal(err)
	}
	if rules, err := client.Rules(ctx); err != nil || len(rules) != 0 {
		t.Fatal(rules, err)
	}
}

func TestHitsThatDoNotComeAreCounted(t *testing.T) {
	client, ctx := running(t), t.Context()
	_, err := client.Add(ctx, DropResponse().Name("never"))
	must(t, err)
	_, err = client.WaitForHits(ctx, "never", 2, 50*time.Millisecond)
	if !errors.Is(err, ErrNotHit) || !strings.Contains(err.Error(), "0") {
		t.Fatal(err)
	}
}

func TestWhereNobodyIsItSaysWhere(t *testing.T) {
	_, err := NewClient("http://127.0.0.1:1/", "").Rules(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no notleader answers at http://127.0.0.1:1:") {
		t.Fatal(err)
	}
}

func TestTheTokenIsAskedFor(t *testing.T) {
	running(t)
	_, err := NewClient("http://"+os.Getenv("NOTLEADER_ADMIN"), "").Rules(t.Context())
	var problem *Problem
	if !errors.As(err, &problem) || problem.Status != 401 {
		t.Fatal(err)
	}
}
