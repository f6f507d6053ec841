"""``notleader run``: flags derived from the settings model, one proxy, a clean end."""

import asyncio
import contextlib
import gc
import inspect
import json
import logging
import resource
import signal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
import uvloop
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from faults.schema import FaultDocumentError
from proxy import __version__
from proxy.config import ConfigError, Settings, load
from proxy.logs import log_to
from proxy.memory import give_back

log = logging.getLogger("notleader")

_NAMED_UNHIT = 20
_FILE_ONLY = {"faults", "steps"}
_PLAIN_TYPES = (int, float, bool)
_WATCH_S = 1.0
_UNITS = {"s": "SECONDS", "ms": "MS", "bytes": "BYTES"}
_PANELS = {
    "admin": "HTTP API, traces and logs",
    "traces": "HTTP API, traces and logs",
    "log": "HTTP API, traces and logs",
    "capture": "Recording",
    "tls": "TLS",
    "relay": "Authentication where the proxy relays",
}
_METAVARS = {
    "kafka": "HOST:PORT[,…]",
    "listen": "HOST:PORT",
    "admin": "HOST:PORT",
    "admin_token": "TOKEN",
    "admin_hosts": "NAME[,…]",
    "traces": "URL",
    "broker_ports": "PORT[,…]",
    "advertise": "HOST",
    "capture": "DIR|URL",
    "capture_level": "LEVEL",
    "capture_redact": "RULE[,…]",
    "capture_spool": "DIR",
    "relay_sasl_mechanism": "MECHANISM",
}


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """The command line's view of one setting; absent unless the user names it."""
    plain = next((kind for kind in _PLAIN_TYPES if kind in _types(field)), str)
    flag = "--" + name.replace("_", "-")
    if plain is bool:
        flag += "/--no" + flag[1:]
    annotation = Annotated[
        plain | None,  # type: ignore[valid-type]
        typer.Option(
            flag,
            help=f"{field.description}{_default(field)}",
            show_default=False,
            metavar=_metavar(name, field),
            rich_help_panel="Switches" if plain is bool else _PANELS.get(name.partition("_")[0], "Proxy"),
        ),
    ]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _types(field: FieldInfo) -> tuple[object, ...]:
    """What the setting may be, None included."""
    return get_args(field.annotation) or (field.annotation,)


def _default(field: FieldInfo) -> str:
    value = field.default
    if value in (PydanticUndefined, None, "", False):
        return ""
    if value is True:
        return " Default: yes."
    if isinstance(value, float):
        value = f"{value:g}"
    if isinstance(value, int) and value >= 1 << 20:
        return f" Default: {value} ({value >> 20} MiB)."
    return f" Default: {value}."


def _metavar(name: str, field: FieldInfo) -> str:
    """What to write after a flag: nothing, a unit, choices, or the kind of thing that is named."""
    kinds = _types(field)
    if bool in kinds:
        return ""
    if name in _METAVARS:
        return _METAVARS[name]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Enum):
            return "|".join(member.value for member in kind)
    if Path in kinds:
        return "FILE"
    unit = name.rpartition("_")[2]
    return _UNITS.get(unit, "N" if int in kinds else "NAME")


def run(**options: Any) -> None:
    """Put the proxy in front of a Kafka cluster and serve until SIGINT or SIGTERM.

    Every flag is also an environment variable (NOTLEADER_KAFKA, NOTLEADER_LISTEN, …) and a key of the
    --config file, which also takes `faults:` and `steps:`. SIGHUP, or a change of that file, has it read again.
    SIGUSR1 finishes the segment of the capture at hand.

    Example: notleader run --kafka localhost:9092 --listen localhost:19092 --config faults.yaml
    """
    as_json, file = options.pop("json"), options.pop("config")
    verbose = options.pop("verbose")
    flags = {name: value for name, value in options.items() if value is not None}
    try:
        settings = load(flags, file)
    except ConfigError as error:
        _say_problems(error)
        raise typer.Exit(2) from error
    log_to(settings.log_format, logging.DEBUG if verbose else logging.INFO)
    _raise_descriptor_limit()
    raise typer.Exit(uvloop.run(_serve(settings, as_json, flags, file)))


run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *(_option(name, field) for name, field in Settings.model_fields.items() if name not in _FILE_ONLY),
        inspect.Parameter(
            "config",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Path | None, typer.Option("--config", metavar="FILE", help="YAML file with these settings.")
            ],
        ),
        inspect.Parameter(
            "json",
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option("--json", help="Print one JSON line when ready.")],
        ),
        inspect.Parameter(
            "verbose",
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")],
        ),
    ]
)

alone = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
"""The command `notleader` with nothing but `run`."""
alone.command()(run)
alone.callback()(lambda: None)


def _raise_descriptor_limit() -> None:
    """Every client connection takes two descriptors: as many as the hard limit allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def reload_config(proxy: Any, flags: dict[str, Any], file: Path | None) -> None:
    """Read the config file again and take over what can change while running: whole, or not at all."""
    try:
        differing = proxy.reload(load(flags, file))
    except (ConfigError, FaultDocumentError) as error:
        for problem in error.problems:
            log.error("the configuration stays as it was: %s: %s", problem.path, problem.message)
        return
    log.info("configuration read again: %d fault rules", len(proxy.plan.rules()))
    if differing:
        log.warning("changing %s needs a restart", ", ".join(differing))


async def _watch(proxy: Any, flags: dict[str, Any], file: Path | None, asked: asyncio.Event) -> None:
    """Reload when the config file or a certificate changes, and when `asked`."""
    changed_ns = _changed_ns(file)
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), _WATCH_S)
        proxy.tls.reload()
        if asked.is_set() or _changed_ns(file) != changed_ns:
            asked.clear()
            changed_ns = _changed_ns(file)
            reload_config(proxy, flags, file)


async def _rotate(proxy: Any, asked: asyncio.Event) -> None:
    """Finish the segment of the capture at hand whenever `asked`."""
    while True:
        await asked.wait()
        asked.clear()
        capture = proxy.capture
        if capture is None:
            log.warning("nothing is recorded: there is no segment to finish")
            continue
        await capture.rotate()
        log.info("asked to finish the capture's segment: %d are finished by now", capture.segments)


def _changed_ns(file: Path | None) -> int:
    try:
        return file.stat().st_mtime_ns if file is not None else 0
    except OSError:
        return 0


async def _serve(settings: Settings, as_json: bool, flags: dict[str, Any], file: Path | None) -> int:
    from proxy.capture.limits import CaptureError

    stop, read_again, rotate = asyncio.Event(), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    # From here on: whatever comes before everything listens is done then.
    for number, event in (
        (signal.SIGINT, stop),
        (signal.SIGTERM, stop),
        (signal.SIGHUP, read_again),
        (signal.SIGUSR1, rotate),
    ):
        loop.add_signal_handler(number, event.set)
    try:
        proxy = _proxy_of(settings)
    except ConfigError as error:
        _say_problems(error)
        return 2
    traces = None
    if settings.traces is not None:
        try:
            from proxy.admin.traces import Traces
        except ModuleNotFoundError:
            typer.echo("notleader run: traces: this needs pip install 'notleader[otel]'", err=True)
            return 2
        traces = Traces.over_http(settings.traces, settings.proxy_id, proxy.run_id)
    admin = None
    try:
        await proxy.start()
        if settings.admin is not None:
            from proxy.admin.serve import AdminServer

            admin = AdminServer(
                proxy, settings.admin.host, settings.admin.port, settings.admin_token, settings.admin_hosts
            )
            try:
                await admin.start()
            except (OSError, ValueError) as error:
                raise OSError(f"the HTTP API can't listen on {settings.admin}: {_text(error)}") from error
    except (OSError, CaptureError) as error:
        typer.echo(f"notleader run: {_text(error)}", err=True)
        await proxy.stop()
        return 1
    gc.collect()
    give_back()
    gc.freeze()  # what is there now stays: no later collection has to look at it
    _say_ready(proxy, admin, as_json)
    working = [loop.create_task(_watch(proxy, flags, file, read_again)), loop.create_task(_rotate(proxy, rotate))]
    if traces is not None:
        working.append(loop.create_task(traces.follow(proxy, stop)))
    if settings.workers > 1:
        working.append(loop.create_task(_end_with(proxy, stop)))
    try:
        await stop.wait()
    finally:
        log.info("stopping")
        if admin is not None:
            await admin.stop()
        await proxy.stop()
        for task in working:
            task.cancel()
        if traces is not None:
            await asyncio.to_thread(traces.close)
    _say_unused(proxy)
    if settings.workers > 1 and proxy.lost is not None:
        typer.echo(f"notleader run: {proxy.lost}", err=True)
        return 1
    return 0


def _proxy_of(settings: Settings) -> Any:
    """The proxy, in one process or in several. Raises ConfigError."""
    if settings.workers == 1:
        from proxy.server import Proxy

        return Proxy(settings)
    from proxy.workers.control import ControlPlane

    return ControlPlane(settings)


async def _end_with(proxy: Any, stop: asyncio.Event) -> None:
    """Stop when the proxy has stopped by itself: a worker was lost."""
    await proxy.stopped.wait()
    stop.set()


def _say_ready(proxy: Any, admin: Any, as_json: bool) -> None:
    brokers = {str(entry.node_id): str(entry.listen) for entry in proxy.brokers()}
    listen = str(proxy.listen)
    address = None if admin is None else admin.address
    if as_json:
        ready = {"event": "ready", "listen": listen, "admin": address, "brokers": brokers}
        if proxy.settings.workers > 1:
            ready["workers"] = proxy.worker_pids()
        print(json.dumps(ready), flush=True)  # noqa: T201
        return
    from proxy.plain import IS_NATIVE

    settings = proxy.settings
    log.info("notleader %s (%s)", __version__, "compiled" if IS_NATIVE else "pure Python")
    log.info("listening on %s for %s", listen, ", ".join(str(endpoint) for endpoint in settings.kafka))
    for node_id, broker in brokers.items():
        log.info("  broker %s: %s", node_id, broker)
    log.info("seed %d, %d fault rules", settings.seed, len(proxy.plan.rules()))
    if address is not None:
        log.info("HTTP API on http://%s", address)
    if settings.capture is not None:
        log.info("recording to %s (level %s)", settings.capture, settings.capture_level.value)


def _say_problems(error: ConfigError) -> None:
    for problem in error.problems:
        typer.echo(f"notleader run: {problem.path}: {problem.message}", err=True)


def _say_unused(proxy: Any) -> None:
    """A rule that was never hit is most likely a mistake: say so."""
    unhit = proxy.plan.unhit()
    for name, kind in list(unhit.items())[:_NAMED_UNHIT]:
        log.warning("fault %s (%s) was never hit", name, kind)
    if len(unhit) > _NAMED_UNHIT:
        log.warning("nor were %d others", len(unhit) - _NAMED_UNHIT)
    if proxy.timeline is not None and (left := len(proxy.timeline.left)):
        log.warning("%d of %d steps were never due", left, len(proxy.timeline.steps))


def _text(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)
