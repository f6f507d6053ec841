"""Serve with the settings that were asked for, until a signal: what ``notleader run`` does."""

import asyncio
import contextlib
import gc
import json
import logging
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop

from notleader.faults.schema import FaultDocumentError
from notleader.proxy import __version__
from notleader.proxy.admin.aside import aside
from notleader.proxy.config.extras import install, missing
from notleader.proxy.config.on_disk import stamp
from notleader.proxy.config.refusal import say_refused
from notleader.proxy.config.settings import ConfigError, Settings, load, located
from notleader.proxy.control.flags import RunOptions
from notleader.proxy.control.logs import log_to
from notleader.proxy.net.sockets import what_to_do
from notleader.proxy.record.memory import give_back
from notleader.proxy.record.where import Where
from notleader.proxy.wire.errors import in_words

log = logging.getLogger("notleader")

_NAMED_UNHIT = 20
_WATCH_S = 1.0


def serve(asked: RunOptions) -> int:
    """Run the proxy in this process; returns the exit code, of a command line or a file that can't be served too."""
    try:
        settings = load(asked.settings, asked.config)
    except ConfigError as error:
        _say_problems(error, asked)
        return 2
    log_to(settings.log_format, logging.DEBUG if asked.verbose else logging.INFO)
    raise_descriptor_limit()
    return uvloop.run(_serve(settings, asked))


def raise_descriptor_limit() -> None:
    """Every client connection takes two descriptors: as many as the hard limit allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def reload_config(proxy: Any, flags: dict[str, Any], file: Path | None) -> None:
    """Read the config file again and take over what can change while running: whole, or not at all."""
    try:
        differing = proxy.reload(await aside(load, flags, file))
    except (ConfigError, FaultDocumentError) as error:
        for line in await aside(located, error.problems, file, flags):
            log.error("the configuration stays as it was: %s", line)
        return
    log.info("configuration read again: %d fault rules", len(proxy.plan.rules()))
    if differing:
        log.warning("changing %s needs a restart", ", ".join(differing))


async def _watch(proxy: Any, asked: RunOptions, read_again: asyncio.Event) -> None:
    """Reload when the config file or a certificate changes, and when told to `read_again`."""
    flags, file = asked.settings, asked.config
    seen = stamp(file)
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(read_again.wait(), _WATCH_S)
        proxy.tls.reload()
        if read_again.is_set() or stamp(file) != seen:
            read_again.clear()
            seen = stamp(file)
            await reload_config(proxy, flags, file)


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


async def _give_up(proxy: Any, again: asyncio.Event) -> None:
    """When told to stop a second time, wait no longer for a recorder that doesn't end."""
    await again.wait()
    log.warning("told to stop again: the recorder is not waited for")
    proxy.give_up_capture()


async def _serve(settings: Settings, asked: RunOptions) -> int:
    from notleader.proxy.record.limits import CaptureError

    stop, again, read_again, rotate = (asyncio.Event() for _ in range(4))
    loop = asyncio.get_running_loop()

    def told_to_stop() -> None:
        (again if stop.is_set() else stop).set()

    # From here on: whatever comes before everything listens is done then.
    for number, do in (
        (signal.SIGINT, told_to_stop),
        (signal.SIGTERM, told_to_stop),
        (signal.SIGHUP, read_again.set),
        (signal.SIGUSR1, rotate.set),
    ):
        loop.add_signal_handler(number, do)
    try:
        proxy = _proxy_of(settings)
    except ConfigError as error:
        _say_problems(error, asked)
        return 2
    if settings.admin is not None:
        from notleader.proxy.admin.guard import check_exposure

        try:
            check_exposure(settings.admin.host, settings.admin_token)
        except ValueError as error:
            _refuse(f"notleader run: {error}", asked)
            return 2
    if settings.capture is not None and (line := missing("notleader run --capture", "capture")) is not None:
        _refuse(line, asked)
        return 2
    traces = None
    if settings.traces is not None:
        try:
            from notleader.proxy.admin.traces import Traces
        except ModuleNotFoundError:
            _refuse(f"notleader run: --traces needs OpenTelemetry: {install('otel')}", asked)
            return 2
        traces = Traces.over_http(settings.traces, settings.proxy_id, proxy.run_id)
    admin = None
    try:
        await proxy.start()
        if settings.admin is not None:
            from notleader.proxy.admin.serve import AdminServer

            admin = AdminServer(
                proxy, settings.admin.host, settings.admin.port, settings.admin_token, settings.admin_hosts
            )
            try:
                await admin.start()
            except (OSError, ValueError) as error:
                raise OSError(
                    f"the HTTP API can't listen on {settings.admin}: {in_words(error)}{what_to_do(error)}"
                ) from error
    except (OSError, CaptureError) as error:
        _refuse(f"notleader run: {in_words(error)}", asked)
        await proxy.stop()
        return 1
    gc.collect()
    give_back()
    gc.freeze()  # what is there now stays: no later collection has to look at it
    _say_ready(proxy, admin, asked.as_json)
    working = [loop.create_task(_watch(proxy, asked, read_again)), loop.create_task(_rotate(proxy, rotate))]
    if traces is not None:
        working.append(loop.create_task(traces.follow(proxy, stop)))
    if settings.workers > 1:
        working.append(loop.create_task(_end_with(proxy, stop)))
    try:
        await stop.wait()
    finally:
        log.info("stopping")
        working.append(loop.create_task(_give_up(proxy, again)))
        if admin is not None:
            await admin.stop()
        await proxy.stop()
        for task in working:
            task.cancel()
        if traces is not None:
            await asyncio.to_thread(traces.close)
    _say_unused(proxy)
    if settings.workers > 1 and proxy.lost is not None:
        print(f"notleader run: {proxy.lost}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _proxy_of(settings: Settings) -> Any:
    """The proxy, in one process or in several. Raises ConfigError."""
    if settings.workers == 1:
        from notleader.proxy.net.server import Proxy

        return Proxy(settings)
    from notleader.proxy.control.workers.control import ControlPlane

    return ControlPlane(settings)


async def _end_with(proxy: Any, stop: asyncio.Event) -> None:
    """Stop when the proxy has stopped by itself: a worker was lost."""
    await proxy.stopped.wait()
    stop.set()


def _say_ready(proxy: Any, admin: Any, as_json: bool) -> None:
    brokers = {str(entry.node_id): str(entry.listen) for entry in proxy.brokers()}
    listen = str(proxy.listen)
    address = None if admin is None else admin.address
    settings = proxy.settings
    where = None if settings.capture is None else Where.of(settings.capture)
    if where is not None and where.folder is None and (settings.capture_keep_bytes or settings.capture_keep_s):
        log.warning("%s is kept within bounds: the oldest segments of all proxies there are deleted", where.shown)
    if as_json:
        ready = {"event": "ready", "listen": listen, "admin": address, "brokers": brokers}
        if settings.workers > 1:
            ready["workers"] = proxy.worker_pids()
        print(json.dumps(ready), flush=True)  # noqa: T201
        return
    from notleader.proxy.pump import IS_NATIVE

    log.info("notleader %s (%s)", __version__, "compiled" if IS_NATIVE else "pure Python")
    log.info("listening on %s for %s", listen, ", ".join(str(endpoint) for endpoint in settings.kafka))
    for node_id, broker in brokers.items():
        log.info("  broker %s: %s", node_id, broker)
    log.info("seed %d, %d fault rules", settings.seed, len(proxy.plan.rules()))
    if address is not None:
        log.info("HTTP API on http://%s", address)
    if where is not None:
        log.info("recording to %s (level %s)", where.shown, settings.capture_level.value)


def _say_problems(error: ConfigError, asked: RunOptions) -> None:
    lines = located(error.problems, asked.config, asked.settings)
    _refuse("\n".join(f"notleader run: {line}" for line in lines), asked)


def _refuse(text: str, asked: RunOptions) -> None:
    say_refused(text, as_json=asked.as_json)


def _say_unused(proxy: Any) -> None:
    """A rule that was never hit is most likely a mistake: say so."""
    unhit = proxy.plan.unhit()
    for name, kind in list(unhit.items())[:_NAMED_UNHIT]:
        log.warning("fault %s (%s) was never hit", name, kind)
    if len(unhit) > _NAMED_UNHIT:
        log.warning("nor were %d others", len(unhit) - _NAMED_UNHIT)
    if proxy.timeline is not None and (left := len(proxy.timeline.left)):
        log.warning("%d of %d steps were never due", left, len(proxy.timeline.steps))
