// The scenario with sarama, interface{} version from 1.27 on; KAFKA is the protocol version it is told to speak.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

var (
	prefix = os.Getenv("PREFIX")
	orders = prefix + "-orders"
	moves  = prefix + "-moves"
	group  = prefix + "-readers"
	seeds  = strings.Split(os.Getenv("BOOTSTRAP"), ",")
	codecs = strings.Split(os.Getenv("CODECS"), ",")
)

// Since 1.37 a synchronous producer is one of these.
type transactional interface {
	BeginTxn() error
	CommitTxn() error
	AbortTxn() error
	AddOffsetsToTxn(offsets map[string][]*sarama.PartitionOffsetMetadata, group string) error
}

type records map[string][][2]interface{}

func main() {
	log.SetFlags(log.Lmicroseconds)
	result := map[string]interface{}{}
	replicas, err := strconv.Atoi(os.Getenv("REPLICAS"))
	check(err)
	admin, err := sarama.NewClusterAdmin(seeds, config())
	check(err)
	check(admin.CreateTopic(orders, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: int16(replicas)}, false))
	check(admin.CreateTopic(moves, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: int16(replicas)}, false))
	brokers, _, err := admin.DescribeCluster()
	check(err)
	var addresses []string
	for _, broker := range brokers {
		addresses = append(addresses, broker.Addr())
	}
	result["brokers"] = addresses
	result["produced"] = produce()

	count := 6*len(codecs) + 1
	result["consumed"] = consume(count, map[int32]int64{0: 3, 1: 4})
	resumed := map[string]interface{}{}
	for partition, found := range consume(count-7, nil) {
		resumed[partition] = found[0][0]
	}
	result["resumed"] = resumed
	client, err := sarama.NewClient(seeds, config())
	check(err)
	offsets := map[string][]int64{}
	for partition := int32(0); partition < 2; partition++ {
		for _, when := range []int64{sarama.OffsetOldest, sarama.OffsetNewest} {
			offset, err := client.GetOffset(orders, partition, when)
			check(err)
			offsets[name(partition)] = append(offsets[name(partition)], offset)
		}
	}
	result["offsets"] = offsets
	check(client.Close())
	if values := transact(); values != nil {
		result["transactions"] = values
	}
	told, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{orders: {0, 1}})
	check(err)
	committed := map[string]int64{}
	for partition := int32(0); partition < 2; partition++ {
		committed[name(partition)] = told.GetBlock(orders, partition).Offset
	}
	result["committed"] = committed
	check(admin.Close())
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	if told := os.Getenv("KAFKA"); told != "newest" {
		version, err := sarama.ParseKafkaVersion(told)
		check(err)
		config.Version = version
	}
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	return config
}

func send(producer sarama.SyncProducer, topic string, partition int32, value string) [2]int64 {
	at, offset, err := producer.SendMessage(&sarama.ProducerMessage{
		Topic: topic, Partition: partition, Key: sarama.StringEncoder(value), Value: sarama.StringEncoder(value),
		Headers: []sarama.RecordHeader{{Key: []byte("notleader-id"), Value: []byte(value)}},
	})
	check(err)
	return [2]int64{int64(at), offset}
}

func produce() map[string][][2]int64 {
	produced := map[string][][2]int64{}
	kinds := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	for _, codec := range codecs {
		settings := config()
		settings.Producer.Compression = kinds[codec]
		settings.Producer.RequiredAcks = sarama.WaitForAll
		if codec == "gzip" {
			settings.Producer.Idempotent = true
			settings.Net.MaxOpenRequests = 1
		}
		producer, err := sarama.NewSyncProducer(seeds, settings)
		check(err)
		for number := 0; number < 6; number++ {
			place := send(producer, orders, int32(number%2), fmt.Sprintf("%s %d", codec, number))
			produced[codec] = append(produced[codec], place)
		}
		check(producer.Close())
	}
	settings := config()
	settings.Producer.RequiredAcks = sarama.NoResponse
	producer, err := sarama.NewSyncProducer(seeds, settings)
	check(err)
	send(producer, orders, 0, "nobody answers")
	check(producer.Close())
	return produced
}

// reader is a member of the group that hands over what it is given.
type reader struct {
	messages chan *sarama.ConsumerMessage
	session  chan sarama.ConsumerGroupSession
}

func (r *reader) Setup(session sarama.ConsumerGroupSession) error {
	select {
	case r.session <- session:
	default:
	}
	return nil
}

func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		r.messages <- message
	}
	return nil
}

// consume reads that many records as the group's only member, and commits these offsets.
func consume(count int, commit map[int32]int64) records {
	member, err := sarama.NewConsumerGroup(seeds, group, config())
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	handler := &reader{make(chan *sarama.ConsumerMessage, 100), make(chan sarama.ConsumerGroupSession, 1)}
	over := make(chan error, 1)
	go func() { over <- member.Consume(ctx, []string{orders}, handler) }()
	found := records{}
	for ; count > 0; count-- {
		select {
		case message := <-handler.messages:
			partition := name(message.Partition)
			found[partition] = append(found[partition], [2]interface{}{message.Offset, string(message.Value)})
		case err := <-over:
			log.Fatalf("%d records short: %v", count, err)
		}
	}
	if commit != nil {
		session := <-handler.session
		for partition, offset := range commit {
			session.MarkOffset(orders, partition, offset, "")
		}
		session.Commit()
	}
	cancel()
	<-over
	check(member.Close())
	return found
}

// transact commits, aborts and commits again; nil where this sarama has no transactions.
func transact() []string {
	settings := config()
	transaction := reflect.ValueOf(&settings.Producer).Elem().FieldByName("Transaction")
	if !transaction.IsValid() {
		return nil
	}
	transaction.FieldByName("ID").SetString(prefix + "-mover")
	settings.Producer.Idempotent = true
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(seeds, settings)
	check(err)
	mover := producer.(transactional)
	check(mover.BeginTxn())
	send(producer, moves, 0, "moved 0")
	send(producer, moves, 0, "moved 1")
	check(mover.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{
		orders: {{Partition: 0, Offset: 5}},
	}, group))
	check(mover.CommitTxn())
	check(mover.BeginTxn())
	send(producer, moves, 0, "undone")
	check(mover.AbortTxn())
	check(mover.BeginTxn())
	send(producer, moves, 0, "moved 2")
	check(mover.CommitTxn())
	check(producer.Close())

	settings = config()
	settings.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(seeds, settings)
	check(err)
	reading, err := consumer.ConsumePartition(moves, 0, sarama.OffsetOldest)
	check(err)
	var values []string
	for len(values) < 3 {
		select {
		case message := <-reading.Messages():
			values = append(values, string(message.Value))
		case <-time.After(30 * time.Second):
			log.Fatalf("only %v", values)
		}
	}
	check(reading.Close())
	check(consumer.Close())
	return values
}

func name(partition int32) string { return strconv.Itoa(int(partition)) }

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}
