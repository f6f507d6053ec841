"""Dashboard and alert rules ask only for metrics and labels that there are; the dashboard for all of our own."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from notleader.proxy.admin.exposition import make_registry, render
from notleader.proxy.session.metrics import Counters
from notleader.proxy.wire.names import ApiKey
from tests.docker.image import PROJECT

DASHBOARD: dict[str, Any] = json.loads((PROJECT / "docker/grafana/notleader.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
EXPRESSIONS += [entry["expr"] for entry in DASHBOARD["annotations"]["list"]]


def exposed() -> dict[str, set[str]]:
    """Each metric's label names, with something counted everywhere."""
    counters = Counters()
    counters.traffic.answered(ApiKey.Produce, 10)
    counters.traffic.unanswered[ApiKey.Produce] += 1
    counters.errors[(ApiKey.Produce, 6)] += 1
    counters.hit("rule", "error", "before_broker")
    counters.connections_opened["bootstrap"] += 1
    counters.wire_errors["client"] += 1
    capture = SimpleNamespace(queued_rows=0, written_rows=0, lost_rows=0, segments=0)
    registry = make_registry(SimpleNamespace(counters=counters, capture=capture))
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(b"".join(render(registry, "")[0]).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {"instance", "job"}).update(sample.labels)
    return found


def asked(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:notleader|process)_[a-z_]+", expression))


def test_every_metric_that_is_asked_for_exists_with_its_labels() -> None:
    known = exposed()
    for expression in EXPRESSIONS:
        names = asked(expression)
        assert names, expression
        assert names <= known.keys(), expression
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            assert set(labels.split(", ")) <= set.union(*(known[name] for name in names)), expression
    for panel in DASHBOARD["panels"]:
        legends = {word for target in panel["targets"] for word in re.findall(r"{{(\w+)}}", target["legendFormat"])}
        by = [labels for target in panel["targets"] for labels in re.findall(r"by \(([^)]*)\)", target["expr"])]
        grouped = {word for labels in by for word in labels.split(", ")}
        assert legends <= grouped, panel["title"]


def test_nothing_of_the_proxy_is_left_out() -> None:
    derived = ("_created", "_sum", "_count")
    own = {name for name in exposed() if name.startswith("notleader_") and not name.endswith(derived)}
    queried = {name for expression in EXPRESSIONS for name in asked(expression)}
    assert own - queried == {"notleader_event_loop_lag_max_seconds"}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_alerts_ask_for_what_there_is() -> None:
    known = exposed()
    (group,) = yaml.safe_load((PROJECT / "docker/prometheus/notleader.rules.yaml").read_text())["groups"]
    for rule in group["rules"]:
        names = asked(rule["expr"])
        assert names, rule["alert"]
        assert names <= known.keys(), rule["alert"]
        labels = set.union(*(known[name] for name in names))
        for grouped in re.findall(r"by \(([^)]*)\)", rule["expr"]):
            assert set(grouped.split(", ")) <= labels, rule["alert"]
        # What never falls is asked for how it has changed: else the alert would stand until the proxy is restarted.
        never_falls = {name for name in names if name.endswith(("_total", "_max_seconds"))}
        assert never_falls == {name for name in never_falls if f"{name}[" in rule["expr"]}, rule["alert"]
        told = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert told <= labels, rule["alert"]
