"""Every kind of fault and every check has a scenario in which its truth is known: a new one without fails here."""

from __future__ import annotations

from notleader.faults.catalog import KINDS
from notleader.spark_analysis.checks import all_checks
from tests.truth.catalogue import EVERY
from tests.truth.healthy import HEALTHY
from tests.truth.planted import PLANTED

NO_HARM = frozenset(("cap_versions", "reorder", "session_expiry"))
"""Kinds that no client here is hurt by: their scenarios ask that they are accused of nothing."""


def test_every_kind_of_fault_did_something_that_is_known() -> None:
    guilty = {
        rule["kind"]
        for scenario in PLANTED
        for rule in scenario.rules
        if any(rule["name"] in effect.by for effect in scenario.effects)
    }
    harmless = {rule["kind"] for scenario in HEALTHY for rule in scenario.rules}
    assert guilty | NO_HARM == set(KINDS)
    assert harmless >= NO_HARM
    assert not guilty & NO_HARM


def test_every_check_has_something_to_tell_somewhere() -> None:
    assert {effect.check for scenario in PLANTED for effect in scenario.effects} == {
        check.name for check in all_checks()
    }


def test_what_is_true_names_rules_that_are_there() -> None:
    for scenario in EVERY:
        names = [rule["name"] for rule in scenario.rules]
        assert len(names) == len(set(names)), scenario.name
        assert {rule for effect in scenario.effects for rule in effect.by} <= set(names), scenario.name


def test_there_are_as_many_as_promised() -> None:
    assert len(PLANTED) >= 120
    assert len(HEALTHY) >= 60
