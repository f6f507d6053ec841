"""What becomes of the exchanges of one proxy: they are counted, and recorded while somebody asks for it."""

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, final

from notleader.faults.cluster import Cluster
from notleader.proxy import __version__
from notleader.proxy.config.extras import missing
from notleader.proxy.config.settings import Settings
from notleader.proxy.net.endings import Endings
from notleader.proxy.pump import Exchange
from notleader.proxy.record.blocks import Blocks
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.limits import CaptureError, Limits
from notleader.proxy.record.live import Accepts
from notleader.proxy.record.redaction import Redaction
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.record.sink import IS_COMPILED, ExchangeSink
from notleader.proxy.record.where import Where
from notleader.proxy.record.writer import CaptureWriter
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.metrics import Counters
from notleader.proxy.wire.names import api_name

log = logging.getLogger("notleader")
_MOST_NOTABLE: Final = 200
_MOST_NOTABLE_BYTES: Final = 64 << 10  # of the frames of one


@final
class ProxyCapture:
    """The capture of one run of a proxy, at most one at a time, as its settings ask for it.

    ``sink`` takes what ends on any connection, from ``endings`` what one has left open. ``make`` makes the writers,
    ``with_recorder`` False: another process has the recorder that follows their journals.
    """

    def __init__(
        self,
        settings: Settings,
        run_id: str,
        cluster: Cluster,
        counters: Counters,
        table: Handling,
        *,
        make: Callable[..., CaptureWriter] = CaptureWriter,
        with_recorder: bool = True,
    ) -> None:
        self.writer: CaptureWriter | None = None
        self.sink = ExchangeSink(counters.traffic, self._notice)
        self.endings = Endings()
        self._settings = settings
        self._run_id = run_id
        self._cluster = cluster
        self._counters = counters
        self._table = table
        self._make = make
        self._with_recorder = with_recorder
        self._given_up = asyncio.Event()
        self._segment_numbers = itertools.count(1)
        self._reads_bodies = False  # and so counts the errors in them
        self._struck: set[str] = set()
        self._notable: deque[Exchange | ConnectionEvent] = deque(maxlen=_MOST_NOTABLE)

    async def start(self, target: str, level: Level) -> None:
        """Begin recording to this folder. Raises CaptureError."""
        if (line := missing("recording", "capture")) is not None:
            raise CaptureError(line)
        await self.stop()
        writer = self._made(Where.of(target), level)
        await writer.start()
        self._use(writer, level)

    async def stop(self) -> None:
        """Flush and end the recording; nothing where there is none."""
        await self.endings.recorded()
        writer = self.writer
        self._use(None, None)
        if writer is not None:
            await writer.stop(self._given_up)

    def give_up(self) -> None:
        """Let `stop` wait no longer for the recorder, whether it does already or will."""
        self._given_up.set()

    @contextlib.contextmanager
    def subscribe(self, accepts: Accepts | None) -> Generator[asyncio.Queue[dict[str, Any]]]:
        """A bounded queue that gets every capture row that ``accepts`` holds for while the context is open."""
        if self.writer is None:
            level = self._settings.capture_level
            self._use(self._made(None, level), level)
        writer = self.writer
        assert writer is not None
        try:
            with writer.subscribe(accepts) as live:
                self._aim()
                yield live
        finally:
            self._aim()
        if writer is self.writer and writer.directory is None and not writer.is_watched:
            self._use(None, None)

    def notable(self) -> list[dict[str, Any]]:
        """The rows of the last exchanges that a fault touched or answered with an error, and of the last events.

        Oldest first. There whether anything is recorded or not; one of long frames is not kept.
        """
        rows = self._rows(self._settings.capture_level)
        return [dict(zip(COLUMNS, rows.of(entry), strict=True)) for entry in self._notable]

    def note_first_hits(self, entry: Exchange | ConnectionEvent) -> None:
        """Say in the log which rules have struck for the first time."""
        for hit in entry.hits:
            if hit.rule_name not in self._struck:
                self._struck.add(hit.rule_name)
                log.info("fault %s (%s) struck for the first time: %s", hit.rule_name, hit.kind, _described(entry))

    # ---- inside ---------------------------------------------------------------------------------

    def _use(self, writer: CaptureWriter | None, level: Level | None) -> None:
        self.writer = writer
        self._aim()
        self._reads_bodies = level is not None and level.reads_bodies
        if level is None:
            self._table.record_at(None)
        else:
            self._table.record_at(level, self._settings.capture_queue_bytes)

    def _aim(self) -> None:
        """Have exchanges go to the writer, the shortest way there is."""
        self.sink.capture = None if self.writer is None else self.writer.record
        self.sink.blocks = None if self.writer is None else self.writer.blocks

    def _notice(self, entry: Exchange | ConnectionEvent) -> None:
        """What a fault touched, and what is the first after the capture was handed over."""
        for hit in entry.hits:
            self._counters.hit(hit.rule_name, hit.kind, hit.phase)
        self.note_first_hits(entry)
        if type(entry) is Exchange and entry.error_code and entry.response_at_us and not self._reads_bodies:
            self._counters.error(entry.api_key, entry.error_code)
        if type(entry) is not Exchange or (
            (entry.hits or entry.error_code) and entry.request_bytes + entry.response_bytes < _MOST_NOTABLE_BYTES
        ):
            self._notable.append(entry)
        if self.writer is not None and not self.sink.is_awake:
            # Waking the thread costs as much as a request, and while it works it holds the interpreter.
            self.sink.is_awake = True
            asyncio.get_running_loop().call_later(self.writer.pause_s, self._hand_over)

    def _hand_over(self) -> None:
        self.sink.is_awake = False
        if self.writer is not None:
            self.writer.hand_over()

    def _count_errors(self, errors: dict[tuple[int, int], int]) -> None:
        for error, times in errors.items():
            self._counters.errors[error] += times

    def _rows(self, level: Level) -> Rows:
        settings = self._settings
        return Rows(
            self._run_id,
            settings.proxy_id,
            settings.seed,
            level,
            self._cluster.topic_name,
            redaction=Redaction(settings.capture_redact),
        )

    def _made(self, where: Where | None, level: Level) -> CaptureWriter:
        """A writer to ``where``; None: for live readers alone."""
        settings = self._settings
        read_here = IS_COMPILED and where is not None and not level.reads_records
        rows = self._rows(level)
        return self._make(
            rows,
            where,
            numbers=self._segment_numbers,
            metadata={
                "notleader.version": __version__,
                "notleader.run_id": self._run_id,
                "notleader.proxy_id": settings.proxy_id,
                "notleader.seed": str(settings.seed),
                "notleader.level": level.value,
                "notleader.kafka": ",".join(str(endpoint) for endpoint in settings.kafka),
            },
            limits=Limits(
                rotate_s=settings.capture_rotate_s,
                rotate_bytes=settings.capture_rotate_bytes,
                keep_s=settings.capture_keep_s,
                keep_bytes=settings.capture_keep_bytes,
                spool_bytes=settings.capture_spool_bytes,
                journal_bytes=settings.capture_journal_bytes,
                stop_s=settings.capture_stop_s,
            ),
            spool=settings.capture_spool,
            redact=tuple(settings.capture_redact),
            topics=self._cluster.topic_names,
            max_pending_bytes=settings.capture_queue_bytes,
            blocks=Blocks(level, rows.topics, self._counters.error, rows.redaction) if read_here else None,
            count_errors=self._count_errors,
            with_recorder=self._with_recorder,
        )


def _described(entry: Exchange | ConnectionEvent) -> str:
    """An exchange or event in a few words, for the log."""
    if isinstance(entry, ConnectionEvent):
        return f"{entry.event} {entry.detail}"
    api = api_name(entry.api_key) or str(entry.api_key)
    where = f"connection {entry.connection.connection_id}, {entry.connection.listener}"
    return f"{api} v{entry.api_version} of {entry.client_id or 'an unnamed client'} ({where}), {entry.outcome}"
