// Package notleader drives a notleader, a Kafka proxy that injects faults, over its HTTP API, and builds its faults.
// The container is in notleader.lab/testcontainers/container.
package notleader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const answerTime = 10 * time.Second

// ErrNotHit says that a rule was not hit as often as was waited for.
var ErrNotHit = errors.New("not hit")

// Client calls the HTTP API of one notleader; safe for several goroutines.
type Client struct {
	admin, token string
	http         *http.Client
}

// NewClient calls the API at an address such as http://127.0.0.1:8474; the token is empty where none is asked for.
func NewClient(admin, token string) *Client {
	// A proxy of the environment has no business with a test's own machine.
	return &Client{strings.TrimRight(admin, "/"), token, &http.Client{Transport: &http.Transport{}}}
}

// FromEnvironment is the notleader that NOTLEADER_ADMIN (HOST:PORT or a URL) and NOTLEADER_TOKEN name, or nil.
func FromEnvironment() *Client {
	admin := os.Getenv("NOTLEADER_ADMIN")
	if admin == "" {
		return nil
	}
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	return NewClient(admin, os.Getenv("NOTLEADER_TOKEN"))
}

// Admin is the address that is called.
func (c *Client) Admin() string { return c.admin }

// Rule is a fault that is in force, and what has become of it.
type Rule struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Hits      int64  `json:"hits"`      // how often it struck
	Enabled   bool   `json:"enabled"`   // it may strike
	Exhausted bool   `json:"exhausted"` // it cannot strike any more
	Released  bool   `json:"released"`  // what it held was let go
}

// Problem is the answer of a notleader that refused a call (RFC 9457).
type Problem struct {
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Problems []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	} `json:"problems"`
}

// Error has everything that was wrong, with its path in the document.
func (p *Problem) Error() string {
	var told strings.Builder
	fmt.Fprintf(&told, "notleader: %d: %s", p.Status, p.Detail)
	for _, each := range p.Problems {
		path := each.Path
		if path == "" {
			path = "(document)"
		}
		fmt.Fprintf(&told, "\n  %s: %s", path, each.Message)
	}
	return told.String()
}

// Add adds one fault or several, all or none, and gives what they are now.
func (c *Client) Add(ctx context.Context, faults ...Fault) ([]Rule, error) {
	documents := make([]document, len(faults))
	for position, each := range faults {
		documents[position] = each.fault()
	}
	return ask[[]Rule](ctx, c, answerTime, "POST", "/v1/faults", documents)
}

// AddJSON adds a list of faults that is written as JSON.
func (c *Client) AddJSON(ctx context.Context, faults string) ([]Rule, error) {
	return ask[[]Rule](ctx, c, answerTime, "POST", "/v1/faults", json.RawMessage(faults))
}

// Rules gives all rules, in the order in which they are asked.
func (c *Client) Rules(ctx context.Context) ([]Rule, error) {
	return ask[[]Rule](ctx, c, answerTime, "GET", "/v1/faults", nil)
}

// Rule gives one rule.
func (c *Client) Rule(ctx context.Context, name string) (Rule, error) {
	return ask[Rule](ctx, c, answerTime, "GET", path(name), nil)
}

// WaitForHits waits until a rule was hit so many times, or fails with ErrNotHit, which says how often it was.
func (c *Client) WaitForHits(ctx context.Context, name string, hits int64, timeout time.Duration) (Rule, error) {
	query := fmt.Sprintf("/wait?hits=%d&timeout_ms=%d", hits, timeout.Milliseconds())
	rule, err := ask[Rule](ctx, c, timeout+answerTime, "GET", path(name)+query, nil)
	var problem *Problem
	if errors.As(err, &problem) && problem.Status == http.StatusRequestTimeout {
		err = fmt.Errorf("%w: %s", ErrNotHit, problem.Detail)
	}
	return rule, err
}

// Enable switches a rule off or on; it keeps its place and its counters.
func (c *Client) Enable(ctx context.Context, name string, enabled bool) error {
	_, err := c.send(ctx, answerTime, "PATCH", path(name), map[string]bool{"enabled": enabled})
	return err
}

// Release lets go what a rule holds.
func (c *Client) Release(ctx context.Context, name string) error {
	_, err := c.send(ctx, answerTime, "POST", path(name)+"/release", nil)
	return err
}

// Remove removes one rule.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := c.send(ctx, answerTime, "DELETE", path(name), nil)
	return err
}

// Clear removes all rules and ends all elections.
func (c *Client) Clear(ctx context.Context) error {
	_, err := c.send(ctx, answerTime, "DELETE", "/v1/faults", nil)
	return err
}

// BootstrapServers is the proxy's own listener, HOST:PORT.
func (c *Client) BootstrapServers(ctx context.Context) (string, error) {
	proxy, err := ask[struct {
		Listen string `json:"listen"`
	}](ctx, c, answerTime, "GET", "/proxies/bootstrap", nil)
	return proxy.Listen, err
}

func path(name string) string { return "/v1/faults/" + url.PathEscape(name) }

// ask makes a call whose answer is a T.
func ask[T any](ctx context.Context, c *Client, within time.Duration, method, path string, body any) (T, error) {
	var answer T
	got, err := c.send(ctx, within, method, path, body)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(got, &answer); err != nil {
		return answer, fmt.Errorf("what answers at %s is no notleader: %w", c.admin, err)
	}
	return answer, nil
}

func (c *Client) send(ctx context.Context, within time.Duration, method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var sent io.Reader
	if body != nil {
		written, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(written)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.admin+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no notleader answers at %s: %w", c.admin, err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		problem := &Problem{Status: response.StatusCode, Detail: string(got)}
		_ = json.Unmarshal(got, problem) // what is no problem document is told as it came
		return nil, problem
	}
	return got, nil
}

// document is a fault or a part of one, as the HTTP API takes it.
type document map[string]any

// with gives a copy that has the field too: what was made before stays as it is.
func (d document) with(field string, value any) document {
	made := make(document, len(d)+1)
	maps.Copy(made, d)
	made[field] = value
	return made
}

// MarshalJSON writes the fields; the parts of a fault have them as their only member.
func (d document) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any(d)) }

// one gives a list's only member in its place.
func one[T any](values []T) any {
	if len(values) == 1 {
		return values[0]
	}
	return values
}
