"""What happened in a run, in order: what the client asked, what it was answered, what it did next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from notleader.proxy.lab.outcome import outcome_lines
from notleader.proxy.lab.recorded import rows_of
from notleader.proxy.wire.names import error_text

_COLUMNS = ["event", "client_id", "api_name", "request_at_us", "response_at_us", "outcome", "error_code"]
_COLUMNS += ["fault_names", "detail", "partitions", "forwarded_at_us", "broker_responded_at_us"]
_SLOW_US = 500_000
_NOTHING_NEW = 6


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened, or several alike in a row; times in µs since the epoch.

    `usual` is what happens when nothing is wrong.
    """

    at_us: int
    text: str
    count: int = 1
    last_at_us: int = 0
    usual: bool = False


def story(capture: Path, outcomes: Path, client_id: str | None, ended_at_us: int = 0) -> list[Line]:
    """The lines of one client, in order; alike neighbours are one line with a count. None: of all that are captured.

    `ended_at_us` is when it was ended because it still ran at the limit.
    """
    rows = rows_of(capture, _COLUMNS)
    own = (client_id, f"{client_id}-fresh")
    told = [
        _exchange(row) for row in rows if (row["event"] != "fault" if client_id is None else row["client_id"] in own)
    ]
    told += _said(outcomes)
    if not told:
        return []
    if ended_at_us:
        last_us = max((line.at_us for line in told if line.at_us < ended_at_us), default=ended_at_us)
        silent_s = (ended_at_us - last_us) / 1e6
        told.append(Line(ended_at_us, f"still running, after {silent_s:.1f} s of nothing; the program is ended"))
    first, last = min(line.at_us for line in told), max(line.at_us for line in told)
    told += [
        Line(row["request_at_us"], f"— {row['detail']} —")
        for row in rows
        if row["event"] == "fault" and first <= row["request_at_us"] <= last
    ]
    return list(_together(sorted(told, key=lambda line: line.at_us)))


def shortened(lines: list[Line]) -> list[Line]:
    """The lines with long stretches of the usual left out, but for their ends."""
    kept: list[Line] = []
    for usual, stretch in groupby(lines, key=lambda line: line.usual):
        alike = list(stretch)
        if not usual or len(alike) <= _NOTHING_NEW:
            kept += alike
            continue
        hidden = alike[2:-2]
        kept += [*alike[:2], Line(hidden[0].at_us, f"… all as usual, {len(hidden)} lines …"), *alike[-2:]]
    return kept


def _exchange(row: dict[str, Any]) -> Line:
    at_us = row["request_at_us"]
    if row["event"] != "exchange":
        return Line(at_us, f"{row['event']}{': ' + row['detail'] if row['detail'] else ''}", usual=True)
    what = row["api_name"] + _places(row["partitions"])
    faults = row["fault_names"]
    took_us = (row["response_at_us"] or at_us) - at_us
    if row["outcome"] in ("dropped", "no_response", "closed"):
        answer = "the connection is closed" if row["outcome"] == "closed" else "no answer"
    elif row["error_code"]:
        speaker = (
            "the proxy"
            if row["outcome"] == "injected"
            else "the proxy, in the broker's place,"
            if row["outcome"] == "altered"
            # Its own error, whoever held the answer.
            else "the broker"
        )
        answer = f"{speaker} says {error_text(row['error_code'])}"
    else:
        answer = f"answered after {took_us / 1000:.0f} ms"
    if not faults:
        fine = row["outcome"] == "answered" and not row["error_code"] and took_us < _SLOW_US
        return Line(at_us, f"{what} → {answer}", usual=fine)
    # Only what was seen: a request that was passed on may still lie in a socket, one that was answered was read.
    where = (
        "; the broker never saw it"
        if row["forwarded_at_us"] is None
        else ", though the broker has acted on it"
        if row["broker_responded_at_us"] is not None and row["outcome"] != "answered"
        else ""
    )
    by = f" (rule {', '.join(faults)})"
    return Line(at_us, f"{what} → {answer}{by}{where}")


def _places(partitions: list[dict[str, Any]] | None) -> str:
    names = [
        f"{each['topic']}-{each['partition_index']}" + (f" x{each['record_count']}" if each["record_count"] else "")
        for each in partitions or ()
        if each["topic"]
    ]
    return f" {', '.join(names)}" if names else ""


def _said(outcomes: Path) -> Iterator[Line]:
    for line in outcome_lines(outcomes):
        called, returned = line.get("called_at_us"), line.get("returned_at_us")
        if line["operation"] != "send" or called is None:
            continue
        if returned and returned - called >= _SLOW_US:
            yield Line(returned, f"send returns after {(returned - called) / 1000:.0f} ms")
        if line["outcome"] != "pending" and line.get("completed_at_us") is not None:
            took_us = line["completed_at_us"] - called
            who = "a fresh producer's send" if line.get("client", "").endswith("-fresh") else "send"
            error = f": {line['error']}" if line.get("error") else ""
            fine = line["outcome"] == "ok" and took_us < _SLOW_US and who == "send"
            yield Line(
                line["completed_at_us"],
                f"{who} is told {line['outcome']} after {took_us / 1000:.0f} ms{error}",
                usual=fine,
            )
        elif not returned:
            yield Line(called, "the application calls send", usual=True)


def _together(lines: Iterable[Line]) -> Iterator[Line]:
    held: Line | None = None
    for line in lines:
        if held is not None and held.text == line.text:
            held = replace(held, count=held.count + 1, last_at_us=line.at_us)
            continue
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held
