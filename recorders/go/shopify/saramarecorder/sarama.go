// Package saramarecorder records the producers and consumers of sarama before 1.40, which was Shopify's:
//
//	producer = saramarecorder.Sync(producer, lines)    // or Async
//	config.Consumer.Interceptors = append(config.Consumer.Interceptors, saramarecorder.Consumer(lines))
package saramarecorder

import (
	"errors"
	"sync"

	"github.com/Shopify/sarama"

	"notleader.lab/recorder"
)

const version = "sarama"

// Sync is the producer with each message written down: pending before the call, its outcome after it.
func Sync(producer sarama.SyncProducer, lines *recorder.Lines) sarama.SyncProducer {
	return &syncProducer{producer, named(lines)}
}

type syncProducer struct {
	sarama.SyncProducer
	lines *recorder.Lines
}

func (producer *syncProducer) SendMessage(message *sarama.ProducerMessage) (int32, int64, error) {
	line := called(producer.lines, message)
	partition, offset, err := producer.SyncProducer.SendMessage(message)
	line.Returned()
	producer.lines.Settle(line, partition, offset, err)
	return partition, offset, err
}

func (producer *syncProducer) SendMessages(messages []*sarama.ProducerMessage) error {
	open := make([]*recorder.Line, len(messages))
	for each, message := range messages {
		open[each] = called(producer.lines, message)
	}
	err := producer.SyncProducer.SendMessages(messages)
	failed := map[*sarama.ProducerMessage]error{}
	var several sarama.ProducerErrors
	if errors.As(err, &several) {
		for _, one := range several {
			failed[one.Msg] = one.Err
		}
	}
	for each, message := range messages {
		told := failed[message]
		if err != nil && several == nil {
			told = err
		}
		open[each].Returned()
		producer.lines.Settle(open[each], message.Partition, message.Offset, told)
	}
	return err
}

// Async is the producer with each message written down. Its channels must be read as the configuration demands; a
// message whose success or error is not asked for (Producer.Return) stays "pending".
func Async(producer sarama.AsyncProducer, lines *recorder.Lines) sarama.AsyncProducer {
	async := &asyncProducer{
		AsyncProducer: producer,
		lines:         named(lines),
		input:         make(chan *sarama.ProducerMessage),
		successes:     make(chan *sarama.ProducerMessage),
		errors:        make(chan *sarama.ProducerError),
	}
	go async.pass()
	go async.succeed()
	go async.fail()
	return async
}

type asyncProducer struct {
	sarama.AsyncProducer
	lines     *recorder.Lines
	open      sync.Map // *sarama.ProducerMessage → *recorder.Line
	input     chan *sarama.ProducerMessage
	successes chan *sarama.ProducerMessage
	errors    chan *sarama.ProducerError
}

func (producer *asyncProducer) Input() chan<- *sarama.ProducerMessage     { return producer.input }
func (producer *asyncProducer) Successes() <-chan *sarama.ProducerMessage { return producer.successes }
func (producer *asyncProducer) Errors() <-chan *sarama.ProducerError      { return producer.errors }

// AsyncClose ends the input; what was put into it before still goes out.
func (producer *asyncProducer) AsyncClose() { close(producer.input) }

// Close waits until everything has been told, as sarama's does: successes are thrown away, errors returned.
func (producer *asyncProducer) Close() error {
	producer.AsyncClose()
	go func() {
		for range producer.successes {
		}
	}()
	var failed sarama.ProducerErrors
	for one := range producer.errors {
		failed = append(failed, one)
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

func (producer *asyncProducer) pass() {
	for message := range producer.input {
		producer.open.Store(message, called(producer.lines, message))
		producer.AsyncProducer.Input() <- message
	}
	producer.AsyncProducer.AsyncClose()
}

func (producer *asyncProducer) succeed() {
	for message := range producer.AsyncProducer.Successes() {
		producer.settle(message, nil)
		producer.successes <- message
	}
	close(producer.successes)
}

func (producer *asyncProducer) fail() {
	for failed := range producer.AsyncProducer.Errors() {
		producer.settle(failed.Msg, failed.Err)
		producer.errors <- failed
	}
	close(producer.errors)
}

func (producer *asyncProducer) settle(message *sarama.ProducerMessage, err error) {
	if line, found := producer.open.LoadAndDelete(message); found {
		producer.lines.Settle(line.(*recorder.Line), message.Partition, message.Offset, err)
	}
}

// Consumer writes down each record that a consumer hands out: one of config.Consumer.Interceptors (sarama 1.27.1 and
// later; before it, call OnConsume with each message).
func Consumer(lines *recorder.Lines) Interceptor { return Interceptor{named(lines)} }

// Interceptor is a sarama.ConsumerInterceptor, which sarama before 1.27.1 doesn't know by name.
type Interceptor struct{ lines *recorder.Lines }

// OnConsume writes down one message that was handed out.
func (consumer Interceptor) OnConsume(message *sarama.ConsumerMessage) {
	id := ""
	for _, header := range message.Headers {
		if string(header.Key) == recorder.Header {
			id = string(header.Value)
		}
	}
	consumer.lines.Got(id, message.Topic, message.Partition, message.Offset)
}

func called(lines *recorder.Lines, message *sarama.ProducerMessage) *recorder.Line {
	id := ""
	for _, header := range message.Headers {
		if string(header.Key) == recorder.Header {
			id = string(header.Value)
		}
	}
	if id == "" {
		id = lines.NewID()
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(recorder.Header), Value: []byte(id)})
	}
	// Which partition is the partitioner's to choose: known when acknowledged.
	return lines.Called("send", id, message.Topic, -1)
}

func named(lines *recorder.Lines) *recorder.Lines {
	if lines.ClientVersion == "" {
		lines.ClientVersion = version
	}
	return lines
}
