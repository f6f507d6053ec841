"""Rows of two tables that mean the same thing."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F


def same(prefix: str, *names: str, own: str = "") -> Column:
    """What stands in each column of these `names`, with `own` before it, stands in that with `prefix` before it, too.

    Nothing is the same as nothing.
    """
    return reduce(and_, [F.col(f"{own}{name}").eqNullSafe(F.col(f"{prefix}{name}")) for name in names])
