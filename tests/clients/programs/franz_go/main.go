// The scenario with franz-go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	prefix = os.Getenv("PREFIX")
	orders = prefix + "-orders"
	moves  = prefix + "-moves"
	group  = prefix + "-readers"
	seeds  = kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...)
	codecs = strings.Split(os.Getenv("CODECS"), ",")
)

type records map[string][][2]any

func main() {
	log.SetFlags(log.Lmicroseconds)
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	result := map[string]any{}
	replicas, err := strconv.Atoi(os.Getenv("REPLICAS"))
	check(err)
	admin := kadm.NewClient(client())
	for topic, partitions := range map[string]int32{orders: 2, moves: 1} {
		made, err := admin.CreateTopics(ctx, partitions, int16(replicas), nil, topic)
		check(err)
		check(made.Error())
	}
	metadata, err := admin.BrokerMetadata(ctx)
	check(err)
	var addresses []string
	for _, broker := range metadata.Brokers {
		addresses = append(addresses, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	result["brokers"] = addresses
	result["produced"] = produce(ctx)

	count := 6*len(codecs) + 1
	reader := member()
	result["consumed"] = read(ctx, reader, count)
	commit(ctx, reader)
	reader.Close()
	reader = member()
	resumed := map[string]any{}
	for partition, found := range read(ctx, reader, count-7) {
		resumed[partition] = found[0][0]
	}
	result["resumed"] = resumed
	reader.Close()

	offsets := map[string][2]int64{}
	begins, err := admin.ListStartOffsets(ctx, orders)
	check(err)
	ends, err := admin.ListEndOffsets(ctx, orders)
	check(err)
	for partition := int32(0); partition < 2; partition++ {
		begin, _ := begins.Lookup(orders, partition)
		end, _ := ends.Lookup(orders, partition)
		offsets[name(partition)] = [2]int64{begin.Offset, end.Offset}
	}
	result["offsets"] = offsets
	result["transactions"] = transact(ctx)
	told, err := admin.FetchOffsets(ctx, group)
	check(err)
	committed := map[string]int64{}
	told.Each(func(offset kadm.OffsetResponse) { committed[name(offset.Partition)] = offset.At })
	result["committed"] = committed
	admin.Close()
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	check(err)
	return made
}

func send(ctx context.Context, producer *kgo.Client, topic string, partition int32, value string) [2]int64 {
	record, err := producer.ProduceSync(ctx, &kgo.Record{
		Topic: topic, Partition: partition, Key: []byte(value), Value: []byte(value),
		Headers: []kgo.RecordHeader{{Key: "notleader-id", Value: []byte(value)}},
	}).First()
	check(err)
	return [2]int64{int64(record.Partition), record.Offset}
}

func produce(ctx context.Context) map[string][][2]int64 {
	produced := map[string][][2]int64{}
	kinds := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for _, codec := range codecs {
		producer := client(kgo.ProducerBatchCompression(kinds[codec]))
		for number := 0; number < 6; number++ {
			place := send(ctx, producer, orders, int32(number%2), fmt.Sprintf("%s %d", codec, number))
			produced[codec] = append(produced[codec], place)
		}
		producer.Close()
	}
	producer := client(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()))
	send(ctx, producer, orders, 0, "nobody answers")
	producer.Close()
	return produced
}

func member() *kgo.Client {
	return client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(orders), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

func read(ctx context.Context, consumer *kgo.Client, count int) records {
	found := records{}
	for count > 0 {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			count--
			partition := name(record.Partition)
			found[partition] = append(found[partition], [2]any{record.Offset, string(record.Value)})
		})
	}
	return found
}

func commit(ctx context.Context, consumer *kgo.Client) {
	consumer.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{
		orders: {0: {Epoch: -1, Offset: 3}, 1: {Epoch: -1, Offset: 4}},
	}, nil)
}

func transact(ctx context.Context) []any {
	session, err := kgo.NewGroupTransactSession(seeds, kgo.TransactionalID(prefix+"-mover"), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(orders), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	// The session commits what was polled: read up to the fifth record of the first partition, and no other.
	session.Client().PauseFetchPartitions(map[string][]int32{orders: {1}})
	for polled := int64(0); polled < 5; {
		for _, record := range session.PollRecords(ctx, 1).Records() {
			if record.Partition == 0 {
				polled = record.Offset + 1
			}
		}
	}
	check(session.Begin())
	send(ctx, session.Client(), moves, 0, "moved 0")
	send(ctx, session.Client(), moves, 0, "moved 1")
	done, err := session.End(ctx, kgo.TryCommit)
	check(err)
	if !done {
		log.Fatal("not committed")
	}
	session.Close()
	plain := client(kgo.TransactionalID(prefix + "-mover"))
	check(plain.BeginTransaction())
	send(ctx, plain, moves, 0, "undone")
	check(plain.EndTransaction(ctx, kgo.TryAbort))
	check(plain.BeginTransaction())
	send(ctx, plain, moves, 0, "moved 2")
	check(plain.EndTransaction(ctx, kgo.TryCommit))
	plain.Close()
	reader := client(kgo.ConsumeTopics(moves), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	var values []any
	for _, record := range read(ctx, reader, 3)["0"] {
		values = append(values, record[1])
	}
	return values
}

func name(partition int32) string { return strconv.Itoa(int(partition)) }

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}
