// Package recorder writes down what a Kafka client was asked and what it said, as outcome lines for notleader's
// analysis. The subpackages saramarecorder and kgorecorder hook it into sarama and franz-go with one line each.
package recorder

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Header is the record header that carries a message's id; the proxy's capture and every consumer read it.
const Header = "notleader-id"

// Line is one outcome line; times are in µs since the epoch, UTC, and nil is left out.
type Line struct {
	Client        string  `json:"client"`
	ClientVersion string  `json:"client_version,omitempty"`
	GroupID       string  `json:"group_id,omitempty"`
	BudgetMs      int64   `json:"budget_ms,omitempty"`
	Operation     string  `json:"operation"`
	MessageID     *string `json:"message_id,omitempty"`
	Topic         string  `json:"topic"`
	Partition     *int32  `json:"partition,omitempty"`
	Offset        *int64  `json:"offset,omitempty"`
	CalledAtUs    int64   `json:"called_at_us,omitempty"`
	ReturnedAtUs  int64   `json:"returned_at_us,omitempty"`
	CompletedAtUs int64   `json:"completed_at_us,omitempty"`
	Outcome       string  `json:"outcome"`
	Error         string  `json:"error,omitempty"`
	Thread        string  `json:"thread,omitempty"`

	// Set by the caller while the client's own goroutine may settle the line.
	returned *int64
}

// Lines appends the outcome lines of one client to a file; several clients and processes may share it.
type Lines struct {
	number int64 // first, where 32-bit machines align it

	// ClientVersion, GroupID and BudgetMs (how long a send may take) go into every line when they are set.
	ClientVersion string
	GroupID       string
	BudgetMs      int64

	client string
	prefix string
	mutex  sync.Mutex
	file   *os.File
}

// Open makes the Lines of the client that reports shall call by this name.
func Open(path, client string) (*Lines, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("outcome lines: %w", err)
	}
	prefix := client + "-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-"
	return &Lines{client: client, prefix: prefix, file: file}, nil
}

// Close closes the file; what is written to it later is lost.
func (lines *Lines) Close() error { return lines.file.Close() }

// NewID is an id for a message, which no other message has.
func (lines *Lines) NewID() string {
	return lines.prefix + strconv.FormatInt(atomic.AddInt64(&lines.number, 1), 10)
}

// Called writes "pending" and gives the line to finish with Settle.
func (lines *Lines) Called(operation, messageID, topic string, partition int32) *Line {
	line := lines.line(operation, topic)
	line.MessageID, line.CalledAtUs, line.Outcome = &messageID, now(), "pending"
	if partition >= 0 {
		line.Partition = &partition
	}
	lines.write(line)
	return line
}

// Settle writes the operation's last word: the place it was acknowledged at, or the error.
func (lines *Lines) Settle(line *Line, partition int32, offset int64, err error) {
	done := *line
	done.ReturnedAtUs, done.CompletedAtUs, done.Outcome = atomic.LoadInt64(line.returned), now(), "ok"
	if err != nil {
		done.Outcome, done.Error = ended(err), fmt.Sprintf("%T: %v", err, err)
	} else if offset >= 0 {
		done.Partition, done.Offset = &partition, &offset
	}
	lines.write(&done)
}

// Returned notes that the call gave its caller back, for the line's last word.
func (line *Line) Returned() { atomic.StoreInt64(line.returned, now()) }

// Got writes down a record that a consumer was handed; messageID is empty when it has none.
func (lines *Lines) Got(messageID, topic string, partition int32, offset int64) {
	line := lines.line("poll", topic)
	if messageID != "" {
		line.MessageID = &messageID
	}
	line.Partition, line.Offset, line.CompletedAtUs, line.Outcome = &partition, &offset, now(), "ok"
	lines.write(line)
}

// Committed writes down a commit: offset is where the group goes on.
func (lines *Lines) Committed(topic string, partition int32, offset int64, err error) {
	line := lines.line("commit", topic)
	line.Partition, line.Offset, line.CompletedAtUs, line.Outcome = &partition, &offset, now(), "ok"
	if err != nil {
		line.Outcome, line.Error = ended(err), fmt.Sprintf("%T: %v", err, err)
	}
	lines.write(line)
}

func (lines *Lines) line(operation, topic string) *Line {
	return &Line{
		Client: lines.client, ClientVersion: lines.ClientVersion, GroupID: lines.GroupID, BudgetMs: lines.BudgetMs,
		Operation: operation, Topic: topic, returned: new(int64),
	}
}

// A line that can't be written is reported on stderr: a recorder never breaks the client it watches.
func (lines *Lines) write(line *Line) {
	text, err := json.Marshal(line)
	if err == nil {
		lines.mutex.Lock()
		_, err = lines.file.Write(append(text, '\n'))
		lines.mutex.Unlock()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notleader recorder:", err)
	}
}

func now() int64 { return time.Now().UnixMicro() }
