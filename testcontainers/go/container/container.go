// Package container is notleader as a container of Testcontainers.
package container

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"strings"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	notleader "notleader.lab/testcontainers"
)

const (
	adminPort  = "8474/tcp"
	configPath = "/tmp/notleader.yaml"
)

// Settings says what stands in front of what. Kafka is needed.
//
// Kafka's clients are sent on from the bootstrap address to a port for each broker, which must have the same number
// outside as inside. So free ports of this machine are chosen unless FirstPort names others, as it must where the
// Docker engine is on another machine.
type Settings struct {
	Image     string   // what `docker build -f docker/proxy/Dockerfile` made, or a released image; "notleader" when empty
	Kafka     string   // where the brokers are, HOST:PORT[,HOST:PORT…], as the container reaches them
	Brokers   int      // how many there are, node ids in order; 1 when 0
	Networks  []string // the container's networks
	Advertise string   // the host that clients are told; "localhost" when empty
	FirstPort int      // the bootstrap's port; the brokers get those after it
	Config    string   // a configuration file in YAML, in force before the first client
}

// Container is a notleader that serves clients.
type Container struct {
	testcontainers.Container
	Client           *notleader.Client
	Admin            string // the HTTP API's address
	Token            string // what it asks for
	BootstrapServers string // what clients get in place of the brokers' address
}

// Run starts a notleader and waits until it serves clients.
func Run(ctx context.Context, settings Settings) (*Container, error) {
	request, err := Request(settings)
	if err != nil {
		return nil, err
	}
	started, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: request,
		Started:          true,
	})
	if err != nil {
		// What was made so far is for testcontainers.CleanupContainer, which takes nothing, too.
		return &Container{Container: started}, err
	}
	admin, err := started.PortEndpoint(ctx, adminPort, "http")
	token, first := request.Env["NOTLEADER_TOKEN"], request.Env["NOTLEADER_LISTEN"]
	return &Container{
		Container:        started,
		Client:           notleader.NewClient(admin, token),
		Admin:            admin,
		Token:            token,
		BootstrapServers: request.Env["NOTLEADER_ADVERTISE"] + first[strings.LastIndex(first, ":"):],
	}, err
}

// Request is what Run asks the Docker engine for, with a token of its own.
func Request(settings Settings) (testcontainers.ContainerRequest, error) {
	if settings.Kafka == "" {
		return testcontainers.ContainerRequest{}, fmt.Errorf(`notleader: say where the brokers are: Settings{Kafka: "kafka:19092"}`)
	}
	if settings.Brokers < 0 {
		return testcontainers.ContainerRequest{}, fmt.Errorf("notleader: a cluster has no %d brokers", settings.Brokers)
	}
	ports := max(settings.Brokers, 1) + 1
	first := settings.FirstPort
	if first == 0 {
		var err error
		if first, err = freePorts(ports); err != nil {
			return testcontainers.ContainerRequest{}, err
		}
	}
	request := testcontainers.ContainerRequest{
		Image:        or(settings.Image, "notleader"),
		Networks:     settings.Networks,
		ExposedPorts: []string{adminPort},
		Env: map[string]string{
			"NOTLEADER_KAFKA":     settings.Kafka,
			"NOTLEADER_LISTEN":    fmt.Sprintf("0.0.0.0:%d", first),
			"NOTLEADER_ADVERTISE": or(settings.Advertise, "localhost"),
			"NOTLEADER_ADMIN":     "0.0.0.0:8474",
			"NOTLEADER_TOKEN":     rand.Text(),
		},
		WaitingFor: wait.ForHTTP("/readyz").WithPort(adminPort),
	}
	for port := first; port < first+ports; port++ {
		request.ExposedPorts = append(request.ExposedPorts, fmt.Sprintf("%d:%d/tcp", port, port))
	}
	if settings.Config != "" {
		request.Cmd = []string{"run", "--config", configPath}
		request.Files = []testcontainers.ContainerFile{{
			Reader: strings.NewReader(settings.Config), ContainerFilePath: configPath, FileMode: 0o644,
		}}
	}
	return request, nil
}

// freePorts gives the first of so many ports in a row that nobody here listens on, below those that the system gives
// out by itself.
func freePorts(count int) (int, error) {
	for range 100 {
		first := 20_000 + mathrand.IntN(12_000-count)
		if free(first, count) {
			return first, nil
		}
	}
	return 0, fmt.Errorf("notleader: no %d free ports in a row: name the first in Settings.FirstPort", count)
}

func free(first, count int) bool {
	for port := first; port < first+count; port++ {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return false
		}
		defer listener.Close()
	}
	return true
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
