"""The Helm chart: linted, its output valid Kubernetes, and the same deployments as the plain manifests."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from notleader.faults.schema import parse_faults
from notleader.proxy.config.settings import Settings
from tests.docker.image import PROJECT

CHART = PROJECT / "docker/helm/notleader"
KUBERNETES = "1.34"
SIDECAR = {
    "mode": "sidecar",
    "kafka": "kafka.svc:9092",
    "app": {"containers": [{"name": "orders", "image": "registry.example/orders:1"}]},
    "config": {"seed": 7, "faults": [{"name": "late", "kind": "delay", "delay_ms": 200}]},
}
STANDALONE = {"kafka": "a:9092,b:9092", "brokers": 5, "env": [{"name": "NOTLEADER_SEED", "value": "7"}]}
STORED = {"kafka": "a:9092", "capture": {"url": "s3://bucket/x"}, "token": {"existingSecret": "mine"}}


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    helm = Path(sys.executable).parent / "helm"
    return subprocess.run([helm, *words], capture_output=True, text=True, timeout=120)


def written(values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    made = ran("template", "shop", str(CHART), "--kube-version", KUBERNETES, "--values", str(folder / "values.yaml"))
    assert made.returncode == 0, made.stderr
    (folder / "made.yaml").write_text(made.stdout)
    return [document for document in yaml.safe_load_all(made.stdout) if document]


def proxy_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = (entry for entry in documents if entry["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (found,) = (one for one in [*pod.get("initContainers", []), *pod["containers"]] if one["name"] == "notleader")
    container: dict[str, Any] = found
    return container


def test_the_chart_is_linted() -> None:
    linted = ran("lint", "--strict", str(CHART), "--set", "kafka=k:9092")
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize("values", [SIDECAR, STANDALONE, STORED], ids=["sidecar", "standalone", "stored"])
def test_what_it_makes_is_valid_and_locked_down(values: dict[str, Any], tmp_path: Path) -> None:
    documents = written(values, tmp_path)
    validate = [str(Path(sys.executable).parent / "kubernetes-validate"), "--strict", "-k", KUBERNETES]
    valid = subprocess.run([*validate, str(tmp_path / "made.yaml")], capture_output=True, text=True, timeout=120)
    assert valid.returncode == 0, valid.stdout + valid.stderr
    proxy = proxy_of(documents)
    assert proxy["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    names = {entry["name"] for entry in proxy["env"]}
    assert names <= {"NOTLEADER_" + name.upper() for name in Settings.model_fields} | {"NOTLEADER_TOKEN"}
    env = {entry["name"]: entry.get("value") for entry in proxy["env"]}
    assert env["NOTLEADER_ADMIN"].startswith("127.0.0.1:") or "NOTLEADER_TOKEN" in env
    (config,) = (entry for entry in documents if entry["kind"] == "ConfigMap")
    parse_faults(yaml.safe_load(config["data"]["notleader.yaml"])["faults"])


def env_of(values: dict[str, Any], folder: Path) -> dict[str, str]:
    return {entry["name"]: entry.get("value") for entry in proxy_of(written(values, folder))["env"]}


GIBIBYTE = 1 << 30


def test_what_the_volume_is_to_hold_fits_into_it(tmp_path: Path) -> None:
    """With a quarter to spare: what is to be kept is looked at now and then, and a segment grows beside its journal."""
    plain = env_of(STANDALONE, tmp_path)
    kept, waiting = plain["NOTLEADER_CAPTURE_KEEP_BYTES"], plain["NOTLEADER_CAPTURE_JOURNAL_BYTES"]
    assert int(kept) + int(waiting) <= 0.75 * GIBIBYTE
    spooled = int(env_of(STORED, tmp_path)["NOTLEADER_CAPTURE_SPOOL_BYTES"])
    assert 2 * spooled <= 0.75 * GIBIBYTE
    for manifest, limit in (("sidecar", 1), ("standalone", 2)):
        documents = list(yaml.safe_load_all((PROJECT / f"docker/kubernetes/{manifest}.yaml").read_text()))
        env = {entry["name"]: entry.get("value") for entry in proxy_of(documents)["env"]}
        (volume,) = (
            volume["emptyDir"]
            for entry in documents
            if entry["kind"] == "Deployment"
            for volume in entry["spec"]["template"]["spec"]["volumes"]
            if "emptyDir" in volume
        )
        assert volume == {"sizeLimit": f"{limit}Gi"}
        together = int(env["NOTLEADER_CAPTURE_KEEP_BYTES"]) + int(env["NOTLEADER_CAPTURE_JOURNAL_BYTES"])
        assert together <= (limit - 0.25) * GIBIBYTE


def test_at_a_shared_store_nothing_is_deleted_unless_that_is_asked_for(tmp_path: Path) -> None:
    env = env_of(STORED, tmp_path)
    assert "NOTLEADER_CAPTURE_KEEP_BYTES" not in env
    assert "NOTLEADER_CAPTURE_JOURNAL_BYTES" not in env
    asked = {**STORED, "capture": {"url": "s3://bucket/x", "keepBytes": 7_000_000}}
    assert env_of(asked, tmp_path)["NOTLEADER_CAPTURE_KEEP_BYTES"] == "7000000"


def test_each_broker_has_its_port(tmp_path: Path) -> None:
    documents = written(STANDALONE, tmp_path)
    (service,) = (entry for entry in documents if entry["kind"] == "Service")
    served = [port["containerPort"] for port in proxy_of(documents)["ports"]]
    assert [port["port"] for port in service["spec"]["ports"]] == served == [*range(9092, 9098), 8474]


def test_a_secret_is_made_unless_one_is_there(tmp_path: Path) -> None:
    assert [entry["kind"] for entry in written(STANDALONE, tmp_path)].count("Secret") == 1
    assert not [entry for entry in written(STORED, tmp_path) if entry["kind"] == "Secret"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        # Up to Helm 3.17 with dots, and then as JSON pointers.
        ({}, "kafka'?:"),
        ({"kafka": "nowhere"}, "kafka'?:"),
        ({"kafka": "k:9092", "mode": "sidecar"}, "app[./]containers'?:"),
        ({"kafka": "k:9092", "capture": {"levle": "record"}}, "levle"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    made = ran("template", "x", str(CHART), "--kube-version", KUBERNETES, "--values", str(tmp_path / "values.yaml"))
    assert made.returncode == 1
    assert re.search(says, made.stderr), made.stderr


def test_chart_manifests_and_docs_speak_of_the_same_image() -> None:
    """What docs build is `notleader`, and a release tags it with the version."""
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
    for manifest in (PROJECT / "docker/kubernetes").glob("*.yaml"):
        assert f"image: notleader:{version}" in manifest.read_text()
    page = (PROJECT / "docs/how-to/sidecar.md").read_text()
    assert f"docker build -f docker/proxy/Dockerfile -t notleader:{version} ." in page
