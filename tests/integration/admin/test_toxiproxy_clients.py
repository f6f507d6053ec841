"""Toxiproxy's own clients, unchanged, against notleader's admin port.

They are fetched from their registries once per machine.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.admin.conftest import Controlled
from tests.tools.programs import need

CLIENTS = Path(__file__).parent / "clients"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "notleader" / "toxiproxy-clients"


def fetch(what: str, *command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.fail(f"{what} cannot be fetched: {(done.stderr or done.stdout).strip()[-300:]}")


async def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """The client has to print OK; it runs beside the proxy's event loop."""
    child = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, "NO_PROXY": "*", "no_proxy": "*", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(child.communicate(), 600)
    assert (child.returncode, output.decode().splitlines()[-1:]) == (0, ["OK"]), output.decode()


@pytest.fixture(scope="module")
def go_client() -> str:
    """Toxiproxy's Go client, built into a small program."""
    go = need("go")
    CACHE.mkdir(parents=True, exist_ok=True)
    fetch("the Go client", go, "build", "-o", str(CACHE / "go-client"), ".", cwd=CLIENTS / "go")
    return str(CACHE / "go-client")


@pytest.fixture(scope="module")
def toxiproxy_cli() -> str:
    """Toxiproxy's command line."""
    go = need("go")
    CACHE.mkdir(parents=True, exist_ok=True)
    command = "github.com/Shopify/toxiproxy/v2/cmd/cli"
    fetch("the CLI", go, "build", "-o", str(CACHE / "cli"), command, cwd=CLIENTS / "go")
    return str(CACHE / "cli")


async def test_the_go_client(controlled: Controlled, echo_server: str, go_client: str) -> None:
    await run(go_client, controlled.admin.address, echo_server)


async def test_the_python_client(controlled: Controlled, echo_server: str) -> None:
    packages = CACHE / "python"
    if not (packages / "toxiproxy").exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages))
        fetch("toxiproxy-python", *pip, "toxiproxy-python==0.1.1", "future", "requests")
    program = str(CLIENTS / "python" / "toxiproxy_client.py")
    admin = controlled.admin
    env = {"PYTHONPATH": str(packages)}
    await run(sys.executable, program, admin.host, str(admin.port), echo_server, env=env)


async def test_the_node_client(controlled: Controlled, echo_server: str) -> None:
    node, npm = need("node"), need("npm")
    project = CACHE / "node"
    project.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "client.mjs"):
        shutil.copy(CLIENTS / "node" / name, project)
    if not (project / "node_modules").exists():
        fetch("toxiproxy-node-client", npm, "install", "--silent", "--no-audit", "--no-fund", cwd=project)
    await run(node, "client.mjs", controlled.url, echo_server, cwd=project)


async def test_the_java_client(controlled: Controlled, echo_server: str) -> None:
    java, mvn = need("java"), need("mvn")
    jars = CACHE / "java"
    if not jars.exists():
        where = f"-DoutputDirectory={jars}"
        fetch("toxiproxy-java", mvn, "-q", "-B", "dependency:copy-dependencies", where, cwd=CLIENTS / "java")
    program = str(CLIENTS / "java" / "Client.java")
    admin = controlled.admin
    await run(java, "-cp", f"{jars}/*", program, admin.host, str(admin.port), echo_server)


async def test_the_command_line(controlled: Controlled, echo_server: str, toxiproxy_cli: str) -> None:
    async def cli(*arguments: str) -> str:
        child = await asyncio.create_subprocess_exec(
            toxiproxy_cli,
            "--host",
            controlled.url,
            *arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NO_PROXY": "*"},
        )
        output, _ = await asyncio.wait_for(child.communicate(), 600)
        assert child.returncode == 0, output.decode()
        return output.decode()

    await cli("create", "--listen", "127.0.0.1:0", "--upstream", echo_server, "shop")
    assert "shop" in await cli("list")
    await cli("toxic", "add", "--type", "latency", "--attribute", "latency=100", "shop")
    assert "latency_downstream" in await cli("inspect", "shop")
    await cli("toxic", "update", "--toxicName", "latency_downstream", "--attribute", "latency=50", "shop")
    assert "latency=50" in await cli("inspect", "shop")
    await cli("toxic", "remove", "--toxicName", "latency_downstream", "shop")
    fault = ("--type", "kafka_error", "--attribute", "error_code=NOT_LEADER_OR_FOLLOWER")
    for proxy in ("shop", "bootstrap"):
        fields = ("--attribute", "match.api_key=Produce", "--attribute", "trigger.times=4")
        await cli("toxic", "add", *fault, *fields, proxy)
        assert "kafka_error_downstream" in await cli("inspect", proxy)
        (rule,) = controlled.proxy.plan.rules()
        assert (rule.fault.kind, rule.fault.trigger.times) == ("error", 4)
        await cli("toxic", "remove", "--toxicName", "kafka_error_downstream", proxy)
    await cli("toggle", "shop")
    assert "disabled" in await cli("list")
    await cli("delete", "shop")
    assert "shop" not in await cli("list")
