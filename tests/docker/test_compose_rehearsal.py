"""compose.yaml played through on one machine: the proxy, the application and the analysis in their images."""

from __future__ import annotations

import json
import os
import signal
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.ports import free_ports
from tests.docker.dockerfile import parse
from tests.docker.image import PROJECT, Image, process_one

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.rehearsal]
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker/compose.yaml").read_text())["services"]
HERE = Path(sysconfig.get_path("purelib"))
THERE = "/opt/notleader/lib/python" + sysconfig.get_python_version() + "/site-packages"


def test_the_analysis_tells_what_the_fault_did(proxy_image: Image, folder: Path) -> None:
    """PySpark is borrowed from these tests' own environment: downloading its 450 MB again would prove little."""
    volumes = {"/capture": folder / "capture", "/work": folder / "report"}
    for made in volumes.values():
        made.mkdir()
        os.chown(made, 10001, 10001)
    for inside in ("/etc/notleader", "/app", "/work"):
        proxy_image.path(inside).mkdir(parents=True)
    code = {"/etc/notleader": PROJECT / "docker/app", "/app": PROJECT / "docker/app"}

    listen, admin, broker = free_ports(3)
    with KafkaCluster("4") as kafka:
        kafka.create_topic("orders", partitions=1)
        env = {
            **COMPOSE["notleader"]["environment"],
            "NOTLEADER_KAFKA": kafka.bootstrap,
            "NOTLEADER_LISTEN": f"0.0.0.0:{listen}",
            "NOTLEADER_BROKER_PORTS": str(broker),
            "NOTLEADER_ADVERTISE": "localhost",
            "NOTLEADER_ADMIN": f"127.0.0.1:{admin}",
            "NOTLEADER_TOKEN": "t",
        }
        entry = proxy_image.stage.words("ENTRYPOINT")
        proxy = proxy_image.start([*entry, *COMPOSE["notleader"]["command"], "--json"], env, {**volumes, **code})
        try:
            assert proxy.stdout is not None
            json.loads(proxy.stdout.readline())
            app_env = {**COMPOSE["app"]["environment"], "BOOTSTRAP": f"localhost:{listen}", "ORDERS": "70"}
            ran = proxy_image.run(COMPOSE["app"]["entrypoint"], app_env, volumes={**volumes, **code})
            assert ran[0] == 0, ran[2]
        finally:
            os.kill(process_one(proxy), signal.SIGTERM)
            _, err = proxy.communicate(timeout=120)
        assert proxy.returncode == 0, err
        assert "never hit" not in err

    final = parse(PROJECT / "docker/spark/Dockerfile")[-1]
    for package in ("pyspark", "py4j"):
        proxy_image.path(f"{THERE}/{package}").mkdir()
        volumes[f"{THERE}/{package}"] = HERE / package
    java = proxy_image.path(final.env["JAVA_HOME"])
    java.parent.mkdir(parents=True)
    java.symlink_to(find_java().home)
    volumes["/tmp"] = folder / "tmp"
    volumes["/tmp"].mkdir(mode=0o777)
    volumes["/tmp"].chmod(0o1777)
    spark_env = {name: value for name, value in final.env.items() if name != "PATH"}
    words = [*final.words("ENTRYPOINT"), *COMPOSE["analysis"]["command"], "--json"]
    returned, out, err = proxy_image.run(words, spark_env, volumes=volumes)
    assert returned in (0, 1), err
    assert json.loads(out)
    report = (folder / "report/report/report.html").read_text()
    assert "lost-leader" in report
