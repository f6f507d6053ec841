// A kafka-go client: a writer that sends numbered messages one by one, or a group reader (mode=consume).
//
// Arguments: see outcome.go. The writer has no idempotence and no bound on a delivery besides its attempts.
// `kafka_go.start=last` begins at the end where the group has committed nothing.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	settings := Arguments()
	if settings["mode"] == "consume" {
		consume(settings)
	} else {
		produce(settings)
	}
}

func produce(settings Settings) {
	var partition int32
	var offset int64
	writer := &kafka.Writer{
		Addr:         kafka.TCP(strings.Split(settings["bootstrap"], ",")...),
		Topic:        settings["topic"],
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return settings.Integer("partition") }),
		MaxAttempts:  settings.Integer("retries") + 1,
		BatchTimeout: 5 * time.Millisecond,
		ReadTimeout:  settings.Milliseconds("request_timeout_ms"),
		WriteTimeout: settings.Milliseconds("request_timeout_ms"),
		RequiredAcks: kafka.RequireAll,
		ErrorLogger:  log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds),
		Completion: func(messages []kafka.Message, err error) {
			if err == nil {
				partition, offset = int32(messages[0].Partition), messages[0].Offset
			}
		},
		Transport: &kafka.Transport{
			ClientID:    settings["client_id"],
			DialTimeout: settings.Milliseconds("connect_timeout_ms"),
			MetadataTTL: settings.Milliseconds("metadata_max_age_ms"),
		},
	}
	settings.Produce(func(id string, _ int32, done func(int32, int64, error)) {
		err := writer.WriteMessages(context.Background(), kafka.Message{
			Value: []byte(id), Headers: []kafka.Header{{Key: "notleader-id", Value: []byte(id)}},
		})
		done(partition, offset, err)
	})
}

func consume(settings Settings) {
	start := kafka.FirstOffset
	if settings["kafka_go.start"] == "last" {
		start = kafka.LastOffset
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     strings.Split(settings["bootstrap"], ","),
		GroupID:     settings["group_id"],
		Topic:       settings["topic"],
		StartOffset: start,
		MaxWait:     200 * time.Millisecond,
		Dialer:      &kafka.Dialer{ClientID: settings["client_id"], Timeout: settings.Milliseconds("connect_timeout_ms")},
		ErrorLogger: log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds),
	})
	settings.Consume(func(ctx context.Context) ([]Record, error) {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return nil, err
		}
		id := string(message.Value)
		for _, header := range message.Headers {
			if header.Key == "notleader-id" {
				id = string(header.Value)
			}
		}
		return []Record{{id, message.Topic, int32(message.Partition), message.Offset}}, nil
	}, func(record Record) error {
		return reader.CommitMessages(context.Background(), kafka.Message{
			Topic: record.Topic, Partition: int(record.Partition), Offset: record.Offset,
		})
	})
}
