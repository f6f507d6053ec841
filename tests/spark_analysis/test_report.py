"""The four reports of one made-up analysis: complete, escaped, offline. No Spark here."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from typing import Any
from xml.etree import ElementTree

import pytest

from notleader.spark_analysis.checks import Group, all_checks
from notleader.spark_analysis.docs import meaning
from notleader.spark_analysis.findings import Finding, verdict
from notleader.spark_analysis.jobs.analyze import Analysis, Drawn
from notleader.spark_analysis.outcomes import BadLine
from notleader.spark_analysis.profile import CaptureProfile, OutcomeProfile
from notleader.spark_analysis.report import figures, html, junit, markdown
from notleader.spark_analysis.report.summary import changes, summary
from notleader.spark_analysis.transforms.timeline import MOST_BINS, MOST_SERIES, bin_width_us

NASTY = "</script><b>x|y {{plotly}} \x01"
AT = 1_750_000_000_000_000


def finding(check: str, what: str, cases: int = 1, sentence: str = "Something happened.") -> Finding:
    group = Group(check, what, "app", "orders", 0, NASTY, "error", "error:6", cases, cases, AT, AT, 5000, 4000)
    wire: dict[str, Any] = {
        "request_at_us": AT, "response_at_us": AT + 900, "connection_id": 1, "exchange_seq": 2, "api_name": "Produce",
        "node_id": 1, "outcome": "injected", "error_code": 6, "base_offset": -1, "fault_names": [NASTY],
        "fault_kinds": ["error"], "fault_phase": "before_broker", "match_kind": "message_id",
    }  # fmt: skip
    evidence = {"at_us": AT, "duration_us": 5000, "message_id": NASTY, "operation_id": 1, "note": NASTY,
                "exchanges": [wire]}  # fmt: skip
    return Finding(check, check.title(), what, sentence, group, (evidence,))


@pytest.fixture
def analysis() -> Analysis:
    findings = [
        finding("lost", "invalid", 3, f"Three sends were lost by {NASTY}."),
        finding("retried", "valid"),
        Finding("hang", "Hang", "valid", "Every send got an outcome.", None, ()),
        Finding("commit", "Commit", "unknown", "Not judged: no commit.", None, ()),
    ]
    traffic = {"bin_us": AT, "api_name": "Produce", "node_id": 1, "client": None, "count": 9, "errors": 1, "faulted": 1,
               "p50_us": 5, "p99_us": 9, "max_us": 12}  # fmt: skip
    counts = dict.fromkeys(("count", "ok", "fail", "info", "pending", "retried", "faulted", "unmatched"), 1)
    client = {"client": NASTY, "client_version": None, "operation": "send", "quantiles": None, "max_us": None,
              "max_blocked_us": None, **counts}  # fmt: skip
    drawn = Drawn(
        first_us=AT,
        last_us=AT + 1_000_000,
        bin_us=5000,
        operations_bin_us=20000,
        traffic=[
            traffic, {**traffic, "node_id": 2}, {**traffic, "api_name": None, "node_id": None, "client": NASTY}
        ],
        faults=[{"rule": NASTY, "kind": "error", "api_name": "Produce", "bin_us": AT, "hits": 2, "first_us": AT,
                 "until_us": AT + 10}],
        outcomes=[{"bin_us": AT, "outcome": "ok", "count": 4, "max_us": 3}],
        clients=[client],
        spread=[{"client": "app", "faulted": True, "step": 31, "count": 4}],
        matched={"message_id": 4, "none": 1, "attempts": 3},
    )  # fmt: skip
    capture = CaptureProfile(9, 9, 1, 4, 4, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, AT, AT + 1, (("run-1", AT, AT + 1),))
    said = OutcomeProfile(6, 1, 5, 4, 0, 0, 1, 0, 0, 0, 0, 0, AT, AT + 1)
    bad = [BadLine("/data/a.jsonl", 7, "not JSON", NASTY)]
    return Analysis(verdict(findings), findings, capture, said, None, bad, drawn, "out", 1.0)


def test_the_html_is_whole_offline_and_escaped(analysis: Analysis) -> None:
    page = html.render(analysis)
    own = page.replace(html._asset("plotly-basic.min.js"), "")
    assert not re.search(r"(src|href)\s*=|@import|url\(", own)
    assert "<b>x" not in own
    assert own.count("{{plotly}}") >= 3
    assert own.count("</script>") == 4
    assert "Plotly" in page
    data = json.loads(re.search(r'id="figures">(.*?)</script>', own, re.S)[1])  # type: ignore[index]
    assert set(data) == {"timeline", "spread", "recovery"} - {"recovery"}
    assert "NOT_LEADER_OR_FOLLOWER" in own
    assert "/data/a.jsonl:7" in own


def test_each_finding_says_what_its_verdict_means(analysis: Analysis) -> None:
    page = html.render(analysis)
    for check in (each for each in all_checks() if each.name in ("lost", "retried", "hang")):
        for word, text in meaning(check):
            said = re.sub("`(.+?)`", r"<code>\1</code>", escape(text))
            assert f"<li><i>{word}</i>: {said}</li>" in page, (check.name, word)


def test_latency_is_shown_by_api_and_at_a_click_by_broker_or_client(analysis: Analysis) -> None:
    figure = figures.timeline(analysis.drawn)
    latency = [trace for trace in figure["data"] if trace["yaxis"] == "y2"]
    assert [trace["name"] for trace in latency[:-1]] == ["Produce", "broker 1", "broker 2"]
    shown = {
        button["label"]: [trace for trace, visible in zip(figure["data"], button["args"][1], strict=True) if visible]
        for button in figure["layout"]["updatemenus"][0]["buttons"]
    }
    rest = [trace for trace in figure["data"] if trace["yaxis"] != "y2"]
    assert [len(traces) - len(rest) for traces in shown.values()] == [1, 2, 1]
    assert list(shown) == ["by API", "by broker", "by client"]
    assert latency[-1] in shown["by client"]
    assert all(trace in traces for traces in shown.values() for trace in rest)


def test_colours_are_left_to_the_page(analysis: Analysis) -> None:
    drawn = json.dumps([figures.timeline(analysis.drawn), figures.spread(analysis.drawn)])
    assert not re.search(r'color": "(#|rgb)', drawn)
    named = set(re.findall(r"var:(--[\w-]+)", drawn))
    style = html._asset("style.css")
    light, dark = style.split(":root[data-theme=dark]")
    assert named
    assert all(f"{name}:" in light and f"{name}:" in dark for name in named)


def test_the_markdown_table_keeps_its_columns(analysis: Analysis) -> None:
    rows = [line for line in markdown.render(analysis).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 4
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "`/data/a.jsonl:7`" in markdown.render(analysis)


def test_the_junit_file_parses_and_counts(analysis: Analysis) -> None:
    suite = ElementTree.fromstring(junit.render(analysis))
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "4", "failures": "1", "skipped": "1",
    }  # fmt: skip
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["lost"]


def test_the_summary_is_short_and_worst_first(analysis: Analysis) -> None:
    lines = summary(analysis).splitlines()
    assert lines[0] == "verdict NEGATIVE: lost"
    assert lines[3].startswith("✗ Lost: Three sends were lost")
    assert any("/data/a.jsonl:7 set aside: not JSON" in line for line in lines)
    many = replace(analysis, findings=[finding(f"c{n}", "invalid") for n in range(40)])
    assert len(summary(many).splitlines()) <= 20
    assert "29 more findings in the report" in summary(many)


def test_the_verdict_is_the_worst_and_undecided_alone_is_unknown(analysis: Analysis) -> None:
    assert verdict(analysis.findings) == "invalid"
    assert verdict([f for f in analysis.findings if f.verdict != "invalid"]) == "valid"
    assert verdict(analysis.findings[3:]) == "unknown"


def test_many_clients_neither_crowd_the_legend_nor_vanish(analysis: Analysis) -> None:
    spread = [{"client": f"client-{n}", "faulted": n % 2 == 0, "step": 30, "count": 100 - n} for n in range(40)]
    clients = [{**analysis.drawn.clients[0], "client": f"client-{n}", "pending": int(n == 399)} for n in range(400)]
    crowded = replace(analysis, drawn=replace(analysis.drawn, spread=spread, clients=clients))
    figure = figures.spread(crowded.drawn)
    assert sum(sum(trace["y"]) for trace in figure["data"]) == sum(row["count"] for row in spread)
    assert len(figure["data"]) <= 2 * (MOST_SERIES + 1)
    # The legend lies below the axis' title, in a margin that has room for its rows.
    legend, bottom = figure["layout"]["legend"], figure["layout"]["margin"]["b"]
    assert (legend["yref"], legend["y"], legend["yanchor"]) == ("container", 0, "bottom")
    one = figures.spread(replace(analysis.drawn, spread=spread[:1]))["layout"]["margin"]["b"]
    assert bottom > one > 56
    page = html.render(crowded)
    assert "client-399" in page
    assert "100 more are in history/" in page


def test_many_findings_of_one_check_do_not_hide_the_others(analysis: Analysis) -> None:
    many = [finding("retried", "valid", 1, f"Partition {n} was retried.") for n in range(40)]
    page = html.render(replace(analysis, findings=[*many, finding("late", "valid", 1, "One was late.")]))
    in_sight = re.sub(
        r'<details class="quiet">.*?</summary>.*?Partition 39.*?</details>\s*</details>', "", page, flags=re.S
    )
    assert "35 more" in page
    assert [f"Partition {n} was" in in_sight for n in (0, 4, 5, 39)] == [True, True, False, False]
    assert "One was late" in in_sight


def test_clients_that_recover_in_one_place_are_not_added_up() -> None:
    def recovered(client: str, partition: int, slowest_us: int) -> Finding:
        plain = finding("recovery", "valid")
        assert plain.group is not None
        return replace(plain, group=plain.group._replace(client=client, partition=partition, slowest_us=slowest_us))

    figure = figures.recovery([recovered("a", 0, 5000), recovered("b", 0, 3000), recovered("a", 1, 4000)])
    assert figure is not None
    assert figure["data"][0]["x"] == [4.0, 5.0]
    assert len(set(figure["data"][0]["y"])) == 2


@pytest.mark.parametrize("span_us", [1, 999, 5_000_000, 86_400_000_000, 10**14])
def test_bins_are_bounded_whatever_the_span(span_us: int) -> None:
    assert span_us / bin_width_us(AT, AT + span_us) <= MOST_BINS


PLANTED = (
    "\x1b]0;owned\x07\x1b[2J\nverdict OK\r=cmd|'/c calc'!A1`rm`<script>alert(1)</script>|[x](http://x)\u202e\udcff"
)


@pytest.fixture
def planted(analysis: Analysis) -> Analysis:
    """Names as a client on the wire may choose them, wherever a report tells one."""
    told = [
        finding(name, verdict, 3, f"3 sends of {PLANTED} to {PLANTED} failed with {PLANTED}.")
        for name, verdict in (("lost", "invalid"), ("retried", "valid"), ("late", "unknown"))
    ]
    for one in told:
        one.evidence[0]["message_id"] = one.evidence[0]["note"] = PLANTED
        one.evidence[0]["exchanges"][0]["fault_names"] = [PLANTED]
    clients = [{**analysis.drawn.clients[0], "client": PLANTED, "client_version": PLANTED}]
    traffic = [{**row, "client": PLANTED, "api_name": PLANTED} for row in analysis.drawn.traffic]
    return replace(
        analysis,
        findings=told,
        bad_lines=[BadLine(PLANTED, 1, PLANTED, PLANTED)],
        drawn=replace(analysis.drawn, clients=clients, traffic=traffic),
    )


@pytest.mark.parametrize("outlet", [html.render, markdown.render, junit.render, summary])
def test_names_from_the_wire_do_nothing_in_any_report(planted: Analysis, outlet: Any) -> None:
    text = outlet(planted)
    text.encode()  # a lone surrogate would not go into a file
    assert not set(text) & set("\x1b\x07\r\u202e")
    assert "\\x1b" in text
    assert not [line for line in text.split("\n") if line.startswith(("verdict OK", "=cmd"))]
    if outlet is not summary:
        assert "<script>alert" not in text
    if outlet is markdown.render:
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
        beside = re.sub(r"^- set aside `[^`]*`", "", text, flags=re.M)
        assert not re.search(r"(?<!\\)[`\[]", beside)
    if outlet is junit.render:
        (failure,) = ElementTree.fromstring(text).findall(".//failure")
        assert "\n" not in failure.attrib["message"]


def test_what_changes_while_a_test_runs_is_told_line_by_line(planted: Analysis) -> None:
    for line in changes(None, planted) + changes(planted, replace(planted, findings=[])):
        assert line.isprintable()
