"""Plotly figures as plain dicts. Colours are names of CSS variables (`var:--…`), so that the page's theme decides."""

from __future__ import annotations

from typing import Any

from notleader.spark_analysis.checks import Group
from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.jobs.analyze import Drawn
from notleader.spark_analysis.report.printable import printable
from notleader.spark_analysis.transforms.timeline import MOST_SERIES, OTHERS

MOST_RULES = 12
_FEW_POINTS = 20
_SERIES = [f"var:--series-{number}" for number in range(1, 9)]
_OUTCOME_COLOURS = {
    "ok": "var:--good",
    "fail": "var:--warn",
    "info": "var:--faint",
    "pending": "var:--bad",
}
_OUTCOME_WORDS = {"ok": "ok", "fail": "failed", "info": "uncertain", "pending": "never answered"}

Figure = dict[str, Any]


def timeline(drawn: Drawn) -> Figure:
    """Faults, exchange latency and operations over one time axis; latency by API, or by broker or client at a click."""
    faults, rules = _fault_traces(drawn)
    latency = {
        "by API": _latency_traces(drawn, "api_name", "{}"),
        "by broker": _latency_traces(drawn, "node_id", "broker {}"),
        "by client": _latency_traces(drawn, "client", "{}"),
    }
    for trace in [*latency["by broker"], *latency["by client"]]:
        trace["visible"] = False
    outcomes = [*_waiting_trace(drawn), *_outcome_traces(drawn)]
    rows = max(len(rules), 1)
    top = min(0.06 * rows + 0.04, 0.3) if rules else 0.0
    layout: dict[str, Any] = {
        "height": 560 + 24 * len(rules),
        "margin": {"l": 70, "r": 16, "t": 44, "b": 40},
        "barmode": "stack",
        "bargap": 0.08,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.08, "yanchor": "top"},
        "xaxis": {
            "type": "date",
            "range": [_ms(drawn.first_us - drawn.bin_us // 4), _ms(drawn.last_us + drawn.bin_us)],
            "anchor": "y3",
            "hoverformat": "%H:%M:%S.%L",
        },
        "yaxis3": {"domain": [0, 0.22], "title": {"text": "operations"}, "rangemode": "tozero"},
        "yaxis2": {
            "domain": [0.28, 1 - top - (0.04 if rules else 0)],
            "title": {"text": "slowest"},
            "type": "log",
            **_duration_ticks(),
        },
        "yaxis": {
            "domain": [1 - top, 1] if rules else [0.999, 1],
            "visible": bool(rules),
            "autorange": "reversed",
            "showticklabels": False,
        },
        # Beside the plot the rules' names would take most of a telephone.
        "annotations": [
            {
                "text": rule,
                "xref": "paper",
                "x": 0,
                "xanchor": "left",
                "yref": "y",
                "y": rule,
                "yanchor": "bottom",
                "yshift": 4,
                "showarrow": False,
            }
            for rule in rules
        ],
    }
    choices = {
        label: [True] * len(faults)
        + [label == other for other, traces in latency.items() for _ in traces]
        + [True] * len(outcomes)
        for label, traces in latency.items()
        if traces
    }
    if len(choices) > 1:
        layout["updatemenus"] = [
            {
                "type": "buttons",
                "direction": "right",
                "x": 1,
                "xanchor": "right",
                "y": 1.02,
                "yanchor": "bottom",
                "pad": {"t": 0, "b": 2},
                "showactive": False,
                "buttons": [
                    {"label": label, "method": "restyle", "args": ["visible", shown]}
                    for label, shown in choices.items()
                ],
            }
        ]
    return {"data": [*faults, *(trace for traces in latency.values() for trace in traces), *outcomes], "layout": layout}


def _fault_traces(drawn: Drawn) -> tuple[list[dict[str, Any]], list[str]]:
    rules: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(drawn.faults, key=lambda row: row["first_us"]):
        rules.setdefault(row["rule"], []).append(row)
    names = _labels([f"{rule} ({rows[0]['kind']})" for rule, rows in rules.items()])
    traces = []
    for rule, rows in list(zip(names, rules.values(), strict=True))[:MOST_RULES]:
        x: list[float | None] = []
        for row in rows:
            x += [_ms(row["first_us"]), _ms(max(row["until_us"], row["first_us"])), None]
        shared = {"type": "scatter", "yaxis": "y", "showlegend": False}
        traces.append(
            {**shared, "x": x, "y": [rule] * len(x), "mode": "lines", "hoverinfo": "skip",
             "line": {"width": 9, "color": "var:--fault-soft"}}
        )  # fmt: skip
        traces.append(
            {
                **shared,
                "x": [_ms(row["first_us"]) for row in rows],
                "y": [rule] * len(rows),
                "mode": "markers",
                "marker": {"symbol": "diamond", "size": 9, "color": "var:--fault"},
                "text": [f"{row['hits']} x {row['api_name']}" for row in rows],
                "hovertemplate": "%{x|%H:%M:%S.%L}<br>%{text}<extra>" + rule + "</extra>",
            }
        )
    return traces, names[:MOST_RULES]


def _labels(names: list[str]) -> list[str]:
    """The names short enough for an axis, and still as many: what two would share is numbered."""
    short: list[str] = []
    for name in names:
        label = _plain(_short(name))
        short.append(label if label not in short else f"{label} #{len(short) + 1}")
    return short


def _latency_traces(drawn: Drawn, by: str, label: str) -> list[dict[str, Any]]:
    totals: dict[Any, int] = {}
    bins: dict[Any, dict[int, dict[str, Any]]] = {}
    for row in drawn.traffic:
        if row["max_us"] is None or row[by] is None:
            continue
        name = row[by]
        totals[name] = totals.get(name, 0) + row["count"]
        merged = bins.setdefault(name, {}).setdefault(
            row["bin_us"], {"count": 0, "errors": 0, "faulted": 0, "p50_us": 0, "p99_us": 0, "max_us": 0}
        )
        for column in ("count", "errors", "faulted"):
            merged[column] += row[column]
        for column in ("p50_us", "p99_us", "max_us"):
            merged[column] = max(merged[column], row[column])
    traces = []
    names = sorted(totals, key=lambda name: -totals[name])[:MOST_SERIES]
    for number, name in enumerate(names):
        points = sorted(bins[name].items())
        # Few points are no line: they have to be seen one by one.
        plain = 3 if len(points) > _FEW_POINTS else 7
        colour = _SERIES[number % len(_SERIES)]
        traces.append(
            {
                "type": "scatter",
                "yaxis": "y2",
                "mode": "lines+markers",
                "name": _plain(label.format(name)),
                "x": [_ms(at) for at, _ in points],
                "y": [max(values["max_us"], 1) / 1000 for _, values in points],
                "line": {"width": 1.5, "color": colour},
                "marker": {
                    "size": [9 if values["errors"] or values["faulted"] else plain for _, values in points],
                    "line": {"width": 0},
                    "symbol": ["x" if v["errors"] else "diamond" if v["faulted"] else "circle" for _, v in points],
                    "color": colour,
                },
                "text": [_told(values) for _, values in points],
                "hovertemplate": "%{x|%H:%M:%S.%L}<br>%{text}<extra>" + _plain(label.format(name)) + "</extra>",
            }
        )
    return traces


def _told(values: dict[str, Any]) -> str:
    slowest, p99 = values["max_us"] / 1000, values["p99_us"] / 1000
    text = f"slowest {slowest:,.1f} ms, p99 {p99:,.1f} ms<br>{values['count']:,} exchanges"
    if values["errors"]:
        text += f", {values['errors']:,} with an error"
    if values["faulted"]:
        text += f", {values['faulted']:,} faulted"
    return text


def _waiting_trace(drawn: Drawn) -> list[dict[str, Any]]:
    """How long operations took, by when they were called: where nothing is exchanged an outage shows here alone."""
    slowest: dict[int, int] = {}
    for row in drawn.outcomes:
        if row["max_us"] is not None:
            slowest[row["bin_us"]] = max(slowest.get(row["bin_us"], 0), row["max_us"])
    if not slowest:
        return []
    points = sorted(slowest.items())
    return [
        {
            "type": "scatter",
            "yaxis": "y2",
            "mode": "lines+markers",
            "name": "operations",
            "x": [_ms(at + drawn.operations_bin_us / 2) for at, _ in points],
            "y": [max(took, 1) / 1000 for _, took in points],
            "line": {"width": 2, "color": "var:--faint", "shape": "hvh"},
            "marker": {"size": 4, "color": "var:--faint"},
            "hovertemplate": "%{x|%H:%M:%S.%L}<br>slowest operation %{y:,.1f} ms<extra></extra>",
        }
    ]


def _outcome_traces(drawn: Drawn) -> list[dict[str, Any]]:
    traces = []
    for outcome, word in _OUTCOME_WORDS.items():
        rows = sorted((row for row in drawn.outcomes if row["outcome"] == outcome), key=lambda row: row["bin_us"])
        if rows:
            traces.append(
                {
                    "type": "bar",
                    "yaxis": "y3",
                    "name": word,
                    "x": [_ms(row["bin_us"] + drawn.operations_bin_us / 2) for row in rows],
                    "y": [row["count"] for row in rows],
                    "width": drawn.operations_bin_us / 1000 * 0.92,
                    "marker": {"color": _OUTCOME_COLOURS[outcome], "line": {"width": 0}},
                    "hovertemplate": "%{x|%H:%M:%S.%L}<br>%{y} " + word + "<extra></extra>",
                }
            )
    return traces


def spread(drawn: Drawn) -> Figure:
    """How long operations took, by client, those that a fault touched apart."""
    totals: dict[str, int] = {}
    for row in drawn.spread:
        client = row["client"] or "client"
        totals[client] = totals.get(client, 0) + row["count"]
    shown = sorted(totals, key=lambda client: -totals[client])[:MOST_SERIES]
    series: dict[tuple[str, bool], dict[int, int]] = {}
    for row in drawn.spread:
        client = row["client"] or "client"
        steps = series.setdefault((client if client in shown else OTHERS, row["faulted"]), {})
        steps[row["step"]] = steps.get(row["step"], 0) + row["count"]
    names = sorted({client for client, _ in series} - {OTHERS})
    traces: list[dict[str, Any]] = []
    for (client, faulted), steps in sorted(series.items()):
        colour = "var:--faint" if client == OTHERS else _SERIES[names.index(client) % len(_SERIES)]
        marker: dict[str, Any] = {"color": colour, "line": {"width": 0}}
        if faulted:
            marker["pattern"] = {"shape": "/", "size": 5, "solidity": 0.5}
        traces.append(
            {
                "type": "bar",
                "name": f"{client}, faulted" if faulted else client,
                "x": [step / 10 - 3 for step in sorted(steps)],
                "y": [steps[step] for step in sorted(steps)],
                "width": 0.09,
                "marker": marker,
                "customdata": [10 ** (step / 10) / 1000 for step in sorted(steps)],
                "hovertemplate": "from %{customdata:.3~s} ms: %{y}<extra>%{fullData.name}</extra>",
            }
        )
    ticks = _duration_ticks()
    legend = _legend_px([trace["name"] for trace in traces])
    layout = {
        "height": 320 + legend,
        "margin": {"l": 60, "r": 16, "t": 16, "b": 56 + legend},
        "barmode": "stack",
        # At the page's end of the figure, where no title of an axis is, however many rows it has.
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        "xaxis": {
            "title": {"text": "called until completed", "standoff": 6},
            "automargin": True,
            "tickvals": list(range(-3, 7)),
            "ticktext": ticks["ticktext"],
            "zeroline": False,
        },
        "yaxis": {"title": {"text": "operations (log)"}, "type": "log", "dtick": 1},
    }
    return {"data": traces, "layout": layout}


def _legend_px(names: list[str], width_px: int = 760) -> int:
    """The height of a legend with these names in a row, wrapped in a window that is not too wide."""
    rows, left = 1, width_px
    for name in names:
        wide = 60 + 7 * len(name)
        if wide > left and left < width_px:
            rows, left = rows + 1, width_px
        left -= wide
    return 8 + 20 * rows


def recovery(findings: list[Finding]) -> Figure | None:
    """Time to recover by place and rule, the slowest client's, or None when nothing had to recover."""
    rows = [
        f.group for f in findings if f.check == "recovery" and f.verdict == "valid" and f.group and f.group.slowest_us
    ]
    if not rows:
        return None
    # One bar a rule, its slowest place: bars of one name would be added up.
    slowest: dict[str, Group] = {}
    for group in sorted(rows, key=lambda group: group.slowest_us or 0):
        slowest.pop(group.rule or "", None)
        slowest[group.rule or ""] = group
    labels = _labels([f"{rule}: {group.topic or '?'}-{_number(group.partition)}" for rule, group in slowest.items()])
    bars = [(label, group.slowest_us or 0) for label, group in zip(labels, slowest.values(), strict=True)][-20:]
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": [took_us / 1000 for _, took_us in bars],
                "y": [label for label, _ in bars],
                "marker": {"color": "var:--series-1", "line": {"width": 0}},
                "hovertemplate": "%{x:,.0f} ms<extra></extra>",
            }
        ],
        "layout": {
            "height": 110 + 30 * len(bars),
            "margin": {"l": 16, "r": 16, "t": 16, "b": 44},
            "showlegend": False,
            "xaxis": {"title": {"text": "ms", "standoff": 6}, "rangemode": "tozero", "automargin": True},
            "yaxis": {"automargin": True},
        },
    }


def _number(partition: int | None) -> str:
    return "?" if partition is None else str(partition)


def _duration_ticks() -> dict[str, Any]:
    """Ticks of a log axis of ms, in words."""
    words = ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "17 min"]
    return {"tickvals": [10.0**power for power in range(-3, 7)], "ticktext": words}


def _ms(microseconds: float) -> float:
    return microseconds / 1000


def _short(text: str, most: int = 36) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _plain(text: str) -> str:
    """Plotly reads a little HTML in hover texts; a rule's name must not be any."""
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")
