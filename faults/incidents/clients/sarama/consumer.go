// A sarama consumer group that reads to the last message and commits every few records.
//
// Arguments: see outcome.go; sarama.rebalance.retries (Consumer.Group.Rebalance.Retry.Max).
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

type handler struct {
	records chan Record
	session sarama.ConsumerGroupSession
}

func (reader *handler) Setup(session sarama.ConsumerGroupSession) error {
	reader.session = session
	return nil
}

func (reader *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (reader *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		id := string(message.Value)
		for _, header := range message.Headers {
			if string(header.Key) == "notleader-id" {
				id = string(header.Value)
			}
		}
		select {
		case reader.records <- Record{id, message.Topic, message.Partition, message.Offset}:
		case <-session.Context().Done():
			return nil
		}
	}
	return nil
}

func main() {
	settings := Arguments()
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	config := sarama.NewConfig()
	config.Version = sarama.V2_1_0_0
	config.ClientID = settings["client_id"]
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 6_000_000_000
	config.Consumer.Group.Heartbeat.Interval = 1_000_000_000
	config.Net.DialTimeout = settings.Milliseconds("connect_timeout_ms")
	if settings["sarama.rebalance.retries"] != "" {
		config.Consumer.Group.Rebalance.Retry.Max = settings.Integer("sarama.rebalance.retries")
	}
	reader := &handler{records: make(chan Record)}
	failures := make(chan error)
	go func() {
		group, err := sarama.NewConsumerGroup(strings.Split(settings["bootstrap"], ","), settings["group_id"], config)
		if err != nil {
			log.Fatal(err)
		}
		for {
			if err := group.Consume(context.Background(), []string{settings["topic"]}, reader); err != nil {
				failures <- err
			}
		}
	}()
	settings.Consume(func(ctx context.Context) ([]Record, error) {
		select {
		case record := <-reader.records:
			return []Record{record}, nil
		case err := <-failures:
			return nil, err
		case <-ctx.Done():
			return nil, nil
		}
	}, func(record Record) error {
		reader.session.MarkOffset(record.Topic, record.Partition, record.Offset+1, "")
		return nil
	})
}
