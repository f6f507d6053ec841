// A franz-go client: a producer that sends numbered messages at a steady rate, a group consumer (mode=consume), or
// one that writes each record it reads to the topic `output`, in transactions that commit its offsets too (mode=pipe).
//
// Arguments: see outcome.go. `retries` and the timeouts are set as given, where the library's own defaults would try
// for ever; `franz.defaults=true` leaves those alone. `franz.partitioner=default` lets the library choose partitions.
package main

import (
	"context"
	"errors"
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
	switch settings["mode"] {
	case "consume":
		consume(settings, options)
	case "pipe":
		pipe(settings, options)
	default:
		produce(settings, options)
	}
}

func produce(settings Settings, options []kgo.Opt) {
	if settings["franz.partitioner"] != "default" {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
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
	if settings["franz.isolation"] == "committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if settings["instance_id"] != "" {
		options = append(options, kgo.InstanceID(settings["instance_id"]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	settings.Consume(func(ctx context.Context) ([]Record, error) {
		fetches := client.PollFetches(ctx)
		return records(fetches)
	}, func(record Record) error {
		return client.CommitRecords(context.Background(), &kgo.Record{
			Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, LeaderEpoch: -1,
		})
	})
}

func pipe(settings Settings, options []kgo.Opt) {
	session, err := kgo.NewGroupTransactSession(append(options,
		kgo.ConsumerGroup(settings["group_id"]), kgo.ConsumeTopics(settings["topic"]), kgo.TransactionalID(settings["transactional_id"]),
		kgo.TransactionTimeout(settings.Milliseconds("delivery_timeout_ms")), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequireStableFetchOffsets(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		log.Fatal(err)
	}
	settings["commit_every"] = settings["messages"] + "0" // the transaction commits
	settings.Consume(func(ctx context.Context) ([]Record, error) {
		fetches := session.PollFetches(ctx)
		found, err := records(fetches)
		if err != nil || len(found) == 0 {
			return found, err
		}
		if err := session.Begin(); err != nil {
			return found, err
		}
		produced := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: settings["output"], Value: record.Value, Headers: record.Headers}, produced.Promise())
		})
		err = settings.Call("commit_transaction", func() error {
			failed := produced.Err()
			committed, err := session.End(context.Background(), failed == nil)
			if err == nil && !committed {
				err = errors.Join(errors.New("the transaction was aborted"), failed)
			}
			return err
		})
		if err != nil {
			return nil, err // the session goes back: they come again
		}
		return found, nil
	}, func(Record) error { return nil })
}

func records(fetches kgo.Fetches) ([]Record, error) {
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
}
