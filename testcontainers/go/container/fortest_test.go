package container

import (
	"slices"
	"testing"

	notleader "notleader.lab/testcontainers"
)

// recorder is a test that notes what it is told instead of failing.
type recorder struct {
	testing.TB
	told     []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, arguments ...any) {
	r.told = append(r.told, arguments[0].(string))
}
func (r *recorder) Cleanup(end func()) { r.cleanups = append(r.cleanups, end) }
func (r *recorder) end() {
	for _, each := range slices.Backward(r.cleanups) {
		each()
	}
}

func unused(testing.TB) Settings { panic("NOTLEADER_ADMIN names a notleader that runs") }

func TestARuleThatNobodyMetFailsItsTestAndItsRulesGo(t *testing.T) {
	standing := ForTest(t, unused).Client
	if _, err := standing.Add(t.Context(), notleader.DropResponse().Name("standing")); err != nil {
		t.Fatal(err)
	}
	inner := &recorder{TB: t}
	proxy := ForTest(inner, unused)
	if _, err := proxy.Client.Add(t.Context(), notleader.DropRequest().Name("unmet")); err != nil {
		t.Fatal(err)
	}
	inner.end()
	if !slices.Equal(inner.told, []string{"unmet"}) {
		t.Error(inner.told)
	}
	if left, err := standing.Rules(t.Context()); err != nil || len(left) != 1 || left[0].Name != "standing" {
		t.Error(left, err)
	}
	if err := standing.Clear(t.Context()); err != nil {
		t.Error(err)
	}
	if proxy.BootstrapServers == "" {
		t.Error("no bootstrap address")
	}
}
