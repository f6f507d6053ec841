// The scenario with kafka-go, whose writer has no transactions.
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

	"github.com/segmentio/kafka-go"
)

var (
	prefix = os.Getenv("PREFIX")
	orders = prefix + "-orders"
	moves  = prefix + "-moves"
	group  = prefix + "-readers"
	seeds  = strings.Split(os.Getenv("BOOTSTRAP"), ",")
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
	client := &kafka.Client{Addr: kafka.TCP(seeds...), Timeout: 30 * time.Second}
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: orders, NumPartitions: 2, ReplicationFactor: replicas},
		{Topic: moves, NumPartitions: 1, ReplicationFactor: replicas},
	}})
	check(err)
	for _, err := range made.Errors {
		check(err)
	}
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{orders}})
	check(err)
	var addresses []string
	for _, broker := range metadata.Brokers {
		addresses = append(addresses, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	result["brokers"] = addresses
	produce(ctx)

	count := 6*len(codecs) + 1
	reader := member()
	found, places := read(ctx, reader, count)
	result["consumed"], result["produced"] = found, places
	check(reader.CommitMessages(ctx, kafka.Message{Topic: orders, Partition: 0, Offset: 2},
		kafka.Message{Topic: orders, Partition: 1, Offset: 3}))
	check(reader.Close())
	reader = member()
	resumed := map[string]any{}
	found, _ = read(ctx, reader, count-7)
	for partition, records := range found {
		resumed[partition] = records[0][0]
	}
	result["resumed"] = resumed
	check(reader.Close())

	listed, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		orders: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0), kafka.FirstOffsetOf(1), kafka.LastOffsetOf(1)},
	}})
	check(err)
	offsets := map[string][2]int64{}
	for _, offset := range listed.Topics[orders] {
		check(offset.Error)
		offsets[strconv.Itoa(offset.Partition)] = [2]int64{offset.FirstOffset, offset.LastOffset}
	}
	result["offsets"] = offsets
	told, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{orders: {0, 1}},
	})
	check(err)
	committed := map[string]int64{}
	for _, offset := range told.Topics[orders] {
		committed[strconv.Itoa(offset.Partition)] = offset.CommittedOffset
	}
	result["committed"] = committed
	check(json.NewEncoder(os.Stdout).Encode(result))
}

// modulo sends a record where its first header says.
func modulo(message kafka.Message, partitions ...int) int {
	number, err := strconv.Atoi(string(message.Headers[0].Value))
	check(err)
	return partitions[number%2]
}

func produce(ctx context.Context) {
	kinds := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	for _, codec := range codecs {
		writer := writer(kafka.RequireAll)
		writer.Compression = kinds[codec]
		for number := 0; number < 6; number++ {
			send(ctx, writer, number, fmt.Sprintf("%s %d", codec, number))
		}
		check(writer.Close())
	}
	writer := writer(kafka.RequireNone)
	send(ctx, writer, 0, "nobody answers")
	check(writer.Close())
}

func writer(acks kafka.RequiredAcks) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(seeds...), Topic: orders, Balancer: kafka.BalancerFunc(modulo), RequiredAcks: acks,
		BatchSize: 1, Transport: &kafka.Transport{},
	}
}

func send(ctx context.Context, writer *kafka.Writer, number int, value string) {
	headers := []kafka.Header{{Key: "number", Value: []byte(strconv.Itoa(number))}}
	check(writer.WriteMessages(ctx, kafka.Message{Key: []byte(value), Value: []byte(value), Headers: headers}))
}

func member() *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: seeds, GroupID: group, Topic: orders, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond,
	})
}

// read gives what is found by partition, and where each codec's records are: a writer isn't told.
func read(ctx context.Context, reader *kafka.Reader, count int) (records, map[string][][2]int64) {
	found := records{}
	places := map[string]map[string][2]int64{}
	for ; count > 0; count-- {
		message, err := reader.FetchMessage(ctx)
		check(err)
		partition, value := strconv.Itoa(message.Partition), string(message.Value)
		found[partition] = append(found[partition], [2]any{message.Offset, value})
		if codec, number, ok := strings.Cut(value, " "); ok && codec != "nobody" {
			if places[codec] == nil {
				places[codec] = map[string][2]int64{}
			}
			places[codec][number] = [2]int64{int64(message.Partition), message.Offset}
		}
	}
	inOrder := map[string][][2]int64{}
	for codec, byNumber := range places {
		for number := 0; number < len(byNumber); number++ {
			inOrder[codec] = append(inOrder[codec], byNumber[strconv.Itoa(number)])
		}
	}
	return found, inOrder
}

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}
