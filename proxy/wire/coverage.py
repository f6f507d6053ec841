"""What of Kafka's protocol is understood, as a table: derived from the definitions, never kept by hand."""

from __future__ import annotations

from typing import NamedTuple

from notleader.proxy.wire.addresses import carriers
from notleader.proxy.wire.codec import request_codec, response_codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.partitions import names_partitions
from notleader.proxy.wire.schemas import definitions, first_flexible, version_ranges


class ApiCoverage(NamedTuple):
    """One API: its versions by the Kafka release that defines them, and what notleader finds in its messages.

    `flexible_from`, `addresses_from` are versions, None for never; `unstable` is a version that its release
    doesn't speak unless told to; `partitions` says in which of "request" and "response" partitions are named.
    """

    api_key: int
    name: str
    first: int
    last: int
    kafka: dict[str, tuple[int, int]]
    flexible_from: int | None
    unstable: int | None
    addresses_from: int | None
    partitions: tuple[str, ...]


def coverage() -> list[ApiCoverage]:
    """Every API that the definitions know, by key."""
    rows = []
    for api_key, versions in sorted(version_ranges().items()):
        sources = definitions()[api_key, "request"]
        flexible = first_flexible(api_key, "request")
        carrying = [version for version in versions if carriers(response_codec(api_key, version))]
        newest = request_codec(api_key, versions[-1]), response_codec(api_key, versions[-1])
        rows.append(
            ApiCoverage(
                api_key,
                ApiKey(api_key).name,
                versions[0],
                versions[-1],
                {row.kafka: (row.first, row.last) for row in sources},
                flexible if flexible <= versions[-1] else None,
                max((row.unstable for row in sources if row.unstable is not None), default=None),
                carrying[0] if carrying else None,
                tuple(codec.direction for codec in newest if names_partitions(codec)),
            )
        )
    return rows


HEADINGS = ("key", "API", "versions", "defined by Kafka", "flexible from", "broker addresses from", "partitions in")


def table() -> list[tuple[str, ...]]:
    """The coverage as text cells under HEADINGS."""
    return [
        (
            str(row.api_key),
            row.name,
            _span(row.first, row.last) + ("" if row.unstable is None else f" ({row.unstable} unstable)"),
            ", ".join(f"{kafka}: {_span(*span)}" for kafka, span in row.kafka.items()),
            "never" if row.flexible_from is None else str(row.flexible_from),
            "" if row.addresses_from is None else str(row.addresses_from),
            ", ".join(row.partitions),
        )
        for row in coverage()
    ]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"  # noqa: RUF001 (a range, set as print sets it)


_INTRODUCTION = """# What notleader reads of Kafka's protocol

Written by `notleader wire coverage --markdown`; a test fails when it differs. The definitions are those of
Kafka's own jars: of each version the newest release's that has it. Requests and responses are decoded and encoded
to the same bytes, tagged fields known and unknown included, and every codec is checked against Kafka's own Java
classes, of both releases.

- Versions and APIs that are not in the table are passed on unread.
- "Unstable" versions are spoken by a broker of that release only when its configuration says so.
- "Broker addresses" are rewritten to the proxy's in every version from the one named.
- Share groups were an early access in 3.9: `ReadShareGroupStateSummary` v0, which brokers send each other, was
  changed in place by 4.x, and the newer form is read.

"""


def markdown() -> str:
    """The page docs/wire-coverage.md."""
    cells = [HEADINGS, tuple("---" for _ in HEADINGS), *table()]
    return _INTRODUCTION + "".join("| " + " | ".join(row) + " |\n" for row in cells)
