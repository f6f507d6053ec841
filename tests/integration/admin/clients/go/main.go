// Drives the Toxiproxy API with Toxiproxy's own Go client: main ADMIN ECHO
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
)

func check(err error) {
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

func want(ok bool, what string, found any) {
	if !ok {
		fmt.Printf("FAILED: %s: %v\n", what, found)
		os.Exit(1)
	}
}

func ping(address string) time.Duration {
	connection, err := net.Dial("tcp", address)
	check(err)
	defer connection.Close()
	started := time.Now()
	_, err = connection.Write([]byte("ping"))
	check(err)
	_, err = io.ReadFull(connection, make([]byte, 4))
	check(err)
	return time.Since(started)
}

func main() {
	client := toxiproxy.NewClient(os.Args[1])
	echo := os.Args[2]

	proxy, err := client.CreateProxy("echo", "127.0.0.1:0", echo)
	check(err)
	want(!strings.HasSuffix(proxy.Listen, ":0"), "resolved port", proxy.Listen)
	_, err = client.CreateProxy("echo", "127.0.0.1:0", echo)
	want(err != nil && strings.Contains(err.Error(), "proxy already exists"), "second create", err)

	_, err = proxy.AddToxic("", "latency", "", 1, toxiproxy.Attributes{"latency": 200, "jitter": 0})
	check(err)
	took := ping(proxy.Listen)
	want(took >= 200*time.Millisecond, "latency", took)
	toxics, err := proxy.Toxics()
	check(err)
	want(len(toxics) == 1 && toxics[0].Name == "latency_downstream", "toxics", toxics)
	_, err = proxy.UpdateToxic("latency_downstream", 1, toxiproxy.Attributes{"latency": 600})
	check(err)
	took = ping(proxy.Listen)
	want(took >= 600*time.Millisecond, "greater latency", took)

	for kind, attributes := range map[string]toxiproxy.Attributes{
		"bandwidth":  {"rate": 1000},
		"slow_close": {"delay": 10},
		"slicer":     {"average_size": 2, "size_variation": 1, "delay": 10},
		"limit_data": {"bytes": 1000},
		"timeout":    {"timeout": 1000},
		"reset_peer": {"timeout": 1000},
	} {
		_, err = proxy.AddToxic(kind+"_up", kind, "upstream", 0.5, attributes)
		check(err)
		check(proxy.RemoveToxic(kind + "_up"))
	}
	_, err = proxy.AddToxic("", "nonsense", "", 1, nil)
	want(err != nil && strings.Contains(err.Error(), "invalid toxic type"), "unknown type", err)
	_, err = proxy.AddToxic("", "latency", "sideways", 1, nil)
	want(err != nil && strings.Contains(err.Error(), "stream was invalid"), "bad stream", err)

	// Kafka faults are toxics too: of a proxy made here, and of the Kafka listeners.
	listener, err := client.Proxy("bootstrap")
	check(err)
	// (One made here is read as Kafka from then on: the echo isn't that.)
	ofKafka, err := client.CreateProxy("kafka", "127.0.0.1:0", proxy.Upstream)
	check(err)
	for _, one := range []*toxiproxy.Proxy{ofKafka, listener} {
		toxic, err := one.AddToxic("refused", "kafka_error", "upstream", 1, toxiproxy.Attributes{
			"error_code": "NOT_LEADER_OR_FOLLOWER",
			"match":      map[string]any{"api_key": "Produce"},
			"trigger":    map[string]any{"times": 4},
		})
		check(err)
		want(toxic.Type == "kafka_error" && toxic.Stream == "upstream", "kafka toxic", toxic)
		_, err = one.UpdateToxic("refused", 1, toxiproxy.Attributes{"error_code": "NOT_A_KAFKA_ERROR"})
		want(err != nil && strings.Contains(err.Error(), "error_code"), "wrong attribute", err)
		_, err = one.UpdateToxic("refused", 0.5, toxiproxy.Attributes{"match.topic": "orders"})
		check(err)
		toxics, err := one.Toxics()
		check(err)
		want(len(toxics) >= 1 && toxics[0].Name == "refused", "kafka toxics", toxics) // upstream comes first
		check(one.RemoveToxic("refused"))
	}
	check(ofKafka.Delete())
	check(listener.Disable())
	_, err = net.Dial("tcp", listener.Listen)
	want(err != nil, "disabled listener", "accepted a connection")
	check(listener.Enable())

	check(proxy.Disable())
	_, err = net.Dial("tcp", proxy.Listen)
	want(err != nil, "disabled proxy", "accepted a connection")
	check(client.ResetState())
	again, err := client.Proxy("echo")
	check(err)
	want(again.Enabled && len(again.ActiveToxics) == 0, "after reset", again)
	ping(again.Listen)

	made, err := client.Populate([]toxiproxy.Proxy{
		{Name: "echo", Listen: again.Listen, Upstream: echo, Enabled: true},
		{Name: "other", Listen: "127.0.0.1:0", Upstream: echo, Enabled: true},
	})
	check(err)
	want(len(made) == 2, "populate", made)
	proxies, err := client.Proxies()
	check(err)
	want(len(proxies) == 3 && proxies["bootstrap"] != nil, "proxies", proxies)
	for _, one := range proxies {
		check(one.Delete())
	}
	_, err = client.Proxy("echo")
	want(err != nil && strings.Contains(err.Error(), "proxy not found"), "deleted proxy", err)
	fmt.Println("OK")
}
