// A franz-go client: a producer that sends numbered messages at a steady rate, or a group consumer (mode=consume).
//
// Arguments: see outcome.go. `retries` and the timeouts are set as given, where the library's own defaults would try
// for ever; `franz.defaults=true` leaves those alone.
package main

import (
	"context"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	settings := Arguments()
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(settings["bootstrap"], ",")...),
		kgo.ClientID(settings["client_id"]),
		kgo.MetadataMaxAge(settings.Milliseconds("metadata_max_age_ms")),
		kgo.WithLogger(kgo.BasicLogger(log.Writer(), kgo.LogLevelInfo, nil)),
	}
	if age := settings.Milliseconds("metadata_max_age_ms"); age < 5*time.Second {
		options = append(options, kgo.MetadataMinAge(age)) // the library's own would be above it
	}
	if settings["mode"] == "consume" {
		consume(settings, options)
	} else {
		produce(settings, options)
	}
}

func produce(settings Settings, options []kgo.Opt) {
	options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if settings["franz.defaults"] != "true" {
		options = append(options,
			kgo.RecordRetries(settings.Integer("retries")),
			kgo.RecordDeliveryTimeout(settings.Milliseconds("delivery_timeout_ms")),
			kgo.ProduceRequestTimeout(settings.Milliseconds("request_timeout_ms")),
			kgo.RequestTimeoutOverhead(settings.Milliseconds("request_timeout_ms")),
		)
	}
	if settings["idempotent"] != "true" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	settings.Produce(func(id string, partition int32, done func(int32, int64, error)) {
		record := &kgo.Record{
			Topic: settings["topic"], Partition: partition, Value: []byte(id),
			Headers: []kgo.RecordHeader{{Key: "notleader-id", Value: []byte(id)}},
		}
		client.Produce(context.Background(), record, func(told *kgo.Record, err error) { done(told.Partition, told.Offset, err) })
	})
}

func consume(settings Settings, options []kgo.Opt) {
	options = append(options, kgo.ConsumerGroup(settings["group_id"]), kgo.ConsumeTopics(settings["topic"]), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if settings["instance_id"] != "" {
		options = append(options, kgo.InstanceID(settings["instance_id"]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	settings.Consume(func(ctx context.Context) ([]Record, error) {
		fetches := client.PollFetches(ctx)
		var found []Record
		fetches.EachRecord(func(record *kgo.Record) {
			id := string(record.Value)
			for _, header := range record.Headers {
				if header.Key == "notleader-id" {
					id = string(header.Value)
				}
			}
			found = append(found, Record{id, record.Topic, record.Partition, record.Offset})
		})
		for _, failed := range fetches.Errors() {
			return found, failed.Err
		}
		return found, nil
	}, func(record Record) error {
		return client.CommitRecords(context.Background(), &kgo.Record{
			Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, LeaderEpoch: -1,
		})
	})
}
