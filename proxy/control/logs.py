"""How log lines are written: for a person at a terminal, plainly, or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from notleader.proxy.config.settings import LogFormat
from notleader.proxy.wire.printable import printable


def log_to(log_format: LogFormat, level: int) -> None:
    """Write everything from this level on to stderr."""
    handler = _handler(log_format)
    handler.addFilter(without_controls)
    logging.basicConfig(level=level, format="%(message)s", datefmt="[%X]", handlers=[handler], force=True)


def without_controls(record: logging.LogRecord) -> bool:
    """Write what a message is filled with so that it forges no line and drives no terminal; a handler's filter."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            printable(str(given)) if isinstance(given, (str, BaseException)) else given for given in record.args
        )
    return True


def _handler(log_format: LogFormat) -> logging.Handler:
    """Rich on a terminal, plain lines with time and level anywhere else; JSON lines where asked for."""
    if log_format is LogFormat.TEXT and sys.stderr.isatty():
        from rich.console import Console
        from rich.logging import RichHandler

        return RichHandler(console=Console(stderr=True), show_path=False)
    handler = logging.StreamHandler()
    if log_format is LogFormat.JSON:
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


class JsonLines(logging.Formatter):
    """One JSON object per record: `time` (RFC 3339, UTC), `level`, `logger`, `message`, and any `error`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
