// What every Go client program shares: its arguments, its outcome lines, and the pace of its sends and reads.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Settings are the program's `name=value` arguments over the defaults that every program of the matrix has.
type Settings map[string]string

// Record is a message that a consumer got.
type Record struct {
	ID        string
	Topic     string
	Partition int32
	Offset    int64
}

// Outcome is one line of what the client said.
type Outcome struct {
	Client        string `json:"client"`
	ClientVersion string `json:"client_version"`
	ClientID      string `json:"client_id"`
	GroupID       string `json:"group_id,omitempty"`
	Operation     string `json:"operation"`
	MessageID     string `json:"message_id,omitempty"`
	Topic         string `json:"topic"`
	Partition     int32  `json:"partition"`
	Offset        *int64 `json:"offset,omitempty"`
	CalledAtUs    int64  `json:"called_at_us,omitempty"`
	ReturnedAtUs  int64  `json:"returned_at_us,omitempty"`
	CompletedAtUs int64  `json:"completed_at_us,omitempty"`
	BudgetMs      int    `json:"budget_ms,omitempty"`
	Outcome       string `json:"outcome"`
	Error         string `json:"error,omitempty"`
	Thread        string `json:"thread"`
}

var writing sync.Mutex

// Arguments reads the command line; a name with a dot is a setting of the client's own and passes as it is.
func Arguments() Settings {
	settings := Settings{
		"bootstrap": "", "topic": "", "client_id": "", "client_version": "", "mode": "produce", "group_id": "",
		"messages": "20", "interval_ms": "100", "partition": "0", "partitions": "1", "idempotent": "false", "retries": "3",
		"request_timeout_ms": "2000", "delivery_timeout_ms": "8000", "connect_timeout_ms": "2000",
		"metadata_max_age_ms": "300000", "budget_ms": "0", "wait_ms": "12000", "commit_every": "5", "instance_id": "",
		"transactional_id": "", "output": "", "start_after_ms": "0", "silent": "0",
	}
	for _, argument := range os.Args[1:] {
		name, value, found := strings.Cut(argument, "=")
		if _, known := settings[name]; !found || (!known && !strings.Contains(name, ".")) {
			log.Fatalf("unknown argument: %s", argument)
		}
		settings[name] = value
	}
	time.Sleep(settings.Milliseconds("start_after_ms"))
	return settings
}

func (settings Settings) Integer(name string) int {
	value, err := strconv.Atoi(settings[name])
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return value
}

func (settings Settings) Milliseconds(name string) time.Duration {
	return time.Duration(settings.Integer(name)) * time.Millisecond
}

// Own are the client's own settings, which have a dot in their names.
func (settings Settings) Own() map[string]string {
	own := map[string]string{}
	for name, value := range settings {
		if strings.Contains(name, ".") {
			own[name] = value
		}
	}
	return own
}

// Produce sends the messages at their pace, to `partitions` in turn from `partition` on, and waits `wait_ms` for the last
// answers; send may block, done speaks once.
func (settings Settings) Produce(send func(id string, partition int32, done func(partition int32, offset int64, err error))) {
	var open sync.WaitGroup
	for number := 0; number < settings.Integer("messages"); number++ {
		if number > 0 {
			time.Sleep(settings.Milliseconds("interval_ms"))
		}
		said := settings.line("send")
		said.MessageID = fmt.Sprintf("%s-%d", settings["client_id"], number)
		said.Partition = int32(settings.Integer("partition") + number%settings.Integer("partitions"))
		said.BudgetMs = settings.Integer("budget_ms")
		said.CalledAtUs = nowUs()
		said.write()
		open.Add(1)
		var once, told sync.Mutex
		once.Lock()
		send(said.MessageID, said.Partition, func(partition int32, offset int64, err error) {
			// A callback may speak before the call has returned; one line says both.
			completed := nowUs()
			go func() {
				once.Lock()
				told.Lock()
				defer told.Unlock()
				said.CompletedAtUs, said.Outcome, said.Partition = completed, "ok", partition
				if err != nil {
					said.Outcome, said.Error = ended(err), err.Error()
				} else {
					said.Offset = &offset
				}
				said.write()
				open.Done()
			}()
		})
		said.ReturnedAtUs = nowUs()
		said.write()
		once.Unlock()
	}
	all := make(chan struct{})
	go func() { open.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(settings.Milliseconds("wait_ms")):
	}
}

// Consume polls until `messages` different ones came, SIGTERM, or `wait_ms` have passed since the last one: then a
// `receive` that pends is its last word. Every `commit_every` records it commits.
func (settings Settings) Consume(poll func(context.Context) ([]Record, error), commit func(Record) error) {
	var last sync.Mutex
	since := time.Now()
	go func() {
		for {
			time.Sleep(50 * time.Millisecond)
			last.Lock()
			waited, from := time.Since(since), since
			last.Unlock()
			if waited > settings.Milliseconds("wait_ms") {
				said := settings.line("receive")
				said.CalledAtUs = from.UnixMicro()
				said.write()
				os.Exit(0)
			}
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	seen := map[string]bool{}
	failures, count := 0, 0
	for len(seen) < settings.Integer("messages") && ctx.Err() == nil {
		called := nowUs()
		records, err := poll(ctx)
		if err != nil && ctx.Err() == nil {
			if failures++; failures <= 20 {
				said := settings.line("receive")
				said.CalledAtUs, said.CompletedAtUs, said.Outcome, said.Error = called, nowUs(), ended(err), err.Error()
				said.write()
			}
			time.Sleep(50 * time.Millisecond)
		}
		for _, record := range records {
			last.Lock()
			since = time.Now()
			last.Unlock()
			said := settings.line("poll")
			said.MessageID, said.Topic, said.Partition = record.ID, record.Topic, record.Partition
			said.Offset, said.CompletedAtUs, said.Outcome = &record.Offset, nowUs(), "ok"
			said.write()
			seen[record.ID] = true
			if count++; count%settings.Integer("commit_every") == 0 {
				settings.commit(record, commit)
			}
		}
	}
}

func (settings Settings) commit(record Record, commit func(Record) error) {
	said := settings.line("commit")
	next := record.Offset + 1
	said.Topic, said.Partition, said.Offset, said.CalledAtUs = record.Topic, record.Partition, &next, nowUs()
	err := commit(record)
	said.ReturnedAtUs, said.CompletedAtUs, said.Outcome = nowUs(), nowUs(), "ok"
	if err != nil {
		said.Outcome, said.Error = ended(err), err.Error()
	}
	said.write()
}

// Call does what the application waits for and writes down how that ended; what never returns stays `pending`.
func (settings Settings) Call(operation string, do func() error) error {
	said := settings.line(operation)
	said.CalledAtUs = nowUs()
	said.write()
	err := do()
	said.ReturnedAtUs, said.CompletedAtUs, said.Outcome = nowUs(), nowUs(), "ok"
	if err != nil {
		said.Outcome, said.Error = ended(err), err.Error()
	}
	said.write()
	return err
}

func (settings Settings) line(operation string) *Outcome {
	return &Outcome{
		Client: settings["client_id"], ClientVersion: settings["client_version"], ClientID: settings["client_id"],
		GroupID: settings["group_id"], Operation: operation, Topic: settings["topic"], Outcome: "pending",
		Thread: "main",
	}
}

func (outcome *Outcome) write() {
	text, err := json.Marshal(outcome)
	if err != nil {
		log.Fatal(err)
	}
	writing.Lock()
	defer writing.Unlock()
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		log.Fatal(err)
	}
}

func nowUs() int64 { return time.Now().UnixMicro() }
