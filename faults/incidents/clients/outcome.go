// What every Go client program shares: its arguments, its outcome lines, and the pace of its sends and reads.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"reflect"
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

var refusedCodes = map[int64]bool{10: true, 12: true, 17: true, 18: true, 21: true, 28: true, 29: true, 30: true, 31: true, 32: true, 35: true, 42: true, 43: true, 44: true, 53: true, 76: true, 87: true}

// Arguments reads the command line; a name with a dot is a setting of the client's own and passes as it is.
func Arguments() Settings {
	settings := Settings{
		"bootstrap": "", "topic": "", "client_id": "", "client_version": "", "mode": "produce", "group_id": "",
		"messages": "20", "interval_ms": "100", "partition": "0", "partitions": "1", "idempotent": "false", "retries": "3",
		"request_timeout_ms": "2000", "delivery_timeout_ms": "8000", "connect_timeout_ms": "2000",
		"metadata_max_age_ms": "300000", "budget_ms": "0", "wait_ms": "12000", "commit_every": "5", "instance_id": "",
	}
	for _, argument := range os.Args[1:] {
		name, value, found := strings.Cut(argument, "=")
		if _, known := settings[name]; !found || (!known && !strings.Contains(name, ".")) {
			log.Fatalf("unknown argument: %s", argument)
		}
		settings[name] = value
	}
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

// ended is what an error makes of an operation: "fail" for one of Kafka's that surely kept it from happening (refused
// before anything was appended, and no retry gets past it), "info" for any other, every timeout and cut connection
// included. NOT_LEADER_OR_FOLLOWER can come after the append (KAFKA-13574).
func ended(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		if code, found := kafkaCode(err); found {
			if refusedCodes[code] {
				return "fail"
			}
			return "info"
		}
	}
	return "info"
}

// kafkaCode is the code in a client's own error: a number (sarama, kafka-go), or a field or method Code (franz-go,
// librdkafka). No client is imported for it.
func kafkaCode(err error) (int64, bool) {
	value := reflect.Indirect(reflect.ValueOf(err))
	if !value.IsValid() {
		return 0, false
	}
	path := value.Type().PkgPath()
	if !strings.Contains(path, "kafka") && !strings.Contains(path, "sarama") && !strings.Contains(path, "kerr") {
		return 0, false
	}
	if method := reflect.ValueOf(err).MethodByName("Code"); method.IsValid() && method.Type().NumIn() == 0 {
		value = method.Call(nil)[0]
	} else if value.Kind() == reflect.Struct {
		value = value.FieldByName("Code")
	}
	switch value.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return value.Int(), true
	}
	return 0, false
}

func nowUs() int64 { return time.Now().UnixMicro() }
