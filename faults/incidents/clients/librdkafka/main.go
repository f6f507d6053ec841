// librdkafka, by confluent-kafka-go, which brings the library of the same version with it: a producer that sends
// numbered messages at a steady rate (with transactional_id: each in a transaction of its own), or a group consumer
// (mode=consume).
//
// Arguments: see outcome.go; silent (so many messages in front of each numbered one, of which nothing is told: a batch
// of thousands needs no thousands of lines); application.seek (true: with auto.offset.reset=error it begins at 0, and told
// that its place is out of range it goes on where it was) and application.restart (true: after a fatal error there is a new consumer); a setting of librdkafka's own
// passes by its name (socket.timeout.ms=1000 …).
package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func main() {
	settings := Arguments()
	if settings["mode"] == "consume" {
		consume(settings)
	} else {
		produce(settings)
	}
}

func configured(settings Settings, more map[string]string) *kafka.ConfigMap {
	config := kafka.ConfigMap{}
	given := map[string]string{
		"bootstrap.servers": settings["bootstrap"], "client.id": settings["client_id"],
		"socket.timeout.ms": settings["request_timeout_ms"], "topic.metadata.refresh.interval.ms": settings["metadata_max_age_ms"],
	}
	for _, each := range []map[string]string{more, settings.Own()} {
		for name, value := range each {
			if !strings.HasPrefix(name, "application.") {
				given[name] = value
			}
		}
	}
	for name, value := range given {
		if err := config.SetKey(name, value); err != nil {
			log.Fatal(err)
		}
	}
	return &config
}

func produce(settings Settings) {
	more := map[string]string{
		"acks": "all", "enable.idempotence": settings["idempotent"], "retries": settings["retries"],
		"request.timeout.ms": settings["request_timeout_ms"], "message.timeout.ms": settings["delivery_timeout_ms"],
		"linger.ms": "5",
	}
	if settings["transactional_id"] != "" {
		more["transactional.id"], more["enable.idempotence"] = settings["transactional_id"], "true"
	}
	producer, err := kafka.NewProducer(configured(settings, more))
	if err != nil {
		log.Fatal(err)
	}
	version, text := kafka.LibraryVersion()
	log.Printf("librdkafka %s (%x)", text, version)
	go func() {
		for event := range producer.Events() {
			if _, silent := event.(*kafka.Message); !silent {
				log.Print(event)
			}
		}
	}()
	topic, unheard := settings["topic"], int64(0)
	begin, commit := func() {}, func() {}
	if settings["transactional_id"] != "" {
		begin, commit = transactions(settings, producer)
	}
	settings.Produce(func(id string, partition int32, done func(int32, int64, error)) {
		begin()
		defer commit()
		place := kafka.TopicPartition{Topic: &topic, Partition: partition}
		for each := 0; each < settings.Integer("silent"); each++ {
			unheard++
			value := []byte("." + strconv.FormatInt(unheard, 36)) // short: a batch has its bound in bytes, too
			if err := producer.Produce(&kafka.Message{TopicPartition: place, Value: value}, nil); err != nil {
				log.Print(err)
				break
			}
		}
		delivered := make(chan kafka.Event, 1)
		err := producer.Produce(&kafka.Message{
			TopicPartition: place,
			Value:          []byte(id),
			Headers:        []kafka.Header{{Key: "notleader-id", Value: []byte(id)}},
		}, delivered)
		if err != nil {
			done(partition, -1, err)
			return
		}
		go func() {
			told := (<-delivered).(*kafka.Message).TopicPartition
			done(told.Partition, int64(told.Offset), told.Error)
		}()
	})
}

// transactions begins them, when there is a producer id to begin with, and ends each.
func transactions(settings Settings, producer *kafka.Producer) (begin func(), commit func()) {
	wait := func(operation string, do func(context.Context) error) error {
		return settings.Call(operation, func() error {
			patience, cancel := context.WithTimeout(context.Background(), settings.Milliseconds("wait_ms"))
			defer cancel()
			return do(patience)
		})
	}
	// Without a bound, as the examples have it.
	if err := settings.Call("init_transactions", func() error { return producer.InitTransactions(nil) }); err != nil {
		log.Print(err)
		os.Exit(0)
	}
	begin = func() {
		if err := producer.BeginTransaction(); err != nil {
			log.Print(err)
		}
	}
	return begin, func() {
		if err := wait("commit_transaction", producer.CommitTransaction); err != nil {
			log.Print(err)
			if err := wait("abort_transaction", producer.AbortTransaction); err != nil {
				log.Print(err)
			}
		}
	}
}

func consume(settings Settings) {
	more := map[string]string{
		"group.id": settings["group_id"], "auto.offset.reset": "earliest", "enable.auto.commit": "false",
		"fetch.wait.max.ms": "200",
	}
	if settings["instance_id"] != "" {
		more["group.instance.id"] = settings["instance_id"]
	}
	if settings["group.protocol"] != "consumer" {
		more["session.timeout.ms"], more["heartbeat.interval.ms"] = "6000", "1000"
	}
	subscribed := func() *kafka.Consumer {
		consumer, err := kafka.NewConsumer(configured(settings, more))
		if err != nil {
			log.Fatal(err)
		}
		if err := consumer.SubscribeTopics([]string{settings["topic"]}, nil); err != nil {
			log.Fatal(err)
		}
		return consumer
	}
	consumer := subscribed()
	next := map[int32]kafka.Offset{}
	settings.Consume(func(ctx context.Context) ([]Record, error) {
		switch event := consumer.Poll(100).(type) {
		case *kafka.Message:
			place := event.TopicPartition
			if place.Error != nil {
				if told, ok := place.Error.(kafka.Error); ok && placeless(told) && settings["application.seek"] == "true" {
					seek(consumer, next)
				}
				return nil, place.Error
			}
			next[place.Partition] = place.Offset + 1
			id := string(event.Value)
			for _, header := range event.Headers {
				if header.Key == "notleader-id" {
					id = string(header.Value)
				}
			}
			return []Record{{id, *place.Topic, place.Partition, int64(place.Offset)}}, nil
		case kafka.Error:
			if event.IsFatal() && settings["application.restart"] == "true" {
				go consumer.Close()
				consumer = subscribed()
			}
			if placeless(event) && settings["application.seek"] == "true" {
				seek(consumer, next)
				if len(next) == 0 {
					return nil, nil // a new group
				}
			}
			return nil, event
		case nil:
			return nil, nil
		default:
			log.Print(event)
			return nil, nil
		}
	}, func(record Record) error {
		next, err := kafka.NewOffset(strconv.FormatInt(record.Offset+1, 10))
		if err != nil {
			return err
		}
		_, err = consumer.CommitOffsets([]kafka.TopicPartition{{Topic: &record.Topic, Partition: record.Partition, Offset: next}})
		return err
	})
}

// seek goes on, in each partition that is assigned, where its reader was; at 0 where it read nothing yet.
func seek(consumer *kafka.Consumer, next map[int32]kafka.Offset) {
	assigned, err := consumer.Assignment()
	for each := range assigned {
		assigned[each].Offset = next[assigned[each].Partition]
	}
	if err == nil {
		err = consumer.Assign(assigned) // what has no place can't be sought in
	}
	if err != nil {
		log.Print(err)
	}
}

// placeless errors leave a partition without a place to read from, where auto.offset.reset=error.
func placeless(told kafka.Error) bool {
	return told.Code() == kafka.ErrAutoOffsetReset || told.Code() == kafka.ErrNoOffset
}
