"""How `notleader run` writes its log."""

from __future__ import annotations

import json
import logging

from notleader.proxy.config.settings import LogFormat, load
from notleader.proxy.control.logs import JsonLines


def test_a_log_record_is_one_json_line_with_its_error() -> None:
    try:
        raise OSError("no such thing")
    except OSError as error:
        told = logging.LogRecord("notleader", logging.ERROR, "f", 1, "it ended:\n%s", ("x",), (OSError, error, None))
    told.created = 1_700_000_000.1239
    line = JsonLines().format(told)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123+00:00",
        "level": "error",
        "logger": "notleader",
        "message": "it ended:\nx",
        "error": "OSError: no such thing",
    }


def test_the_format_is_a_setting() -> None:
    assert load({"kafka": "kafka:9092"}).log_format is LogFormat.TEXT
    assert load({"kafka": "kafka:9092", "log_format": "json"}).log_format is LogFormat.JSON
