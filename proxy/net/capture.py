"""What records a proxy's traffic, as its settings ask for it."""

from collections.abc import Callable, Iterator

from notleader.faults.cluster import Cluster
from notleader.proxy import __version__
from notleader.proxy.config.settings import Settings
from notleader.proxy.record.blocks import Blocks
from notleader.proxy.record.limits import Limits
from notleader.proxy.record.redaction import Redaction
from notleader.proxy.record.rows import Level, Rows
from notleader.proxy.record.sink import IS_COMPILED
from notleader.proxy.record.where import Where
from notleader.proxy.record.writer import CaptureWriter


def capture_writer(
    make: Callable[..., CaptureWriter],
    settings: Settings,
    run_id: str,
    cluster: Cluster,
    where: Where | None,
    level: Level,
    *,
    numbers: Iterator[int],
    count_error: Callable[[int, int], None],
    count_errors: Callable[[dict[tuple[int, int], int]], None],
    with_recorder: bool,
) -> CaptureWriter:
    """A writer to ``where`` (None: for live readers alone) at this level, by ``make``, which is its class.

    ``numbers`` gives the segments theirs; the errors in what is read are counted one by one or, read later, together.
    """
    redaction = Redaction(settings.capture_redact)
    read_here = IS_COMPILED and where is not None and not level.reads_records
    rows = Rows(run_id, settings.proxy_id, settings.seed, level, cluster.topic_name, redaction=redaction)
    return make(
        rows,
        where,
        numbers=numbers,
        metadata={
            "notleader.version": __version__,
            "notleader.run_id": run_id,
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
        topics=cluster.topic_names,
        max_pending_bytes=settings.capture_queue_bytes,
        blocks=Blocks(level, rows.topics, count_error, redaction) if read_here else None,
        count_errors=count_errors,
        with_recorder=with_recorder,
    )
