// A sarama synchronous producer that sends numbered messages in batches and writes down what became of each.
//
// Arguments (name=value): bootstrap, topic, client_id; version of the protocol (kafka), idempotent, acks,
// messages (how many in one SendMessages call), batches (how many such calls), interval_ms (between calls),
// retry_max, metadata_retry_max, dial_timeout_ms, read_timeout_ms, write_timeout_ms, metadata_refresh_ms, partition, budget_ms (what the
// application thinks that a call may take; only written down).
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

var settings = map[string]string{
	"bootstrap": "", "topic": "", "client_id": "", "client_version": "",
	"kafka": "2.1.0", "idempotent": "false", "acks": "all", "partition": "0",
	"messages": "2", "batches": "1", "interval_ms": "0",
	"retry_max": "3", "metadata_retry_max": "3", "budget_ms": "0", "metadata_refresh_ms": "600000",
	"dial_timeout_ms": "30000", "read_timeout_ms": "30000", "write_timeout_ms": "30000",
}

type line struct {
	Client        string `json:"client"`
	ClientVersion string `json:"client_version"`
	ClientID      string `json:"client_id"`
	Operation     string `json:"operation"`
	MessageID     string `json:"message_id"`
	Topic         string `json:"topic"`
	Partition     int32  `json:"partition"`
	Offset        *int64 `json:"offset,omitempty"`
	CalledAtUs    int64  `json:"called_at_us"`
	ReturnedAtUs  int64  `json:"returned_at_us,omitempty"`
	CompletedAtUs int64  `json:"completed_at_us,omitempty"`
	BudgetMs      int    `json:"budget_ms,omitempty"`
	Outcome       string `json:"outcome"`
	Error         string `json:"error,omitempty"`
	Thread        string `json:"thread"`
}

func main() {
	for _, argument := range os.Args[1:] {
		name, value, found := strings.Cut(argument, "=")
		if _, known := settings[name]; !known || !found {
			log.Fatalf("unknown argument: %s", argument)
		}
		settings[name] = value
	}
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	producer, err := sarama.NewSyncProducer(strings.Split(settings["bootstrap"], ","), config())
	if err != nil {
		log.Fatal(err)
	}
	number := 0
	for batch := 0; batch < integer("batches"); batch++ {
		if batch > 0 {
			time.Sleep(milliseconds("interval_ms"))
		}
		send(producer, number, integer("messages"))
		number += integer("messages")
	}
	if err := producer.Close(); err != nil {
		log.Print(err)
	}
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	version, err := sarama.ParseKafkaVersion(settings["kafka"])
	if err != nil {
		log.Fatal(err)
	}
	config.Version = version
	config.ClientID = settings["client_id"]
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"all": sarama.WaitForAll, "1": sarama.WaitForLocal, "0": sarama.NoResponse,
	}[settings["acks"]]
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Messages = integer("messages")
	config.Producer.Retry.Max = integer("retry_max")
	config.Metadata.Retry.Max = integer("metadata_retry_max")
	config.Metadata.RefreshFrequency = milliseconds("metadata_refresh_ms")
	config.Net.DialTimeout = milliseconds("dial_timeout_ms")
	config.Net.ReadTimeout = milliseconds("read_timeout_ms")
	config.Net.WriteTimeout = milliseconds("write_timeout_ms")
	if settings["idempotent"] == "true" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	return config
}

// send makes one SendMessages call: pending for each message first, then what the call said of each.
func send(producer sarama.SyncProducer, first int, count int) {
	lines := make(map[string]*line)
	var messages []*sarama.ProducerMessage
	called := now()
	for number := first; number < first+count; number++ {
		id := fmt.Sprintf("%s-%d", settings["client_id"], number)
		messages = append(messages, &sarama.ProducerMessage{
			Topic:     settings["topic"],
			Partition: int32(integer("partition")),
			Value:     sarama.StringEncoder("order " + id),
			Headers:   []sarama.RecordHeader{{Key: []byte("notleader-id"), Value: []byte(id)}},
			Metadata:  id,
		})
		lines[id] = &line{
			Client: settings["client_id"], ClientVersion: settings["client_version"], ClientID: settings["client_id"],
			Operation: "send", MessageID: id, Topic: settings["topic"], Partition: int32(integer("partition")),
			CalledAtUs: called, BudgetMs: integer("budget_ms"), Outcome: "pending", Thread: "main",
		}
		write(lines[id])
	}
	err := producer.SendMessages(messages)
	returned := now()
	failed := map[string]error{}
	if errors, ok := err.(sarama.ProducerErrors); ok {
		for _, each := range errors {
			failed[each.Msg.Metadata.(string)] = each.Err
		}
	} else if err != nil {
		log.Fatal(err)
	}
	for _, message := range messages {
		said := lines[message.Metadata.(string)]
		said.ReturnedAtUs, said.CompletedAtUs, said.Outcome = returned, returned, "ok"
		if err, ok := failed[said.MessageID]; ok {
			said.Outcome, said.Error = ended(err), err.Error()
		} else {
			said.Offset = &message.Offset
		}
		write(said)
	}
}

func write(said *line) {
	text, err := json.Marshal(said)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		log.Fatal(err)
	}
}

func integer(name string) int {
	value, err := strconv.Atoi(settings[name])
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return value
}

func milliseconds(name string) time.Duration { return time.Duration(integer(name)) * time.Millisecond }

func now() int64 { return time.Now().UnixMicro() }
