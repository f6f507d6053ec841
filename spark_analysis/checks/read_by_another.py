"""Did one member of a group read what another had read?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.again import blamed, each_behind, furthest, sent_by
from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables
from notleader.spark_analysis.checks.phrases import count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import members


class ReadByAnother(Check):
    """Polls whose first offset lies at or before one that another member of the group had, and not the reader itself.

    At-least-once delivery allows it when a partition goes from one member to another, so it is told without a verdict.
    """

    name = "read_by_another"
    title = "Read by two members"
    brief = "{n} read by two members"
    counts = ("record", "records")
    needs = ("consumer", "capture")
    of_causes = False
    order = 66
    means = Meaning(
        invalid="never",
        valid="told: a member of a group got an offset at or before one that another had, and that it had not itself",
        unknown=(
            "nobody read, nothing was captured, or at level `header`, which says nothing of groups; of share groups "
            "(KIP-932)"
        ),
        evidence="what consumers got, in the order of time; captured requests to join a group",
        cause=(
            "as of `read_again`, by what any member was told: an offset, a commit that never was; else (likely) the "
            "rule that refused a commit of that place, or else what keeps one in the group, swallowed it or cut it off"
        ),
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.consumers > 1 and tables.capture.grouped > 0

    def unsettled(self, tables: Tables) -> str | None:
        if tables.outcomes.consumers > 1 and not tables.capture.grouped and tables.capture.bare_produces:
            return "no captured request says who was in which group; at level partition or above they do"
        return tables.of_share_groups()

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        return _of_another(tables)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        rows = each_behind(_of_another(tables))
        if tables.capture.faulted:
            rows = blamed(rows, tables, of_another=True)
        return from_exchanges(
            rows,
            self.name,
            "valid",
            operation_id=F.lit(None),
            note=F.format_string("offset %d after %d by %s", "first_offset", "reached", "furthest.client"),
        )

    def sentence(self, group: Group) -> str:
        reader, them = group.client or "a consumer", "it" if group.cases == 1 else "them"
        what = f"{count(group.cases, 'record')} of {place(group)} came to {reader}"
        return f"{what} although another member of its group had read {them}{sent_by(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no member of a group read what another had read"


def _of_another(tables: Tables) -> DataFrame:
    joins = members(tables.exchanges, tables.names)
    read = tables.in_order.join(broadcast(joins), same("m_", "scope", "client", "group_id"))
    reads = read.withColumns({"own": furthest("client"), "furthest": furthest("group_id")})
    first, own = F.col("first_offset"), F.coalesce("own.last_offset", F.lit(-1))
    return reads.filter((first <= F.col("furthest.last_offset")) & (first > own))
