"""Where a client's life can be struck: its exchanges by API, partition and place, from a run without faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Row = Mapping[str, Any]
"""An exchange as the capture has it."""

_PARTITIONED: Final = frozenset(("Produce", "Fetch", "ListOffsets"))
_MOST_PLACES: Final = 12


@dataclass(frozen=True, slots=True)
class Point:
    """The exchange number `nth` (from 0) of an API, or of those that name a partition; `at_ms` after the first of all.

    `partition_index` is None where the client uses one partition, or the API names none.
    """

    api: str
    partition_index: int | None
    nth: int
    of: int
    at_ms: float
    idempotent: bool = False
    transactional: bool = False
    node_id: int | None = None
    """The broker that it went to, where it was not a bootstrap address."""
    brokers: int = 1
    """How many brokers there are."""

    @property
    def place(self) -> tuple[str, int | None]:
        """API and partition, whatever the place in time."""
        return self.api, self.partition_index

    def __str__(self) -> str:
        where = self.api if self.partition_index is None else f"{self.api} of partition {self.partition_index}"
        return f"{where} #{self.nth + 1} of {self.of}"


def points(rows: Sequence[Row], brokers: int = 1) -> list[Point]:
    """The points of a run, in time; of a place with many exchanges the first, the last and some between.

    `brokers` is how many the cluster has.
    """
    rows = sorted(rows, key=lambda row: row["request_at_us"])
    begin_us = rows[0]["request_at_us"] if rows else 0
    several = _several_partitions(rows)
    at: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in rows:
        api = row["api_name"]
        if api is None:
            continue
        if api in _PARTITIONED and several:
            for index in sorted({each["partition_index"] for each in row["partitions"] or ()}):
                at[api, index].append(row)
        else:
            at[api, None].append(row)
    found = [
        Point(
            api,
            index,
            nth,
            len(those),
            (those[nth]["request_at_us"] - begin_us) / 1000,
            idempotent=any((each["producer_id"] or -1) >= 0 for row in those for each in row["partitions"] or ()),
            transactional=any(row["transactional_id"] for row in those),
            node_id=those[nth].get("node_id"),
            brokers=brokers,
        )
        for (api, index), those in at.items()
        for nth in spread(len(those))
    ]
    return sorted(found, key=lambda point: (point.at_ms, point.api, point.partition_index or 0))


def spread(count: int, most: int = _MOST_PLACES) -> list[int]:
    """At most `most` of the numbers below `count`, the first, the second and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({0, 1, *(round(step * (count - 1) / (most - 2)) for step in range(most - 1))})


def _several_partitions(rows: Iterable[Row]) -> bool:
    named = {
        each["partition_index"] for row in rows if row["api_name"] == "Produce" for each in row["partitions"] or ()
    }
    named |= {each["partition_index"] for row in rows if row["api_name"] == "Fetch" for each in row["partitions"] or ()}
    return len(named) > 1


def signature(rows: Sequence[Row]) -> frozenset[str]:
    """What the client did after each refusal, loss or cut: the exchange that went wrong and the two that followed.

    Two runs with the same signature met the same and answered it in the same way, however often.
    """
    rows = sorted(rows, key=lambda row: row["request_at_us"])
    words = [(_word(row), _went_wrong(row)) for row in rows if row["api_name"] not in ("Heartbeat", "ApiVersions")]
    found = set()
    for at, (word, wrong) in enumerate(words):
        if wrong:
            after = [other for other, _ in words[at + 1 :] if other != word][:2]
            found.add(" > ".join([word, *after]))
    return frozenset(found)


def _went_wrong(row: Row) -> bool:
    return bool(row["error_code"]) or bool(row["fault_names"]) or row["outcome"] not in ("answered",)


def _word(row: Row) -> str:
    error = row["error_code"] or next((e["error_code"] for e in row["partitions"] or () if e["error_code"]), 0)
    said = f"={error}" if error else ""
    outcome = "" if row["outcome"] in ("answered", "injected", "altered") else f"~{row['outcome']}"
    return f"{row['api_name'] or row['api_key']}{said}{outcome}"
