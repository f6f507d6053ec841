"""``notleader replay``: a recorded cluster stands in for a real one, until SIGINT or SIGTERM.

Exit codes: 0 stopped by a signal, 2 wrong use, a capture that can't be replayed, or a port that is taken.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
import uvloop

from notleader.proxy.cli.run import option
from notleader.proxy.config.extras import missing
from notleader.proxy.config.refusal import say_refused
from notleader.proxy.config.settings import ConfigError, Settings, load, located
from notleader.proxy.control.flags import flags
from notleader.proxy.control.logs import log_to
from notleader.proxy.control.serving import raise_descriptor_limit
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.wire.errors import in_words

if TYPE_CHECKING:
    from notleader.proxy.replay.recording import Recording
    from notleader.proxy.replay.serving import Replay
    from notleader.proxy.replay.stand_in import StandIn

log = logging.getLogger("notleader")

WRONG_USE: Final = 2
_SETTINGS: Final = ("listen", "broker_ports", "advertise", "tls_cert", "tls_key", "log_format")
_HOW_TO_RECORD: Final = "record them with `notleader run --capture DIR --capture-level payload`"


def replay(**options: Any) -> None:
    """Stand in for the whole cluster of a capture, without any broker, until SIGINT or SIGTERM.

    CAPTURE was recorded with --capture-level payload. Each request gets the answer of the most alike recorded one;
    records are fetched by offset. Any login is accepted without proof.

    Example: notleader replay traffic/ --listen localhost:19092
    """
    where, as_json, at_once = options.pop("capture"), options.pop("json"), options.pop("at_once")
    verbose = options.pop("verbose")
    if (line := missing("notleader replay", "capture")) is not None:
        _stop(line, as_json)
    given = {name: value for name, value in options.items() if value is not None}
    try:
        # What else is set, in the environment say, is of proxies that have a Kafka behind them.
        settings = load({**given, "admin": None, "capture": None}, need_kafka=False)
    except ConfigError as error:
        _stop("\n".join(f"notleader replay: {line}" for line in located(error.problems, None)), as_json)
    log_to(settings.log_format, logging.DEBUG if verbose else logging.INFO)
    raise typer.Exit(_replayed(where, settings, at_once=at_once, as_json=as_json))


def _replayed(where: str, settings: Settings, *, at_once: bool, as_json: bool) -> int:
    from notleader.proxy.replay.stand_in import StandIn

    recording = _recording(where, as_json)
    stand_in = StandIn(recording, lambda line: log.warning("%s", line), at_once=at_once)
    _warn(recording)
    raise_descriptor_limit()
    try:
        uvloop.run(_serve(recording, stand_in, settings, as_json))
    except (OSError, ConfigError) as error:
        _stop(f"notleader replay: {in_words(error)}", as_json)
    return 0


def _recording(where: str, as_json: bool) -> Recording:
    """What is to be replayed; ends the command where that is nothing."""
    from notleader.proxy.capture.reading import Capture
    from notleader.proxy.replay.recording import Recording

    try:
        capture = Capture(where)
        if not capture.may_have_frames():
            _stop(f"notleader replay: no exchange at {capture.place.shown} has its frames: {_HOW_TO_RECORD}", as_json)
        recording = Recording(capture.rows(frames=True))
    except CaptureError as error:
        _stop(f"notleader replay: {error}", as_json)
    for problem in capture.problems:
        typer.echo(problem, err=True)
    if not recording.seen:
        _stop(f"notleader replay: no exchange is recorded at {capture.place.shown}", as_json)
    if not recording.read:
        why = f"; {_counted(recording.unread)}" if recording.unread else ""
        _stop(
            f"notleader replay: none of the {recording.seen} exchanges at {capture.place.shown} has its frames{why}: "
            f"{_HOW_TO_RECORD}",
            as_json,
        )
    if len(recording.clusters) > 1:
        _stop(
            f"notleader replay: {capture.place.shown} has recordings of {len(recording.clusters)} clusters "
            f"({', '.join(sorted(recording.clusters))}): replay a folder below it, with the runs of one",
            as_json,
        )
    return recording


def _warn(recording: Recording) -> None:
    """Say what of the capture can't be replayed as it was; its records are in the log by now."""
    from notleader.proxy.replay.recording import SASL

    if recording.without_frames:
        log.warning("without frames, and so without answers: %s", _counted(recording.without_frames))
    if recording.unread:
        log.warning("exchanges that can't be read: %s", _counted(recording.unread))
    if recording.lost:
        log.warning("the capture has %d gaps: what was lost there answers nothing", recording.lost)
    for topic in sorted(recording.log.reborn):
        log.warning("topic %s was deleted and created again: of those of its name the last is replayed", topic)
    if recording.names.hidden:
        log.warning(
            "names of groups or transactions were hidden before they were recorded: any of the same length is taken "
            "for them"
        )
    damaged = sum(log_of.damaged for log_of in recording.log.partitions.values())
    if damaged:
        log.warning(
            "%d record batches don't match their checksum, as they were recorded or because of a redaction", damaged
        )
    if recording.apis & SASL:
        log.warning("the recorded clients logged in: here anybody is let in by any password (PLAIN, OAUTHBEARER)")


def _counted(reasons: dict[str, int]) -> str:
    return "; ".join(f"{count} ({reason})" for reason, count in sorted(reasons.items(), key=lambda one: -one[1]))


async def _serve(recording: Recording, stand_in: StandIn, settings: Settings, as_json: bool) -> None:
    from notleader.proxy.replay.serving import Replay

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    replay = Replay(stand_in, settings, recording.brokers)
    await replay.start()
    try:
        _say_ready(replay, recording, as_json)
        await stop.wait()
    finally:
        await replay.stop()
    log.info("stopping: %s", _summary(stand_in))


def _say_ready(replay: Replay, recording: Recording, as_json: bool) -> None:
    brokers = {str(entry.node_id): str(entry.listen) for entry in replay.brokers()}
    if as_json:
        ready = {"event": "ready", "listen": str(replay.listen), "admin": None, "brokers": brokers}
        print(json.dumps(ready), flush=True)  # noqa: T201
        return
    log.info("listening on %s with %d recorded exchanges", replay.listen, recording.read)
    for node_id, broker in brokers.items():
        log.info("  broker %s: %s", node_id, broker)


def _summary(stand_in: StandIn) -> str:
    """How many requests were answered how."""
    from notleader.proxy.replay.reply import Source

    counts = ", ".join(f"{stand_in.counts[source]} {source.value}" for source in Source)
    endings = ", ".join(f"{count} {ending.value}" for ending, count in sorted(stand_in.endings.items()))
    return f"{stand_in.counts.total()} requests, {counts}{f' ({endings})' if endings else ''}"


def _stop(message: str, as_json: bool) -> NoReturn:
    say_refused(message, as_json=as_json)
    raise typer.Exit(WRONG_USE)


def _parameter(name: str, annotation: Any, default: Any = False) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


replay.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        _parameter(
            "capture",
            Annotated[str, typer.Argument(metavar="CAPTURE", help="A capture's folder, one of its files, or a URL.")],
            inspect.Parameter.empty,
        ),
        *(option(flag) for flag in flags() if flag.name in _SETTINGS),
        _parameter(
            "at_once",
            Annotated[bool, typer.Option("--at-once", help="Answer without the recorded latencies.")],
        ),
        _parameter("json", Annotated[bool, typer.Option("--json", help="Print one JSON line when ready.")]),
        _parameter("verbose", Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]),
    ]
)
