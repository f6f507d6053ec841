// Package kgorecorder records a franz-go client: kgo.NewClient(…, kgo.WithHooks(kgorecorder.New(lines))).
//
// A franz-go that is too old for hooks on records never calls them: there, and wherever the time that Produce takes
// matters, call hooks.Produce in the place of client.Produce.
package kgorecorder

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"notleader.lab/recorder"
)

// Hooks writes down each record produced and each record polled; the other hooks of kgo are not used.
//
// When Produce returned is nothing that a hook gets to know: what goes through Hooks.Produce says that too.
type Hooks struct {
	lines *recorder.Lines
	open  sync.Map // *kgo.Record → *recorder.Line
}

// New makes the hooks of one client.
func New(lines *recorder.Lines) *Hooks {
	if lines.ClientVersion == "" {
		lines.ClientVersion = "franz-go"
	}
	return &Hooks{lines: lines}
}

// OnProduceRecordBuffered is called by franz-go when a record was handed to it.
func (hooks *Hooks) OnProduceRecordBuffered(record *kgo.Record) {
	if _, found := hooks.open.Load(record); !found {
		hooks.open.Store(record, hooks.called(record))
	}
}

// Produce is client.Produce with the record written down, when the call returned included; with any franz-go.
func (hooks *Hooks) Produce(
	ctx context.Context, client *kgo.Client, record *kgo.Record, promise func(*kgo.Record, error),
) {
	line := hooks.called(record)
	hooks.open.Store(record, line)
	client.Produce(ctx, record, func(told *kgo.Record, err error) {
		hooks.OnProduceRecordUnbuffered(told, err)
		if promise != nil {
			promise(told, err)
		}
	})
	line.Returned()
}

func (hooks *Hooks) called(record *kgo.Record) *recorder.Line {
	id := idIn(record)
	if id == "" {
		id = hooks.lines.NewID()
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: recorder.Header, Value: []byte(id)})
	}
	// The partition is franz-go's to choose, unless it is told by the manual partitioner: known when acknowledged.
	return hooks.lines.Called("send", id, record.Topic, -1)
}

// OnProduceRecordUnbuffered is called by franz-go when a record's promise is about to be called.
func (hooks *Hooks) OnProduceRecordUnbuffered(record *kgo.Record, err error) {
	if line, found := hooks.open.LoadAndDelete(record); found {
		hooks.lines.Settle(line.(*recorder.Line), record.Partition, record.Offset, err)
	}
}

// OnFetchRecordUnbuffered is called by franz-go when a fetched record leaves its buffer, polled or thrown away.
func (hooks *Hooks) OnFetchRecordUnbuffered(record *kgo.Record, polled bool) {
	if polled {
		hooks.lines.Got(idIn(record), record.Topic, record.Partition, record.Offset)
	}
}

// Committed fits kgo.AutoCommitCallback and the callbacks of CommitOffsets and CommitOffsetsSync.
func (hooks *Hooks) Committed(
	_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
) {
	codes := map[string]map[int32]int16{}
	if response != nil {
		for _, topic := range response.Topics {
			answered := map[int32]int16{}
			for _, partition := range topic.Partitions {
				answered[partition.Partition] = partition.ErrorCode
			}
			codes[nameOf(topic.Topic, topic)] = answered
		}
	}
	for _, topic := range request.Topics {
		answered, named := codes[topic.Topic]
		if !named {
			answered = codes[nameOf("", topic)]
		}
		for _, partition := range topic.Partitions {
			told := err
			if told == nil {
				code, there := answered[partition.Partition]
				if told = kerr.ErrorForCode(code); !there {
					told = errUnanswered
				}
			}
			if told != context.Canceled {
				hooks.lines.Committed(topic.Topic, partition.Partition, partition.Offset, told)
			}
		}
	}
}

var errUnanswered = errors.New("the answer does not speak of this partition")

// nameOf is the name of a topic of a commit or of its answer, else its TopicID: from version 10 on an answer has no name.
// Older kmsg has no such field.
func nameOf(name string, topic interface{}) string {
	if id := reflect.ValueOf(topic).FieldByName("TopicID"); name == "" && id.IsValid() {
		return fmt.Sprint(id.Interface())
	}
	return name
}

func idIn(record *kgo.Record) string {
	for _, header := range record.Headers {
		if header.Key == recorder.Header {
			return string(header.Value)
		}
	}
	return ""
}
