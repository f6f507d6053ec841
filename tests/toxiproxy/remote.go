// Package toxiproxy stands in for the server's own package when its test suite runs: every proxy, toxic and collection
// here is one of the server at TOXIPROXY_URL, reached over HTTP.
package toxiproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/Shopify/toxiproxy/v2/collectors"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// What is started by itself and not through a collection has a name of its own on the server.
const mark = "~"

var (
	started atomic.Int64

	ErrProxyAlreadyStarted = errors.New("Proxy already started")
)

func call(method string, body io.Reader, result any, path ...string) error {
	address := os.Getenv("TOXIPROXY_URL")
	for _, part := range path {
		address += "/" + url.PathEscape(part)
	}
	request, err := http.NewRequest(method, address, body)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		return fmt.Errorf("%d %s", response.StatusCode, answer)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}

func send(method string, document any, result any, path ...string) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return call(method, bytes.NewReader(body), result, path...)
}

type metricsContainer struct {
	RuntimeMetrics *collectors.RuntimeMetricCollectors
	ProxyMetrics   *collectors.ProxyMetricCollectors
}

func NewMetricsContainer(*prometheus.Registry) *metricsContainer { return &metricsContainer{} }

type ApiServer struct {
	Collection *ProxyCollection
	Metrics    *metricsContainer
}

func NewServer(metrics *metricsContainer, _ zerolog.Logger) *ApiServer {
	return &ApiServer{Collection: &ProxyCollection{}, Metrics: metrics}
}

// Listen does nothing: the server listens already.
func (server *ApiServer) Listen(string) error { return nil }

type Proxy struct {
	Name     string           `json:"name"`
	Listen   string           `json:"listen"`
	Upstream string           `json:"upstream"`
	Enabled  bool             `json:"enabled"`
	Toxics   *ToxicCollection `json:"-"`

	remote string
}

func NewProxy(_ *ApiServer, name, listen, upstream string) *Proxy {
	proxy := &Proxy{Name: name, Listen: listen, Upstream: upstream}
	proxy.Toxics = &ToxicCollection{proxy: proxy}
	return proxy
}

func (proxy *Proxy) take(method string, document any, path ...string) error {
	var shown Proxy
	if err := send(method, document, &shown, path...); err != nil {
		return err
	}
	proxy.Listen, proxy.Upstream, proxy.Enabled = shown.Listen, shown.Upstream, shown.Enabled
	return nil
}

func (proxy *Proxy) Start() error {
	if proxy.Enabled {
		return ErrProxyAlreadyStarted
	}
	if proxy.remote != "" {
		return proxy.take("PATCH", map[string]any{"listen": proxy.Listen, "enabled": true}, "proxies", proxy.remote)
	}
	remote := fmt.Sprintf("%s%s%d-%d", proxy.Name, mark, os.Getpid(), started.Add(1))
	err := proxy.take("POST", Proxy{remote, proxy.Listen, proxy.Upstream, true, nil, ""}, "proxies")
	if err == nil {
		proxy.remote = remote
	}
	return err
}

func (proxy *Proxy) Stop() {
	if proxy.Enabled {
		proxy.take("PATCH", map[string]any{"enabled": false}, "proxies", proxy.remote)
	}
}

func (proxy *Proxy) Update(input *Proxy) error {
	change := map[string]any{"listen": input.Listen, "upstream": input.Upstream, "enabled": input.Enabled}
	return proxy.take("PATCH", change, "proxies", proxy.remote)
}

// Differs says whether a change of addresses moved the proxy.
func (proxy *Proxy) Differs(other *Proxy) (bool, error) {
	before := *proxy
	err := proxy.take("PATCH", map[string]any{"listen": other.Listen, "upstream": other.Upstream}, "proxies", proxy.remote)
	return proxy.Listen != before.Listen || proxy.Upstream != before.Upstream, err
}

type ToxicCollection struct {
	proxy *Proxy
}

func (c *ToxicCollection) AddToxicJson(data io.Reader) (*toxics.ToxicWrapper, error) {
	wrapper := &toxics.ToxicWrapper{Toxic: new(toxics.NoopToxic)}
	return wrapper, call("POST", data, wrapper, "proxies", c.proxy.remote, "toxics")
}

func (c *ToxicCollection) UpdateToxicJson(name string, data io.Reader) (*toxics.ToxicWrapper, error) {
	wrapper := &toxics.ToxicWrapper{Toxic: new(toxics.NoopToxic)}
	return wrapper, call("PATCH", data, wrapper, "proxies", c.proxy.remote, "toxics", name)
}

func (c *ToxicCollection) RemoveToxic(_ context.Context, name string) error {
	return call("DELETE", nil, nil, "proxies", c.proxy.remote, "toxics", name)
}

func (c *ToxicCollection) ResetToxics(ctx context.Context) {
	var names []struct{ Name string }
	if call("GET", nil, &names, "proxies", c.proxy.remote, "toxics") == nil {
		for _, toxic := range names {
			c.RemoveToxic(ctx, toxic.Name)
		}
	}
}

type ProxyCollection struct{}

func NewProxyCollection() *ProxyCollection {
	collection := &ProxyCollection{}
	collection.Clear()
	return collection
}

func (collection *ProxyCollection) Add(proxy *Proxy, start bool) error {
	return proxy.take("POST", Proxy{proxy.Name, proxy.Listen, proxy.Upstream, start, nil, ""}, "proxies")
}

func (collection *ProxyCollection) Proxies() map[string]*Proxy {
	shown := map[string]*Proxy{}
	call("GET", nil, &shown, "proxies")
	for name := range shown {
		if strings.Contains(name, mark) {
			delete(shown, name)
		}
	}
	return shown
}

func (collection *ProxyCollection) Get(name string) (*Proxy, error) {
	var shown Proxy
	return &shown, call("GET", nil, &shown, "proxies", name)
}

func (collection *ProxyCollection) Remove(name string) error {
	return call("DELETE", nil, nil, "proxies", name)
}

func (collection *ProxyCollection) Clear() error {
	for name := range collection.Proxies() {
		if err := collection.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
