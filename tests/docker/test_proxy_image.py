"""The proxy's image: built and run as its Dockerfile says, by an unprivileged user on a read-only root."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.ports import free_ports
from tests.docker.image import Image, process_one

pytestmark = pytest.mark.kafka
UID = 10001


@contextlib.contextmanager
def running(image: Image, env: dict[str, str], volume: Path) -> Iterator[subprocess.Popen[str]]:
    """ENTRYPOINT and CMD, with a JSON line when ready."""
    words = [*image.stage.words("ENTRYPOINT"), *image.stage.words("CMD"), "--json"]
    process = image.start(words, env, volumes={"/capture": volume})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def volume(folder: Path) -> Path:
    made = folder / f"volume-{time.monotonic_ns()}"
    made.mkdir()
    os.chown(made, UID, UID)
    return made


@pytest.fixture(scope="package")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster("4") as cluster:
        yield cluster


def test_it_serves_is_healthy_and_ends_with_0(proxy_image: Image, kafka: KafkaCluster, volume: Path) -> None:
    listen, admin, broker = free_ports(3)
    env = {
        "NOTLEADER_KAFKA": kafka.bootstrap,
        "NOTLEADER_LISTEN": f"0.0.0.0:{listen}",
        "NOTLEADER_BROKER_PORTS": str(broker),
        "NOTLEADER_ADVERTISE": "localhost",
        "NOTLEADER_ADMIN": f"0.0.0.0:{admin}",
        "NOTLEADER_TOKEN": "s3cret",
        "NOTLEADER_CAPTURE": "/capture/traffic",
    }
    with running(proxy_image, env, volume) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["listen"] == f"0.0.0.0:{listen}"

        status = Path(f"/proc/{process_one(process)}/status").read_text()
        assert f"Uid:\t{UID}\t{UID}\t{UID}\t{UID}" in status
        assert "CapEff:\t0000000000000000" in status
        assert "NSpid:\t" + f"{process_one(process)}\t1" in status

        code, out, err = proxy_image.run(proxy_image.stage.words("HEALTHCHECK"), env)
        assert (code, err) == (0, "")
        assert json.loads(out) == {"status": "ready"}

        # The image carries an aiokafka: the application of compose.yaml runs in it.
        app = Path(__file__).parents[2] / "docker/app/app.py"
        (volume / "app.py").write_text(app.read_text())
        code, out, err = proxy_image.run(
            ["python", "/capture/app.py"],
            {"BOOTSTRAP": f"localhost:{listen}", "ORDERS": "3"},
            volumes={"/capture": volume},
        )
        said = [json.loads(line)["name"] for line in out.splitlines()]
        assert said == ["startup_complete", *["producer_send_success"] * 3, "shutdown_complete"], err

        os.kill(process_one(process), signal.Signals[proxy_image.stage.settings["STOPSIGNAL"]])
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    segments = list((volume / "traffic").rglob("*.parquet"))
    assert segments
    assert {segment.stat().st_uid for segment in segments} == {UID}


def test_it_is_not_healthy_without_a_kafka(proxy_image: Image, volume: Path) -> None:
    listen, admin, nowhere = free_ports(3)
    env = {
        "NOTLEADER_KAFKA": f"127.0.0.1:{nowhere}",
        "NOTLEADER_LISTEN": f"127.0.0.1:{listen}",
        "NOTLEADER_ADMIN": f"127.0.0.1:{admin}",
    }
    check = proxy_image.stage.words("HEALTHCHECK")
    assert proxy_image.run(check, env)[0] == 1
    with running(proxy_image, env, volume) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["brokers"] == {}
        code, out, _ = proxy_image.run(check, env)
        assert code == 1
        assert "not-ready" in out
        assert proxy_image.run([*check, "/healthz"], env)[0] == 0
        # As the proxy itself takes an address: without a host, and as none.
        assert proxy_image.run([*check, "/healthz"], env | {"NOTLEADER_ADMIN": f":{admin}"})[0] == 0
        assert proxy_image.run(check, env | {"NOTLEADER_ADMIN": "none"})[0] == 0
        os.kill(process_one(process), signal.SIGTERM)
        assert process.wait(120) == 0


def test_an_open_api_without_a_token_is_refused(proxy_image: Image, kafka: KafkaCluster, volume: Path) -> None:
    listen, admin = free_ports(2)
    env = {
        "NOTLEADER_KAFKA": kafka.bootstrap,
        "NOTLEADER_LISTEN": f"0.0.0.0:{listen}",
        "NOTLEADER_ADMIN": f"0.0.0.0:{admin}",
    }
    with running(proxy_image, env, volume) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "set a token" in err


def test_nothing_can_be_written_or_installed(proxy_image: Image) -> None:
    for words in (["touch", "here"], ["touch", "/opt/notleader/x"], ["touch", "/etc/x"]):
        code, _, err = proxy_image.run(words)
        assert code != 0, words
        assert "Read-only file system" in err or "Permission denied" in err
    assert proxy_image.run(["python", "-c", "import pip"])[0] != 0
    # No source tree within reach, and still all of it.
    code, out, err = proxy_image.run(["notleader", "fault", "kinds", "--json"])
    assert code == 0, err
    assert len(json.loads(out)) > 20


def test_the_image_has_the_compiled_path_and_no_compiler(proxy_image: Image) -> None:
    asked = "import notleader.proxy.pump as p; print(p.IS_NATIVE, p.native.__file__)"
    code, out, err = proxy_image.run(["python", "-c", asked])
    assert code == 0, err
    assert out.startswith("True /opt/notleader/")
    packages = [rest for _, rest in proxy_image.stage.steps if "apt-get" in rest]
    assert not packages, "what is installed there is what runs"


def test_the_image_lists_what_is_in_it(proxy_image: Image) -> None:
    bill = json.loads(proxy_image.path("/opt/notleader/sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    names = {component["name"] for component in bill["components"]}
    assert {"notleader", "uvloop", "aiokafka", "pyarrow"} <= names
    assert not {"pip", "pyspark", "cyclonedx-bom"} & names
