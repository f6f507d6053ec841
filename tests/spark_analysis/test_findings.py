"""Groups of cases are told in an order of their own, whatever order they come in."""

from itertools import permutations

from pyspark.sql import Row

from notleader.spark_analysis.findings import _fewer


def group(client: str, rule: str | None, cases: int = 1) -> Row:
    return Row(
        operation=None,
        verdict="valid",
        cases=cases,
        topic="orders",
        partition=0,
        client=client,
        rule=rule,
        kind=None,
        trouble=None,
    )


def test_groups_have_one_order() -> None:
    told = [group("b", None, 2), group("a", None), group("a", "r"), group("b", None)]
    for rows in permutations(told):
        assert _fewer(list(rows), 40) == told
