"""The four reports of one made-up analysis: complete, escaped, offline. No Spark here."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape
from typing import Any
from xml.etree import ElementTree

import pytest

from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.checks.base import REGISTRY
from notleader.spark_analysis.docs import meaning
from notleader.spark_analysis.findings import Finding, told, verdict
from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.outcomes import BadLine
from notleader.spark_analysis.report import figures, html, junit, markdown
from notleader.spark_analysis.report.causes import chapters, one_line_per_storm
from notleader.spark_analysis.report.summary import basis, changes, summary
from notleader.spark_analysis.transforms.timeline import MOST_BINS, MOST_SERIES, bin_width_us

from .made_up import AT, finding, made_up


@pytest.fixture
def analysis() -> Analysis:
    return made_up()


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


def by_rule(check: str, rule: str | None, cases: int, client: str = "app", **given: Any) -> Finding:
    plain = finding(check, given.pop("verdict", "valid"), cases)
    assert plain.group is not None
    group = plain.group._replace(rule=rule, client=client, **given)
    note = given.get("trouble")
    evidence = ({**plain.evidence[0], "note": note},) if note else plain.evidence
    title = REGISTRY[check].title
    return Finding(check, title, group.verdict, told(REGISTRY[check].sentence(group), group), group, evidence)


def struck(rule: str, at_us: int, until_us: int) -> dict[str, Any]:
    return {"rule": rule, "kind": "error", "api_name": "Produce", "bin_us": at_us, "hits": 2, "first_us": at_us,
            "until_us": until_us}  # fmt: skip


def test_the_report_is_told_by_cause_in_the_order_of_the_rules(analysis: Analysis) -> None:
    faults = [
        struck("late", AT + 9_000_000, AT + 9_500_000),
        struck("lost", AT, AT + 2_000_000),
        struck("idle", AT + 1, AT + 1),
    ]
    findings = [
        by_rule("retried", "lost", 2),
        by_rule("late", "late, lost", 58, slowest_us=4_100_000),
        by_rule("metadata_storm", "lost", 1, "a", verdict="invalid", trouble="590 in one second"),
        by_rule("metadata_storm", "lost", 2, "b", verdict="invalid", trouble="120 in one second"),
        by_rule("failed", None, 3),
    ]
    told_ = chapters(replace(analysis, findings=findings, drawn=replace(analysis.drawn, faults=faults)))
    assert [chapter.rule for chapter in told_] == ["lost", "idle", "late", None]
    assert told_[0].head == "lost (error), 2.0 s, 2 hits"
    assert told_[0].told == (
        "a and b asked for metadata up to 590 times a second, 58 sends waited up to 4.1 s, 2 sends retried"
    )
    assert told_[1].told == "nothing that the clients tell of went wrong or took 1.0 s"
    unknown = by_rule("recovery", "lost", 1, verdict="unknown")
    for found, said in (
        ([unknown], "recovery at 1 place not known"),
        (
            [unknown, by_rule("recovery", "lost", 1, "b", slowest_us=4_000)],
            "acknowledged again after 4 ms, recovery at 1 place not known",
        ),
    ):
        (only,) = chapters(replace(analysis, findings=found, drawn=replace(analysis.drawn, faults=faults[1:2])))
        assert only.told == said
    assert told_[2].told == "58 sends waited up to 4.1 s"
    assert told_[3].head == "No rule had a hand in it"
    assert told_[3].told == "3 operations told an error"


@pytest.mark.parametrize("check", sorted(REGISTRY))
def test_what_is_undecided_is_told_as_undecided(analysis: Analysis, check: str) -> None:
    told_ = []
    for verdict_ in ("invalid", "unknown"):
        found = [by_rule(check, "lost", 2, verdict=verdict_, trouble=None)]
        (chapter,) = chapters(replace(analysis, findings=found, drawn=replace(analysis.drawn, faults=[])))
        told_.append(chapter.told)
    decided, undecided = told_
    assert undecided != decided
    assert re.search("perhaps|not completed yet|no broker acknowledged|not known", undecided)
    assert undecided == "2 sends acknowledged, and not known to be in the log" or check != "lost"


def test_without_outcome_lines_nobody_is_said_to_have_noticed_nothing(analysis: Analysis) -> None:
    silent = replace(analysis, findings=[], outcomes=replace(analysis.outcomes, lines=0))
    silent = replace(silent, drawn=replace(analysis.drawn, faults=[struck("lost", AT, AT)]))
    (chapter,) = chapters(silent)
    assert chapter.told == "nothing that is looked for in traffic alone"
    assert basis(silent).endswith("; no client said what became of its calls (--outcomes)")


def test_what_lasted_no_time_is_told_without_a_length(analysis: Analysis) -> None:
    faults = [struck("lost", AT, AT)]
    findings = [by_rule("wrong_broker", "lost", 1, slowest_us=0), by_rule("recovery", "lost", 1, slowest_us=0)]
    (told_,) = chapters(replace(analysis, findings=findings, drawn=replace(analysis.drawn, faults=faults)))
    assert told_.told == "app refused as at the wrong broker, acknowledged again"
    assert not any("0 µs" in finding.sentence for finding in findings)


def test_rules_of_one_name_at_two_proxies_are_two(analysis: Analysis) -> None:
    faults = [
        struck("slow", AT, AT + 1_500_000) | {"kind": "stall"},
        struck("slow", AT + 1, AT + 1) | {"kind": "delay"},
    ]
    findings = [by_rule("late", "slow", 12, kind="stall", slowest_us=1_500_000)]
    told_ = chapters(replace(analysis, findings=findings, drawn=replace(analysis.drawn, faults=faults)))
    assert [(chapter.head, chapter.told) for chapter in told_] == [
        ("slow (stall), 1.5 s, 2 hits", "12 sends waited up to 1.5 s"),
        ("slow (delay), 2 hits", "nothing that the clients tell of went wrong or took 1.0 s"),
    ]


def test_what_the_capture_cannot_tell_acquits_nobody(analysis: Analysis) -> None:
    findings = [by_rule("failed", None, 3), by_rule("failed", None, 2, "b", trouble="unseen")]
    own, unseen = chapters(replace(analysis, findings=findings, drawn=replace(analysis.drawn, faults=[])))
    assert (own.head, own.told) == ("No rule had a hand in it", "3 operations told an error")
    assert unseen.head == "Whether a rule had a hand in it is not known"
    assert "whether a fault had a hand in it is not known: they went out in requests" in findings[1].sentence
    idle = replace(analysis.drawn, faults=[struck("idle", AT, AT)])
    (of_idle, *_) = chapters(replace(analysis, findings=findings, drawn=idle))
    assert of_idle.told == "nothing that is known to be its doing"


def test_a_fleet_that_storms_is_one_line(analysis: Analysis) -> None:
    storms = [by_rule("metadata_storm", f"r{n % 2}", 2, f"client-{n}", verdict="invalid") for n in range(60)]
    (one,) = one_line_per_storm(storms)
    assert one.sentence.startswith("60 clients asked for metadata without a pause in 120 seconds by rules r0, r1")
    lines = summary(replace(analysis, findings=storms)).splitlines()
    assert sum("Metadata storm" in line for line in lines) == 1


def test_names_keep_their_case_at_the_beginning_of_a_sentence() -> None:
    assert by_rule("metadata_storm", None, 1, "rdkafka").sentence.startswith("rdkafka asked")


def test_latency_is_shown_by_api_and_at_a_click_by_broker_or_client(analysis: Analysis) -> None:
    figure = figures.timeline(analysis.drawn)
    latency = [trace for trace in figure["data"] if trace["yaxis"] == "y2"]
    *latency, waiting = latency
    assert waiting["name"] == "operations"
    assert [trace["name"] for trace in latency[:-1]] == ["Produce", "broker 1", "broker 2"]
    shown = {
        button["label"]: [trace for trace, visible in zip(figure["data"], button["args"][1], strict=True) if visible]
        for button in figure["layout"]["updatemenus"][0]["buttons"]
    }
    # What operations took is shown beside any of them: where nothing is exchanged it alone is seen.
    rest = [trace for trace in figure["data"] if trace["yaxis"] != "y2"] + [waiting]
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
    assert len(rows) == 2 + 2
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "`/data/a.jsonl:7`" in markdown.render(analysis)


def test_what_found_nothing_is_folded_away_in_markdown(analysis: Analysis) -> None:
    before, _, folded = markdown.render(analysis).partition("<details><summary>")
    assert folded.startswith("1 question answered with nothing found, 1 not judged</summary>\n\n- ")
    silent = [f for f in analysis.findings if not f.count and f.verdict == "unknown"]
    assert all(f"{f.title}: " in folded and f.title not in before for f in silent)
    assert len(silent) == 1


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
    by_question = page.partition("<h2>By question</h2>")[2]
    in_sight = re.sub(
        r'<details class="quiet">.*?</summary>.*?Partition 39.*?</details>\s*</details>', "", by_question, flags=re.S
    )
    assert "35 more" in by_question
    assert [f"Partition {n} was" in in_sight for n in (0, 4, 5, 39)] == [True, True, False, False]
    assert "One was late" in in_sight


def test_one_rule_is_one_bar_in_every_chart(analysis: Analysis) -> None:
    def recovered(client: str, rule: str, slowest_us: int) -> Finding:
        plain = finding("recovery", "valid")
        assert plain.group is not None
        return replace(plain, group=plain.group._replace(client=client, rule=rule, slowest_us=slowest_us))

    long = "a-rule-with-a-name-that-is-longer-than-an-axis"
    figure = figures.recovery(
        [recovered("a", long, 5000), recovered("b", long, 3000), recovered("a", f"{long}-2", 4000)]
    )
    assert figure is not None
    assert figure["data"][0]["x"] == [4.0, 5.0]
    assert len(set(figure["data"][0]["y"])) == 2
    faults = [struck(long, AT, AT), struck(f"{long}-2", AT, AT), {**struck(long, AT, AT + 9), "api_name": "Fetch"}]
    drawn = figures.timeline(replace(analysis.drawn, faults=faults))["data"]
    assert len({trace["y"][0] for trace in drawn if trace["yaxis"] == "y"}) == 2


def test_an_outage_in_which_nothing_is_exchanged_is_seen(analysis: Analysis) -> None:
    outcomes = [{"bin_us": AT, "outcome": "ok", "count": 4, "max_us": 4_000_000}]
    figure = figures.timeline(replace(analysis.drawn, outcomes=outcomes))
    (waiting,) = (trace for trace in figure["data"] if trace["yaxis"] == "y2" and trace["name"] == "operations")
    assert waiting["y"] == [4000.0]


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


def test_what_grows_while_a_test_runs_is_told_and_so_is_what_is_set_aside(analysis: Analysis) -> None:
    before = replace(analysis, findings=[by_rule("late", "slow", 1), by_rule("failed", None, 2)], bad_lines=[])
    bad = BadLine("said.jsonl", 7, "budget_ms is no whole number", "{}")
    now = replace(before, findings=[by_rule("late", "slow", 3), by_rule("failed", None, 2)], bad_lines=[bad])
    assert [line.strip()[0] for line in changes(before, now)[1:]] == ["•", "!"]
    assert changes(now, now)[1:] == []
    many = [by_rule("late", "slow", 1, client=f"c{number}") for number in range(9)]
    grown = [by_rule("late", "slow", 2, client=f"c{number}") for number in range(9)]
    told_ = changes(replace(now, findings=many), replace(now, findings=grown))
    assert (len(told_), told_[-1].strip()) == (5, "… and 6 findings with more cases than before")


def test_the_title_of_an_axis_makes_room_for_its_labels(analysis: Analysis) -> None:
    """On a telephone labels are turned, and take more room than they have on a desk."""
    recovered = figures.recovery([by_rule("recovery", "lost", 1, slowest_us=4_000)])
    assert recovered is not None
    for figure in (figures.spread(analysis.drawn), recovered):
        axis = figure["layout"]["xaxis"]
        assert axis["automargin"] is True
        assert axis["title"]["standoff"] > 0
