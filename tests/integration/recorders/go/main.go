// Ten sends, one too large, ten reads and a commit: main CLIENT BOOTSTRAP TOPIC FILE, with sarama or franz-go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"

	"notleader.lab/recorder"
	"notleader.lab/recorder/kgorecorder"
	"notleader.lab/recorder/saramarecorder"
)

const count = 10

var tooLarge = strings.Repeat("x", 20_000)

func main() {
	client, bootstrap, topic, file := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	writer, err := recorder.Open(file, client+"-writer")
	check(err)
	reader, err := recorder.Open(file, client+"-reader")
	check(err)
	reader.GroupID = topic
	if client == "sarama" {
		withSarama(bootstrap, topic, writer, reader)
	} else {
		withFranz(bootstrap, topic, writer, reader)
	}
}

func withSarama(bootstrap, topic string, writer, reader *recorder.Lines) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Consumer.Interceptors = []sarama.ConsumerInterceptor{saramarecorder.Consumer(reader)}

	plain, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	check(err)
	producer := saramarecorder.Sync(plain, writer)
	var several []*sarama.ProducerMessage
	for number := 0; number < count/2; number++ {
		_, _, err = producer.SendMessage(message(topic, number, "v"))
		check(err)
		several = append(several, message(topic, count/2+number, "v"))
	}
	check(producer.SendMessages(several[:2]))
	if _, _, err = producer.SendMessage(message(topic, 0, tooLarge)); err == nil {
		log.Fatal("the broker took a record that is too large")
	}
	check(producer.Close())

	channel, err := sarama.NewAsyncProducer([]string{bootstrap}, config)
	check(err)
	async := saramarecorder.Async(channel, writer)
	for _, each := range several[2:] {
		async.Input() <- each
		<-async.Successes()
	}
	check(async.Close())

	client, err := sarama.NewConsumer([]string{bootstrap}, config)
	check(err)
	partition, err := client.ConsumePartition(topic, 0, sarama.OffsetOldest)
	check(err)
	for got := 0; got < count; got++ {
		<-partition.Messages()
	}
	check(partition.Close())
	check(client.Close())
}

func message(topic string, number int, value string) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{
		Topic: topic, Key: sarama.StringEncoder(fmt.Sprint("k", number)), Value: sarama.StringEncoder(value),
	}
}

func withFranz(bootstrap, topic string, writer, reader *recorder.Lines) {
	ctx := context.Background()
	writing := kgorecorder.New(writer)
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.WithHooks(writing),
	)
	check(err)
	for number := 0; number < count/2; number++ {
		record := &kgo.Record{Key: []byte(fmt.Sprint("k", number)), Value: []byte("v")}
		check(producer.ProduceSync(ctx, record).FirstErr())
	}
	for number := count / 2; number < count; number++ {
		done := make(chan error)
		record := &kgo.Record{Topic: topic, Key: []byte(fmt.Sprint("k", number)), Value: []byte("v")}
		writing.Produce(ctx, producer, record, func(_ *kgo.Record, err error) { done <- err })
		check(<-done)
	}
	if producer.ProduceSync(ctx, &kgo.Record{Value: []byte(tooLarge)}).FirstErr() == nil {
		log.Fatal("the broker took a record that is too large")
	}
	producer.Close()

	hooks := kgorecorder.New(reader)
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(hooks),
	)
	check(err)
	for got := 0; got < count; {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		got += fetches.NumRecords()
	}
	consumer.CommitOffsetsSync(ctx, consumer.UncommittedOffsets(), hooks.Committed)
	consumer.Close()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
