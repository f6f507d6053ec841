"""Edits of conditions change what decides, and nothing that is only said."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from notleader.spark_analysis.checks import all_checks
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


def test_every_check_has_conditions_to_edit() -> None:
    for check in all_checks():
        source = Path(importlib.import_module(type(check).__module__).__file__ or "").read_text()
        first = next(mutations(source), None)
        assert first is not None, check.name
        assert ast.dump(ast.parse(first.source)) != ast.dump(ast.parse(source))
