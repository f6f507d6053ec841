// A sarama consumer group that marks and commits every record, each partition in a goroutine of its own, and then begins
// again from what is committed: nothing should come twice.
//
// Arguments: see outcome.go; `wait_ms` is how long the second life of the group reads.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type committer struct {
	settings Settings
	mutex    sync.Mutex
	seen     int
	enough   int
	stop     context.CancelFunc
}

func (reader *committer) Setup(sarama.ConsumerGroupSession) error { return nil }

func (reader *committer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (reader *committer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message := <-claim.Messages():
			if message == nil {
				return nil
			}
			said := reader.settings.line("poll")
			said.MessageID, said.Partition, said.Offset = idOf(message), message.Partition, &message.Offset
			said.CompletedAtUs, said.Outcome = nowUs(), "ok"
			said.write()
			session.MarkMessage(message, "")
			session.Commit()
			reader.mutex.Lock()
			reader.seen++
			if reader.seen == reader.enough {
				reader.stop()
			}
			reader.mutex.Unlock()
		case <-session.Context().Done():
			return nil
		}
	}
}

func idOf(message *sarama.ConsumerMessage) string {
	for _, header := range message.Headers {
		if string(header.Key) == "notleader-id" {
			return string(header.Value)
		}
	}
	return string(message.Value)
}

func main() {
	settings := Arguments()
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	life(settings, settings.Integer("messages"), 60*time.Second)
	life(settings, 0, settings.Milliseconds("wait_ms"))
}

// life reads as a member of the group until `enough` records came, or for so long.
func life(settings Settings, enough int, long time.Duration) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_1_0_0
	config.ClientID = settings["client_id"]
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = time.Second
	group, err := sarama.NewConsumerGroup(strings.Split(settings["bootstrap"], ","), settings["group_id"], config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), long)
	defer stop()
	reader := &committer{settings: settings, enough: enough, stop: stop}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{settings["topic"]}, reader); err != nil {
			log.Print(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil {
		log.Print(err)
	}
}
