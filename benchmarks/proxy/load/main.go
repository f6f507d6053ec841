// Command load is the two ends of a proxy benchmark: a broker that answers at once, and clients that ask.
//
//	load broker -listen 127.0.0.1:0     prints {"event":"ready","listen":…} and serves until it is killed
//	load run -target HOST:PORT …        asks for a while and prints what it saw as one JSON object
//	load hold -target HOST:PORT …       opens idle connections, says so, and keeps them until its input ends
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say broker, run or hold"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	switch os.Args[1] {
	case "broker":
		listen := flags.String("listen", "127.0.0.1:0", "address to serve at")
		topics := flags.Int("topics", 1000, "topics in a Metadata answer")
		flags.Parse(os.Args[2:])
		fail(serve(*listen, *topics))
	case "run":
		var p plan
		flags.StringVar(&p.target, "target", "", "HOST:PORT to ask")
		flags.StringVar(&p.workload, "workload", "small", "small, produce, fetch or metadata")
		flags.IntVar(&p.connections, "connections", 1, "connections")
		flags.IntVar(&p.inflight, "inflight", 1, "requests under way per connection")
		flags.IntVar(&p.bytes, "bytes", 1<<10, "bytes of each batch in Produce requests and Fetch answers")
		flags.IntVar(&p.partitions, "partitions", 1, "partitions in each of these")
		flags.IntVar(&p.batches, "batches", 1, "batches of each partition")
		flags.IntVar(&p.version, "version", 0, "version of Produce or Fetch, 0 for what a client of Kafka 4.0 chooses")
		flags.BoolVar(&p.reconnect, "reconnect", false, "open a lost or silent connection again")
		flags.BoolVar(&p.turns, "turns", false, "ask only between the lines go (or warm) and stop of the input")
		flags.DurationVar(&p.warmup, "warmup", 200*time.Millisecond, "time before measuring")
		flags.DurationVar(&p.duration, "duration", time.Second, "time measured")
		flags.Parse(os.Args[2:])
		sum, err := run(p)
		fail(err)
		say(sum)
	case "hold":
		target := flags.String("target", "", "HOST:PORT to connect to")
		connections := flags.Int("connections", 1000, "connections")
		flags.Parse(os.Args[2:])
		started := time.Now()
		conns, err := dial(*target, *connections)
		fail(err)
		say(map[string]any{"event": "held", "connections": len(conns), "seconds": time.Since(started).Seconds()})
		io.Copy(io.Discard, os.Stdin)
		// All of them must still be there.
		for i, conn := range conns {
			if err := once(conn, heartbeatRequest()); err != nil {
				fail(fmt.Errorf("connection %d: %w", i, err))
			}
		}
		say(map[string]any{"event": "alive", "connections": len(conns)})
	default:
		fail(fmt.Errorf("unknown command %q", os.Args[1]))
	}
}

func serve(address string, topics int) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	b := newBroker(port, topics)
	say(map[string]any{"event": "ready", "listen": listener.Addr().String()})
	return b.serve(listener)
}

func say(value any) {
	json.NewEncoder(os.Stdout).Encode(value)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}
