"""What README says of the demo is what a fresh one shows: which rule, which effect."""

from __future__ import annotations

import sys

import pytest

from tests.docker.image import PROJECT

sys.path.insert(0, str(PROJECT / "scripts"))
from readme_demo import block, claims, missing

SAID = """\
verdict NEGATIVE: duplicated

✗ Duplicated: 1 message sent to orders-2 by orders-plain got into the log more than once; it had an answer swallowed by
  rule lost (drop_response).
• leader-lost (leader_election), 2.0 s, 345 hits: orders-plain asked for metadata up to 590 times a second, 58 sends
  waited up to 4.1 s.
"""


def test_claims_are_rules_and_effects_without_their_numbers() -> None:
    assert claims(SAID) == (
        {("Duplicated", "lost")},
        {("leader-lost", "waited up to")},
    )
    other = SAID.replace("590", "612").replace("58 sends", "1 send").replace("4.1 s", "340 ms")
    assert missing(SAID, other) == []
    assert claims(block(SAID)) == claims(SAID)


@pytest.mark.parametrize(
    ("what", "now"),
    [("rule lost ", "rule other "), ("✗ Duplicated: 1", "✗ Reordered: 1"), ("waited up to", "blocked for")],
)
def test_another_rule_or_effect_is_a_difference(what: str, now: str) -> None:
    assert missing(SAID, SAID.replace(what, now))
