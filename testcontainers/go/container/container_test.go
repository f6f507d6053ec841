package container

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// What a Docker engine would be asked for; none is here.
func TestEveryBrokerHasAPortOfTheSameNumberOutsideAndInside(t *testing.T) {
	request, err := Request(Settings{Kafka: "kafka:19092", Brokers: 2, FirstPort: 21000, Networks: []string{"shop"}})
	if err != nil {
		t.Fatal(err)
	}
	ports := []string{"8474/tcp", "21000:21000/tcp", "21001:21001/tcp", "21002:21002/tcp"}
	if !slices.Equal(request.ExposedPorts, ports) || request.Env["NOTLEADER_LISTEN"] != "0.0.0.0:21000" {
		t.Fatal(request.ExposedPorts, request.Env)
	}
	if request.Image != "notleader" || !slices.Equal(request.Networks, []string{"shop"}) {
		t.Fatal(request.Image, request.Networks)
	}
}

func TestTheAPIListensForTheTestsWithATokenOfItsOwn(t *testing.T) {
	one, err := Request(Settings{Kafka: "kafka:19092", Advertise: "proxy"})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"NOTLEADER_KAFKA": "kafka:19092", "NOTLEADER_ADVERTISE": "proxy", "NOTLEADER_ADMIN": "0.0.0.0:8474",
	} {
		if one.Env[name] != value {
			t.Error(name, one.Env[name])
		}
	}
	other, _ := Request(Settings{Kafka: "kafka:19092"})
	if one.Env["NOTLEADER_TOKEN"] == "" || one.Env["NOTLEADER_TOKEN"] == other.Env["NOTLEADER_TOKEN"] {
		t.Error("both have the token", one.Env["NOTLEADER_TOKEN"])
	}
	if len(one.ExposedPorts) != 3 || one.WaitingFor == nil {
		t.Error(one.ExposedPorts, one.WaitingFor)
	}
}

func TestAConfigurationIsCopiedAndNamed(t *testing.T) {
	request, err := Request(Settings{Kafka: "kafka:19092", Config: "faults: [{kind: refuse}]"})
	if err != nil {
		t.Fatal(err)
	}
	copied, _ := io.ReadAll(request.Files[0].Reader)
	if request.Cmd[2] != request.Files[0].ContainerFilePath || string(copied) != "faults: [{kind: refuse}]" {
		t.Fatal(request.Cmd, request.Files)
	}
	if err := request.Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutBrokersItSaysWhatIsMissing(t *testing.T) {
	if _, err := Request(Settings{}); err == nil || !strings.Contains(err.Error(), "Settings{Kafka:") {
		t.Fatal(err)
	}
	if _, err := Request(Settings{Kafka: "kafka:19092", Brokers: -1}); err == nil {
		t.Fatal("a cluster of -1 brokers")
	}
}
