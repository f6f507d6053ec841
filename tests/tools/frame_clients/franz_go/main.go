package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What franz-go can do, once each, against BOOTSTRAP.
func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	seeds := kgo.SeedBrokers(os.Getenv("BOOTSTRAP"))
	admin := kadm.NewClient(client(seeds))
	defer admin.Close()
	must(admin.CreateTopics(ctx, 3, 1, nil, "orders", "invoices"))
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for _, codec := range codecs {
		producer := client(seeds, kgo.ProducerBatchCompression(codec))
		for number := 0; number < 9; number++ {
			record := &kgo.Record{Topic: "orders", Value: []byte("a value, a value, a value, a value, a value")}
			record.Headers = []kgo.RecordHeader{{Key: "notleader-id", Value: []byte(fmt.Sprint(number))}}
			check(producer.ProduceSync(ctx, record).FirstErr())
		}
		producer.Close()
	}
	plain := client(seeds, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()))
	check(plain.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("nobody answers")}).FirstErr())
	plain.Close()
	consumer := client(seeds, kgo.ConsumerGroup("group-f"), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	fetched := consumer.PollFetches(ctx)
	check(fetched.Err())
	check(consumer.CommitRecords(ctx, fetched.Records()...))
	writer := client(seeds, kgo.TransactionalID("tx-f"))
	check(writer.BeginTransaction())
	check(writer.ProduceSync(ctx, &kgo.Record{Topic: "invoices", Value: []byte("in a transaction")}).FirstErr())
	check(writer.EndTransaction(ctx, kgo.TryCommit))
	check(writer.BeginTransaction())
	check(writer.ProduceSync(ctx, &kgo.Record{Topic: "invoices", Value: []byte("undone")}).FirstErr())
	check(writer.EndTransaction(ctx, kgo.TryAbort))
	writer.Close()
	must(admin.Lag(ctx, "group-f"))
	must(admin.ListEndOffsets(ctx, "orders"))
	must(admin.BrokerMetadata(ctx))
	must(admin.ListTopics(ctx))
	must(admin.DescribeTopicConfigs(ctx, "orders"))
	must(admin.DescribeAllLogDirs(ctx, nil))
	must(admin.ListTransactions(ctx, nil, nil))
	must(admin.CreatePartitions(ctx, 1, "invoices"))
	consumer.Close()
	must(admin.DeleteGroups(ctx, "group-f"))
	must(admin.DeleteTopics(ctx, "invoices"))
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	check(err)
	return made
}

func must[T any](_ T, err error) { check(err) }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
