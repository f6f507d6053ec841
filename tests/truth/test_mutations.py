"""Edits of conditions change what decides, and nothing that is only said."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from notleader.spark_analysis.checks import all_checks
from tests.truth.mutants import equivalent, every_edit
from tests.truth.mutations import mutations

_MODULE = '''
class Check:
    note = "a > b"

    def cases(self, rows: int | None) -> object:
        """Rows > 1."""
        return rows.filter((col("a") >= 1) & ~col("b").isNull()).join(other, "k", "left_anti")

    def sentence(self, group):
        return "one" if group.cases == 1 else "several"
'''


def test_each_edit_is_one_of_a_condition() -> None:
    edited = [mutation.source for mutation in mutations(_MODULE)]
    plain = ast.unparse(ast.parse(_MODULE))
    assert [
        next(b for a, b in zip(plain.splitlines(), text.splitlines(), strict=True) if a != b).strip() for text in edited
    ] == [
        "return rows.filter((col('a') >= 1) | ~col('b').isNull()).join(other, 'k', 'left_anti')",
        "return rows.filter((col('a') < 1) & ~col('b').isNull()).join(other, 'k', 'left_anti')",
        "return rows.filter((col('a') >= 1) & ~~col('b').isNull()).join(other, 'k', 'left_anti')",
        "return rows.filter((col('a') >= 1) & ~col('b').isNotNull()).join(other, 'k', 'left_anti')",
        "return rows.filter((col('a') >= 1) & ~col('b').isNull()).join(other, 'k', 'left_semi')",
    ]


def test_a_first_look_may_let_more_pass() -> None:
    looks = """
class Check:
    def suspects(self, rows):
        return (col("a") >= 1) & col("b")
"""
    chooses = (
        looks
        + """
    def cases(self, rows):
        return rows.filter(self.suspects(rows))
"""
    )
    assert [mutation.name.split(": ")[1] for mutation in mutations(looks)] == ["comparison turned round"]
    assert [mutation.name.split(": ")[1] for mutation in mutations(chooses)] == [
        "and made or",
        "comparison turned round",
    ]


def test_every_check_has_conditions_to_edit() -> None:
    for check in all_checks():
        source = Path(importlib.import_module(type(check).__module__).__file__ or "").read_text()
        first = next(mutations(source), None)
        assert first is not None, check.name
        assert ast.dump(ast.parse(first.source)) != ast.dump(ast.parse(source))


def test_edits_have_names_and_what_is_called_equivalent_is_one() -> None:
    names = [edit.name for edit in every_edit()]
    assert len(names) == len(set(names))
    assert set(equivalent()) <= set(names), "equivalent.yaml has edits of code that is no longer there"
