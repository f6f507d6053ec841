package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// plan says what a run asks for.
type plan struct {
	target      string
	workload    string
	connections int
	inflight    int
	bytes       int
	partitions  int
	batches     int
	version     int // of the API, 0 for the one that clients of Kafka 4.0 choose
	warmup      time.Duration
	duration    time.Duration
	reconnect   bool // a lost or silent connection is opened again instead of ending the run
	turns       bool // it asks only when its input says so
}

// silence is how long a run that reconnects waits for an answer.
const silence = 2 * time.Second

// result counts what happened; the Total fields include the warm-up.
type result struct {
	Workload      string  `json:"workload"`
	Connections   int     `json:"connections"`
	Inflight      int     `json:"inflight"`
	Requests      int64   `json:"requests"`
	Bytes         int64   `json:"bytes"`
	Seconds       float64 `json:"seconds"`
	TotalRequests int64   `json:"total_requests"`
	TotalBytes    int64   `json:"total_bytes"`
	Reconnects    int64   `json:"reconnects"`
	P50us         float64 `json:"p50_us"`
	P99us         float64 `json:"p99_us"`
	MeanUs        float64 `json:"mean_us"`
	MaxUs         float64 `json:"max_us"`
}

func (p plan) request() ([]byte, error) {
	switch p.workload {
	case "small":
		return heartbeatRequest(), nil
	case "produce":
		return produceRequest(p.shape(produceVersion)), nil
	case "fetch":
		return fetchRequest(p.shape(fetchVersion)), nil
	case "metadata":
		return metadataRequest(), nil
	}
	return nil, fmt.Errorf("unknown workload %q", p.workload)
}

func (p plan) shape(version int) shape {
	if p.version != 0 {
		version = p.version
	}
	return shape{version, p.partitions, p.batches, p.bytes}
}

// tally is one connection's count; only its own goroutine writes it.
type tally struct {
	requests, bytes           int64
	totalRequests, totalBytes int64
	reconnects                int64
	latency                   histogram
}

func run(p plan) (result, error) {
	template, err := p.request()
	if err != nil {
		return result{}, err
	}
	conns, err := dial(p.target, p.connections)
	for deadline := time.Now().Add(10 * time.Second); err != nil && p.reconnect && time.Now().Before(deadline); {
		conns, err = dial(p.target, p.connections)
	}
	if err != nil {
		return result{}, err
	}
	var measuring, stopping atomic.Bool
	pass := newGate(p.turns)
	tallies := make([]tally, p.connections)
	failures := make(chan error, p.connections)
	var working sync.WaitGroup
	for i := range conns {
		working.Add(1)
		go func(i int) {
			defer working.Done()
			for {
				err := converse(conns[i], template, p, &tallies[i], pass, &measuring, &stopping)
				conns[i].Close()
				if err == nil || (p.reconnect && stopping.Load()) {
					return
				}
				if !p.reconnect {
					failures <- fmt.Errorf("connection %d: %w", i, err)
					stopping.Store(true)
					pass.set(true)
					return
				}
				if conns[i] = redial(p.target, &stopping); conns[i] == nil {
					return
				}
				tallies[i].reconnects++
			}
		}(i)
	}
	var elapsed time.Duration
	if p.turns {
		elapsed = takeTurns(os.Stdin, pass, len(conns), &measuring, &stopping)
	} else {
		wait(p.warmup, &stopping)
		measuring.Store(true)
		started := time.Now()
		wait(p.duration, &stopping)
		measuring.Store(false)
		elapsed = time.Since(started)
	}
	stopping.Store(true)
	pass.set(true)
	working.Wait()
	select {
	case err := <-failures:
		return result{}, err
	default:
	}
	sum := result{Workload: p.workload, Connections: p.connections, Inflight: p.inflight, Seconds: elapsed.Seconds()}
	var all histogram
	for i := range tallies {
		one := &tallies[i]
		sum.Requests += one.requests
		sum.Bytes += one.bytes
		sum.TotalRequests += one.totalRequests
		sum.TotalBytes += one.totalBytes
		sum.Reconnects += one.reconnects
		all.add(&one.latency)
	}
	sum.P50us, sum.P99us = all.quantile(0.5), all.quantile(0.99)
	sum.MeanUs, sum.MaxUs = all.mean(), all.max()
	return sum, nil
}

// gate is what conversations wait in front of while it is closed.
type gate struct {
	mutex   sync.Mutex
	changed *sync.Cond
	closed  atomic.Bool
	waiting int
}

func newGate(closed bool) *gate {
	g := &gate{}
	g.changed = sync.NewCond(&g.mutex)
	g.closed.Store(closed)
	return g
}

func (g *gate) set(open bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.closed.Store(!open)
	g.changed.Broadcast()
}

func (g *gate) wait() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.waiting++
	g.changed.Broadcast()
	for g.closed.Load() {
		g.changed.Wait()
	}
	g.waiting--
}

// untilWait returns once so many wait, or it is open.
func (g *gate) untilWait(all int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for g.closed.Load() && g.waiting < all {
		g.changed.Wait()
	}
}

// takeTurns does what the lines of `input` say: `warm` and `go` begin a turn, which is measured after `go`; `stop` ends
// it, and is answered when the last answer is there. It returns how long the measured ones were.
func takeTurns(input io.Reader, pass *gate, all int, measuring, stopping *atomic.Bool) time.Duration {
	var elapsed time.Duration
	var started time.Time
	for lines := bufio.NewScanner(input); !stopping.Load() && lines.Scan(); {
		switch lines.Text() {
		case "warm":
			pass.set(true)
		case "go":
			started = time.Now()
			measuring.Store(true)
			pass.set(true)
		case "stop":
			if measuring.Swap(false) {
				elapsed += time.Since(started)
			}
			pass.set(false)
			if stopping.Load() {
				pass.set(true) // what failed opened it before
			}
			pass.untilWait(all)
			if !stopping.Load() {
				say(map[string]any{"event": "stopped"})
			}
		}
	}
	return elapsed
}

func wait(duration time.Duration, stopping *atomic.Bool) {
	for end := time.Now().Add(duration); time.Now().Before(end) && !stopping.Load(); {
		time.Sleep(5 * time.Millisecond)
	}
}

// dial opens the connections and asks each for its versions, as a client does first.
func dial(target string, connections int) ([]net.Conn, error) {
	conns := make([]net.Conn, connections)
	failures := make([]error, connections)
	gate := make(chan struct{}, 64)
	var dialing sync.WaitGroup
	for i := range conns {
		dialing.Add(1)
		gate <- struct{}{}
		go func(i int) {
			defer dialing.Done()
			defer func() { <-gate }()
			conn, err := net.DialTimeout("tcp", target, 10*time.Second)
			if err == nil {
				conns[i] = conn
				conn.SetDeadline(time.Now().Add(20 * time.Second))
				if err = once(conn, apiVersionsRequest()); err == nil {
					conn.SetDeadline(time.Time{})
				}
			}
			failures[i] = err
		}(i)
	}
	dialing.Wait()
	for i, err := range failures {
		if err != nil {
			for _, conn := range conns {
				if conn != nil {
					conn.Close()
				}
			}
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return conns, nil
}

// redial tries until a connection opens; nil when the run is over first.
func redial(target string, stopping *atomic.Bool) net.Conn {
	for !stopping.Load() {
		if conn, err := net.DialTimeout("tcp", target, silence); err == nil {
			return conn
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func once(conn net.Conn, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:])))
	return err
}

// converse keeps `inflight` requests under way until it is told to stop, then takes the last answers.
func converse(
	conn net.Conn, template []byte, p plan, count *tally, pass *gate, measuring, stopping *atomic.Bool,
) error {
	inflight := p.inflight
	reader := bufio.NewReaderSize(conn, largeBuffer)
	sink := make([]byte, 256<<10)
	out := make([]byte, 0, inflight*len(template))
	sent := make([]time.Time, inflight) // a ring: correlation id modulo its size
	next, due := uint32(0), uint32(0)
	for {
		if !stopping.Load() && !pass.closed.Load() {
			now := time.Now()
			out = out[:0]
			for int(next-due) < inflight {
				at := len(out)
				out = append(out, template...)
				binary.BigEndian.PutUint32(out[at+correlationFrom:], next)
				sent[int(next)%inflight] = now
				next++
			}
			if _, err := conn.Write(out); err != nil {
				return err
			}
		} else if next == due {
			if stopping.Load() {
				return nil
			}
			pass.wait()
			continue
		}
		if p.reconnect {
			conn.SetReadDeadline(time.Now().Add(silence))
		}
		// One answer at least, and whatever else has come with it.
		for first := true; next != due && (first || holdsWholeRequest(reader)); first = false {
			size, id, err := readAnswer(reader, sink)
			if err != nil {
				return err
			}
			if id != due {
				return fmt.Errorf("answer %d where %d was due", id, due)
			}
			bytes := int64(size + len(template))
			count.totalRequests++
			count.totalBytes += bytes
			if measuring.Load() {
				count.requests++
				count.bytes += bytes
				count.latency.record(time.Since(sent[int(id)%inflight]))
			}
			due++
		}
	}
}

func readAnswer(reader *bufio.Reader, sink []byte) (size int, id uint32, err error) {
	head, err := reader.Peek(headBytes)
	if err != nil {
		return 0, 0, err
	}
	size = int(binary.BigEndian.Uint32(head)) + 4
	id = binary.BigEndian.Uint32(head[4:])
	for left := size; left > 0; {
		part := sink
		if left < len(part) {
			part = part[:left]
		}
		n, err := reader.Read(part)
		left -= n
		if err != nil {
			return 0, 0, err
		}
	}
	return size, id, nil
}
