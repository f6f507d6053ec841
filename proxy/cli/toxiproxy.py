"""``notleader toxiproxy``: a Toxiproxy server and nothing else, without a Kafka, with Toxiproxy's flags and file."""

import asyncio
import json
import logging
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from notleader.proxy.config.refusal import say_refused
from notleader.proxy.config.settings import LogFormat
from notleader.proxy.control.logs import log_to

log = logging.getLogger("notleader")


@dataclass(frozen=True, slots=True)
class _Options:
    host: str
    port: int
    config: Path | None
    proxies: bytes
    seed: int
    proxy_metrics: bool
    runtime_metrics: bool
    as_json: bool


def toxiproxy(
    host: Annotated[str, typer.Option("--host", "-host", metavar="HOST", help="Where the API listens.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-port", metavar="PORT", min=0, max=65535, help="Its port; 0 for a free one.")
    ] = 8474,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-config", metavar="FILE", help="JSON array of proxies to begin with, as for /populate."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", "-seed", metavar="N", help="Of what is left to chance; some number when absent."),
    ] = None,
    proxy_metrics: Annotated[
        bool, typer.Option("--proxy-metrics", "-proxy-metrics", help="GET /metrics with the bytes of each proxy.")
    ] = False,
    runtime_metrics: Annotated[
        bool, typer.Option("--runtime-metrics", "-runtime-metrics", help="GET /metrics with this process's own.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", "-version", help="Print whose API this is, and its version.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line when ready.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Serve Toxiproxy's API, and nothing else, until SIGINT or SIGTERM: no Kafka is needed.

    Toxiproxy's clients and command line work with it as they do with toxiproxy-server. A proxy is read as Kafka when it
    is made with "kafka": true, or gets a toxic of a type that begins with kafka_ (`notleader fault kinds`).

    Example: notleader toxiproxy --config proxies.json, where proxies.json is
    [{"name": "redis", "listen": "localhost:26379", "upstream": "localhost:6379"}]
    """
    if version:
        from notleader.proxy.admin.toxiproxy import VERSION

        print(f"toxiproxy-server version {VERSION} (notleader)")  # noqa: T201
        return
    log_to(LogFormat.TEXT, logging.DEBUG if verbose else logging.INFO)
    number = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    try:
        proxies = b"" if config is None else config.read_bytes()
    except OSError as error:
        _refuse(f"{config} can't be read: {error.strerror}", as_json)
        raise typer.Exit(2) from error
    asked = _Options(host, port, config, proxies, number, proxy_metrics, runtime_metrics, as_json)
    raise typer.Exit(uvloop.run(_serve(asked)))


async def _serve(asked: _Options) -> int:
    from notleader.proxy.admin.guard import Guard
    from notleader.proxy.admin.serve import HttpServer
    from notleader.proxy.admin.toxics.engine import ToxicProxies
    from notleader.proxy.admin.toxiproxy import ToxiproxyApi
    from notleader.proxy.control.serving import raise_descriptor_limit
    from notleader.proxy.wire.endpoint import is_loopback

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    raise_descriptor_limit()
    kafka = _Kafka(asked.seed)
    proxies = ToxicProxies(asked.seed, kafka)
    api = ToxiproxyApi(proxies, _registry(asked, proxies))
    server = HttpServer(asked.host, asked.port)
    try:
        if asked.config is not None:
            _, wrong = await api.populate(asked.proxies)
            if wrong is not None:
                _refuse(f"{asked.config}: {wrong}", asked.as_json)
                return 2 if wrong.status == 400 else 1
        try:
            # Whoever names an address that others reach is called by names that nobody can list.
            await server.start(Guard(api, listen_host=asked.host, any_host=not is_loopback(asked.host)))
        except OSError as error:
            _refuse(f"the API can't listen on {server.address}: {error.strerror or error}", asked.as_json)
            return 1
        if not is_loopback(asked.host):
            log.warning("the API at %s asks nobody who he is, as Toxiproxy's does not", server.address)
        _say_ready(asked, server.address, {name: proxy.listen for name, proxy in proxies.by_name.items()})
        await stop.wait()
        log.info("stopping")
        return 0
    finally:
        await server.stop()
        await proxies.stop()
        await kafka.stop()


class _Kafka:
    """The Kafka proxy whose passages are taken, made when the first is: most of these servers never read Kafka."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._proxy: Any = None

    def __call__(self) -> Any:
        from notleader.proxy.config.settings import Settings
        from notleader.proxy.net.server import Proxy

        # It never starts: a passage has its server by itself, and nothing else is dialled.
        self._proxy = Proxy(Settings.model_validate({"kafka": "127.0.0.1:9092", "admin": None, "seed": self._seed}))
        return self._proxy

    async def stop(self) -> None:
        """Close what passes."""
        if self._proxy is not None:
            await self._proxy.stop()


def _registry(asked: _Options, proxies: Any) -> Any:
    if not (asked.proxy_metrics or asked.runtime_metrics):
        return None
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

    registry = CollectorRegistry()
    if asked.proxy_metrics:
        registry.register(proxies.volumes)
    if asked.runtime_metrics:
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
    return registry


def _refuse(text: str, as_json: bool) -> None:
    say_refused(f"notleader toxiproxy: {text}", as_json=as_json)


def _say_ready(asked: _Options, address: str, proxies: dict[str, str]) -> None:
    if asked.as_json:
        print(json.dumps({"event": "ready", "admin": address, "proxies": proxies}), flush=True)  # noqa: T201
        return
    log.info("Toxiproxy's API on http://%s, seed %d", address, asked.seed)
    for name, listen in proxies.items():
        log.info("  %s: %s", name, listen)
