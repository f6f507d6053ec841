"""One made-up analysis, for what is done with an analysis. No Spark here."""

from __future__ import annotations

from typing import Any

from notleader.spark_analysis.checks import Group
from notleader.spark_analysis.findings import Finding, verdict
from notleader.spark_analysis.jobs.analyze import Analysis, Drawn
from notleader.spark_analysis.outcomes import BadLine
from notleader.spark_analysis.profile import CaptureProfile, OutcomeProfile

NASTY = "</script><b>x|y {{plotly}} \x01"
AT = 1_750_000_000_000_000


def finding(check: str, what: str, cases: int = 1, sentence: str = "Something happened.") -> Finding:
    group = Group(check, what, "app", "orders", 0, None, NASTY, "error", "error:6", cases, cases, AT, AT, 5000, 4000)
    wire: dict[str, Any] = {
        "request_at_us": AT, "response_at_us": AT + 900, "connection_id": 1, "exchange_seq": 2, "api_name": "Produce",
        "node_id": 1, "outcome": "injected", "error_code": 6, "base_offset": -1, "fault_names": [NASTY],
        "fault_kinds": ["error"], "fault_phase": "before_broker", "match_kind": "message_id",
    }  # fmt: skip
    evidence = {"at_us": AT, "duration_us": 5000, "message_id": NASTY, "operation_id": 1, "note": NASTY,
                "exchanges": [wire]}  # fmt: skip
    return Finding(check, check.title(), what, sentence, group, (evidence,))


def made_up() -> Analysis:
    """A negative verdict with a rule, a client whose name is hostile, and one of each kind of finding."""
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
    capture = CaptureProfile(
        9, 9, 1, 4, 4, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, AT, AT + 1, (("run-1", AT, AT + 1),)
    )
    said = OutcomeProfile(6, 1, 5, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, AT, AT + 1)
    bad = [BadLine("/data/a.jsonl", 7, "not JSON", NASTY)]
    return Analysis(verdict(findings), findings, capture, said, None, bad, drawn, "out", 1.0)
