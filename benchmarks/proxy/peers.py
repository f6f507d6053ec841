"""The proxies that notleader is measured against, from the package registries that offer them.

Each gets the least configuration that forwards one listener to the broker, with the settings that someone who cares
for its speed would give it (nginx's buffer of 16 KiB is for small messages), and one worker where it has to be told.
What can't be had is skipped with a reason; nothing is installed into the system.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.proxy.cache import bench_folder, command, required
from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.targets import HOST, Start, Target, connections_to_hold
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.java import find_java

TOXIPROXY_VERSION = "v2.12.0"
KAFKA_PROXY_VERSION = "v0.2.8"  # the newest that the Go module proxy gave: later ones were 403 Forbidden
KROXYLICIOUS_VERSION = "0.12.0"
_MOST_CONNECTIONS = 12_000
_MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def toxiproxy() -> Target:
    """Toxiproxy, from the Go module proxy."""
    program = _go_program("toxiproxy", "github.com/Shopify/toxiproxy/v2", TOXIPROXY_VERSION, "/cmd/server")

    def start(broker_port: int, listen_port: int, folder: Path) -> Start:
        proxies = (
            f'[{{"name":"kafka","listen":"{HOST}:{listen_port}","upstream":"{HOST}:{broker_port}","enabled":true}}]'
        )
        argv = [str(program), f"-host={HOST}", f"-port={listen_port + 1}", "-config=proxies.json"]
        return Start(argv, env={**os.environ, "LOG_LEVEL": "error"}, files={"proxies.json": proxies})

    return Target("Toxiproxy", TOXIPROXY_VERSION.removeprefix("v"), start)


def kafka_proxy() -> Target:
    """grepplabs' kafka-proxy, from the Go module proxy."""
    program = _go_program("kafka-proxy", "github.com/grepplabs/kafka-proxy", KAFKA_PROXY_VERSION)

    def start(broker_port: int, listen_port: int, folder: Path) -> Start:
        mapping = f"{HOST}:{broker_port},{HOST}:{listen_port}"
        # It can't find acks in the Produce requests of today; told that they are never 0, it doesn't look.
        options = ["--http-disable", "--log-level=error", "--producer-acks-0-disabled"]
        return Start([str(program), "server", "--bootstrap-server-mapping", mapping, *options])

    outdated = "it reads Metadata up to version 9, and today's clients ask for later ones"
    return Target("kafka-proxy", KAFKA_PROXY_VERSION.removeprefix("v"), start, rewrites=True, outdated=outdated)


def haproxy() -> Target:
    """HAProxy in TCP mode, from Debian; splicing, without a pipe for each connection that it might ever hold."""
    root = _debian("haproxy")
    program = root / "usr/sbin/haproxy"

    def start(broker_port: int, listen_port: int, folder: Path) -> Start:
        config = f"""global
  maxconn {connections_to_hold(_MOST_CONNECTIONS)}
  maxpipes 64
  nbthread 1
defaults
  mode tcp
  option splice-auto
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen kafka
  bind {HOST}:{listen_port}
  server broker {HOST}:{broker_port}
"""
        return Start([str(program), "-db", "-f", "haproxy.cfg"], env=_libraries(root), files={"haproxy.cfg": config})

    return Target("HAProxy", _said_version([str(program), "-v"], _libraries(root)), start)


def nginx() -> Target:
    """nginx's stream module, from Debian."""
    root = _debian("nginx", "libnginx-mod-stream")
    program = root / "usr/sbin/nginx"

    def start(broker_port: int, listen_port: int, folder: Path) -> Start:
        config = f"""load_module {root}/usr/lib/nginx/modules/ngx_stream_module.so;
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections {2 * connections_to_hold(_MOST_CONNECTIONS) + 64}; }}
stream {{
  server {{
    listen {HOST}:{listen_port};
    proxy_pass {HOST}:{broker_port};
    proxy_timeout 1h;
    proxy_buffer_size 256k;
  }}
}}
"""
        argv = [str(program), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        return Start(argv, env=_libraries(root), files={"nginx.conf": config})

    return Target("nginx stream", _said_version([str(program), "-v"], _libraries(root)), start)


_KROXYLICIOUS_MAIN = """
import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

public class Launcher {
    public static void main(String[] args) throws Exception {
        ConfigParser parser = new ConfigParser();
        var configuration = parser.parseConfiguration(Files.readString(Path.of(args[0])));
        try (KafkaProxy proxy = new KafkaProxy(parser, configuration, Features.defaultFeatures())) {
            proxy.startup().block();
        }
    }
}
"""


def kroxylicious() -> Target:
    """Kroxylicious' runtime without filters, from Maven Central; its start program is not published there."""
    folder = bench_folder() / f"kroxylicious-{KROXYLICIOUS_VERSION}"
    try:
        java = find_java()
    except LabError as error:
        raise UnavailableError(f"Kroxylicious: {error}") from error
    if not (folder / "Launcher.class").exists():
        maven = required("mvn", "it brings Kroxylicious' jars")
        compiler = required("javac", "it compiles Kroxylicious' start program")
        folder.mkdir(exist_ok=True)
        (folder / "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>bench</artifactId>"
            "<version>1</version><dependencies><dependency><groupId>io.kroxylicious</groupId>"
            f"<artifactId>kroxylicious-runtime</artifactId><version>{KROXYLICIOUS_VERSION}</version>"
            "</dependency></dependencies></project>"
        )
        command(
            [maven, "-B", "-q", _MAVEN_COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder}/jars"],
            "fetching Kroxylicious",
            cwd=folder,
        )
        (folder / "Launcher.java").write_text(_KROXYLICIOUS_MAIN)
        command([compiler, "-cp", "jars/*", "Launcher.java"], "compiling Kroxylicious' start program", cwd=folder)

    def start(broker_port: int, listen_port: int, work: Path) -> Start:
        config = f"""virtualClusters:
- name: bench
  targetCluster:
    bootstrapServers: {HOST}:{broker_port}
  gateways:
  - name: default
    portIdentifiesNode:
      bootstrapAddress: {HOST}:{listen_port}
      nodeIdRanges:
      - {{name: brokers, start: 0, end: 2}}
"""
        argv = [str(java.executable), "-cp", f"{folder}/jars/*:{folder}", "Launcher", "kroxylicious.yaml"]
        return Start(argv, files={"kroxylicious.yaml": config})

    return Target("Kroxylicious", KROXYLICIOUS_VERSION, start, rewrites=True)


PEERS: dict[str, Callable[[], Target]] = {
    "nginx": nginx,
    "haproxy": haproxy,
    "kroxylicious": kroxylicious,
    "toxiproxy": toxiproxy,
    "kafka-proxy": kafka_proxy,
}


def _go_program(name: str, module: str, version: str, command_package: str = "") -> Path:
    package = module + command_package
    program = bench_folder() / f"{name}-{version}"
    if not program.exists():
        go = required("go", f"{name} is built with it")
        built = bench_folder() / f"{name}-build"
        built.mkdir(exist_ok=True)
        # A module of its own that requires it: `go install` asks for all versions, which may be refused for one.
        (built / "go.mod").write_text(f"module bench\n\nrequire {module} {version}\n")
        (built / "bench.go").write_text(f'//go:build bench\n\npackage bench\n\nimport _ "{package}"\n')
        command([go, "build", "-mod=mod", "-o", "program", package], f"building {name}", cwd=built)
        (built / "program").rename(program)
        shutil.rmtree(built)
    return program


def _debian(*packages: str) -> Path:
    """The packages and what they need that is not on this machine, unpacked into the cache."""
    root = bench_folder() / f"debian-{packages[0]}"
    if not root.exists():
        required("apt-get", "it fetches Debian's packages")
        archives = bench_folder() / f"archives-{packages[0]}"
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        fetch = ["apt-get", "-y", "-q", "--download-only", "--no-install-recommends", "--reinstall"]
        fetch += ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}", "install", *packages]
        command(fetch, f"fetching {packages[0]}", cwd=archives)
        partial = root.with_suffix(".partial")
        for archive in sorted(archives.glob("*.deb")):
            command(["dpkg", "-x", str(archive), str(partial)], f"unpacking {archive.name}", cwd=archives)
        partial.rename(root)
    return root


def _libraries(root: Path) -> dict[str, str]:
    """An environment in which the unpacked programs find the libraries that came with them."""
    found = sorted({str(library.parent) for library in root.rglob("*.so*")})
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(found)}


def _said_version(argv: list[str], env: dict[str, str]) -> str:
    try:
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=10)
    except OSError as error:
        raise UnavailableError(f"{argv[0]}: {error.strerror}") from error
    found = re.search(r"\d+\.\d+\.\d+", ran.stdout + ran.stderr)
    if found is None:
        raise UnavailableError(f"{argv[0]} does not run: {(ran.stdout + ran.stderr).strip()[:200]}")
    return found[0]
