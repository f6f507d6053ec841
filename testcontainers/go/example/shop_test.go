package shop

import (
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
	"github.com/twmb/franz-go/pkg/kgo"

	notleader "notleader.lab/testcontainers"
	"notleader.lab/testcontainers/container"
)

func TestASendSurvivesALeaderElection(t *testing.T) {
	proxy := container.ForTest(t, kafka)
	_, err := proxy.Client.Add(t.Context(),
		notleader.Error("NOT_LEADER_OR_FOLLOWER").Name("election").
			Match(notleader.Match{}.APIKey("Produce").Topic("orders")).
			Trigger(notleader.Trigger{}.Times(1)))
	if err != nil {
		t.Fatal(err)
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(proxy.BootstrapServers), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sent := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("paid")})
	if err := sent.FirstErr(); err != nil {
		t.Fatal(err)
	}

	if _, err := proxy.Client.WaitForHits(t.Context(), "election", 1, 10*time.Second); err != nil {
		t.Fatal(err)
	}
}

// kafka starts a broker in a network of its own, and says where notleader finds it.
func kafka(t testing.TB) container.Settings {
	shop, err := network.New(t.Context())
	testcontainers.CleanupNetwork(t, shop)
	if err != nil {
		t.Fatal(err)
	}
	broker, err := testcontainers.Run(t.Context(), "apache/kafka-native:4.1.0",
		network.WithNetwork([]string{"kafka"}, shop),
		testcontainers.WithEnv(map[string]string{
			"KAFKA_NODE_ID":                          "1",
			"KAFKA_PROCESS_ROLES":                    "broker,controller",
			"KAFKA_LISTENERS":                        "PLAINTEXT://:19092,CONTROLLER://:9093",
			"KAFKA_ADVERTISED_LISTENERS":             "PLAINTEXT://kafka:19092",
			"KAFKA_CONTROLLER_LISTENER_NAMES":        "CONTROLLER",
			"KAFKA_CONTROLLER_QUORUM_VOTERS":         "1@localhost:9093",
			"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
		}),
		testcontainers.WithWaitStrategy(wait.ForLog("Kafka Server started")))
	testcontainers.CleanupContainer(t, broker)
	if err != nil {
		t.Fatal(err)
	}
	return container.Settings{Kafka: "kafka:19092", Networks: []string{shop.Name}}
}
