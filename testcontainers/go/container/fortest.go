package container

import (
	"context"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"

	notleader "notleader.lab/testcontainers"
)

// ForTest gives a test a notleader in front of the brokers that are started for it, and ends it after the test. A test
// that passed though one of its rules was never hit fails, for it tested nothing.
//
// Where NOTLEADER_ADMIN names a notleader that runs already (NOTLEADER_TOKEN its token), that one is used, no brokers
// and no container are started, and only the test's own rules are removed: for a machine without Docker, and for
// looking at the dashboard while a test runs.
func ForTest(t testing.TB, brokers func(testing.TB) Settings) *Container {
	t.Helper()
	proxy, err := forTest(t, brokers)
	if err != nil {
		t.Fatal(err)
	}
	standing := map[string]bool{}
	for _, rule := range rules(t, proxy.Client) {
		standing[rule.Name] = true
	}
	t.Cleanup(func() {
		var missed []string
		for _, rule := range rules(t, proxy.Client) {
			if standing[rule.Name] {
				continue
			}
			if err := proxy.Client.Remove(context.Background(), rule.Name); err != nil {
				t.Error(err)
			}
			if rule.Hits == 0 {
				missed = append(missed, rule.Name)
			}
		}
		if len(missed) > 0 && !t.Failed() {
			t.Errorf("never hit, so nothing was tested: %s", strings.Join(missed, ", "))
		}
	})
	return proxy
}

func forTest(t testing.TB, brokers func(testing.TB) Settings) (*Container, error) {
	if client := notleader.FromEnvironment(); client != nil {
		bootstrap, err := client.BootstrapServers(t.Context())
		return &Container{Client: client, Admin: client.Admin(), BootstrapServers: bootstrap}, err
	}
	proxy, err := Run(t.Context(), brokers(t))
	if proxy != nil {
		testcontainers.CleanupContainer(t, proxy.Container)
	}
	return proxy, err
}

func rules(t testing.TB, client *notleader.Client) []notleader.Rule {
	found, err := client.Rules(context.Background())
	if err != nil {
		t.Error(err)
	}
	return found
}
