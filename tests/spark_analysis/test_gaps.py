"""Rows missing from a capture: what could hide in the gap is not called clear."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.findings import Finding, verdict
from notleader.spark_analysis.options import Options

from .synthetic import Story

pytestmark = pytest.mark.spark

Analyse = Callable[[Story, Options], tuple[object, list[Finding]]]


def story() -> Story:
    s = Story()
    for number in range(5):
        refused = {"error_code": 6, "outcome": "injected", "fault": ("lose", "error")} if number == 2 else {}
        s.produce(100 * number + 1, message_ids=[f"m{number}"], **refused, base_offset=-1 if refused else number)
        if refused:
            s.produce(100 * number + 5, message_ids=[f"m{number}"], base_offset=number)
        s.send(100 * number, f"m{number}", offset=number, took_ms=20)
        s.poll(100 * number + 50, f"m{number}", number)
    return s


def answers(findings: list[Finding]) -> dict[str, set[str]]:
    """check → the verdicts of its findings."""
    told: dict[str, set[str]] = {}
    for finding in findings:
        told.setdefault(finding.check, set()).add(finding.verdict)
    return told


def test_a_check_that_would_say_valid_over_a_gap_says_unknown(analyse: Analyse) -> None:
    whole = analyse(story(), Options())[1]
    torn = story()
    torn.exchange(250, "", event="gap", detail="lost 280 rows", took_ms=40)
    holed = analyse(torn, Options())[1]
    assert verdict(whole) == "valid"
    assert verdict(holed, gaps=1) == "unknown"
    before, after = answers(whole), answers(holed)
    sighted = {check.name for check in all_checks() if check.sees_wire}
    assert {"duplicate", "phantom", "retried", "stuck", "wrong_broker", "looks_like_sarama_hang"} <= sighted
    assert {"hang", "late", "lost", "reordered", "read_again"} & sighted == set()
    for check, verdicts in before.items():
        if check in sighted:
            assert "unknown" in after[check], check
        else:
            assert after[check] == verdicts, check
    duplicate = next(finding for finding in holed if finding.check == "duplicate")
    assert duplicate.sentence.startswith("The capture has 1 gap, where rows are missing; in the rest ")


def test_what_is_proven_wrong_stays_so_over_a_gap(analyse: Analyse) -> None:
    torn = story()
    torn.exchange(250, "", event="gap", detail="lost 280 rows", took_ms=40)
    torn.poll(900, "m1", 9)
    assert answers(analyse(torn, Options())[1])["duplicate"] == {"invalid"}


@pytest.mark.parametrize(("gap_ms", "known"), [(9_000, True), (2_000, False), (800, False)])
def test_what_went_wrong_about_a_gap_is_not_called_no_rules_doing(gap_ms: int, known: bool, analyse: Analyse) -> None:
    """What hangs when a proxy dies is in no row: a rule may have swallowed it."""
    torn = story()
    torn.exchange(gap_ms, "", event="gap", detail="the proxy was killed", took_ms=400)
    torn.send(900, "unseen", took_ms=2500, outcome="info", error="RequestTimedOutError")
    (failed,) = [one for one in analyse(torn, Options())[1] if one.check == "failed" and one.group is not None]
    assert ("no fault had a hand in it" in failed.sentence) is known
    assert ("not known: the capture has a gap there" in failed.sentence) is not known
