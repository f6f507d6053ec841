"""What the schemas of the compose file and the manifests can't see: that they fit the images and the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from notleader.faults.schema import parse_faults
from notleader.proxy.config.settings import Settings
from tests.docker.dockerfile import parse
from tests.docker.image import PROJECT

DOCKER = PROJECT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
OURS = [name for name, service in COMPOSE["services"].items() if service["image"].startswith("notleader")]
KNOWN = {"NOTLEADER_" + name.upper() for name in Settings.model_fields} | {"NOTLEADER_TOKEN"}


def documents(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DOCKER / "kubernetes" / file).read_text()))


def pod(file: str) -> dict[str, Any]:
    (deployment,) = (entry for entry in documents(file) if entry["kind"] == "Deployment")
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def containers(file: str) -> list[dict[str, Any]]:
    spec = pod(file)
    return [*spec.get("initContainers", []), *spec["containers"]]


@pytest.mark.parametrize("image", ["proxy", "spark"])
def test_images_run_as_nobody_and_get_signals(image: str) -> None:
    final = parse(DOCKER / image / "Dockerfile")[-1]
    assert final.settings["USER"] == "10001:10001"
    assert final.settings["STOPSIGNAL"] == "SIGTERM"
    assert final.words("ENTRYPOINT")  # the exec form: no shell that keeps SIGTERM to itself
    assert final.words("CMD")


def test_both_images_are_built_alike() -> None:
    """So that what is shown by building the one holds for the other, but that nothing is compiled there."""
    proxy, spark = (parse(DOCKER / image / "Dockerfile")[0] for image in ("proxy", "spark"))
    pure = [
        (
            name,
            text.replace("NOTLEADER_PURE=1 ", "").replace("[analysis]'", "[capture]'"),
        )
        for name, text in spark.steps
    ]
    assert pure == [step for step in proxy.steps if "gcc" not in step[1]]
    assert len(proxy.steps) == len(spark.steps) + 1
    assert spark.base == proxy.base


@pytest.mark.parametrize("name", OURS)
def test_services_are_locked_down(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_no_service_takes_all_the_memory_there_is(name: str) -> None:
    assert COMPOSE["services"][name]["deploy"]["resources"]["limits"]["memory"]


def test_the_application_reaches_kafka_only_through_the_proxy() -> None:
    networks = {name: set(service["networks"]) for name, service in COMPOSE["services"].items()}
    assert not networks["app"] & networks["kafka"]
    assert networks["notleader"] == networks["app"] | networks["kafka"]


def test_brokers_have_a_listener_of_their_own() -> None:
    kafka = COMPOSE["services"]["kafka"]["environment"]
    listeners = dict(entry.split("://") for entry in kafka["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert listeners["CLIENT"] == COMPOSE["services"]["notleader"]["environment"]["NOTLEADER_KAFKA"]
    assert kafka["KAFKA_INTER_BROKER_LISTENER_NAME"] == "INTERNAL"
    assert listeners["INTERNAL"] != listeners["CLIENT"]


def test_every_variable_is_a_setting() -> None:
    given = set(COMPOSE["services"]["notleader"]["environment"])
    for file in ("sidecar.yaml", "standalone.yaml"):
        for container in containers(file):
            given |= {entry["name"] for entry in container.get("env", []) if container["name"] == "notleader"}
    assert given
    assert given <= KNOWN


@pytest.mark.parametrize("file", ["sidecar.yaml", "standalone.yaml"])
def test_pods_are_restricted(file: str) -> None:
    """The profile "restricted" of Kubernetes' Pod Security Standards, and a read-only root."""
    security = pod(file)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 10001
    assert security["seccompProfile"]["type"] == "RuntimeDefault"
    for container in containers(file):
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"]["drop"] == ["ALL"]
    (proxy,) = (container for container in containers(file) if container["name"] == "notleader")
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= proxy.keys()
    (capture,) = (volume for volume in pod(file)["volumes"] if volume["name"] == "capture")
    assert "emptyDir" in capture


def test_an_api_beyond_loopback_has_a_token() -> None:
    for file in ("sidecar.yaml", "standalone.yaml"):
        (proxy,) = (container for container in containers(file) if container["name"] == "notleader")
        env = {entry["name"]: entry for entry in proxy["env"]}
        assert env["NOTLEADER_ADMIN"]["value"].startswith("127.0.0.1:") or "NOTLEADER_TOKEN" in env
    assert "NOTLEADER_TOKEN" in COMPOSE["services"]["notleader"]["environment"]


@pytest.mark.parametrize("file", ["sidecar.yaml", "standalone.yaml"])
def test_the_rules_in_config_maps_are_rules(file: str) -> None:
    (config,) = (entry for entry in documents(file) if entry["kind"] == "ConfigMap")
    for text in config["data"].values():
        parse_faults(yaml.safe_load(text)["faults"])


def test_mounted_files_exist() -> None:
    for name in OURS:
        for volume in COMPOSE["services"][name].get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert Path(DOCKER / source).exists(), volume
