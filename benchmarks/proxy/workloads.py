"""The loads that every target gets, and what they stand for."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeVar

from benchmarks.proxy.processes import on_one_cpu

Unit = Literal["request", "byte"]
One = TypeVar("One")


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of load; ``per`` says what the proxy's CPU is divided by.

    ``on_one_cpu``: load, proxy and broker share one CPU. To wake another one takes longer than to carry a small
    request, and who has to be woken is up to the scheduler, which changes its mind every few seconds.
    """

    name: str
    title: str
    per: Unit
    arguments: tuple[str, ...]
    on_one_cpu: bool = False

    @property
    def heading(self) -> str:
        """The title, as a heading is written."""
        return self.title[0].upper() + self.title[1:]

    def command(self, target: str, duration_s: float, warmup_s: float) -> list[str]:
        """Arguments of the load program for one run against ``target`` (HOST:PORT)."""
        return [
            "run",
            f"-target={target}",
            *self.arguments,
            f"-duration={duration_s}s",
            f"-warmup={warmup_s}s",
        ]

    def placed(self) -> AbstractContextManager[None]:
        """While it is open, this process and all that it has started run where this load wants them."""
        return on_one_cpu() if self.on_one_cpu else nullcontext()

    def in_turns(self, target: str) -> list[str]:
        """The same for a run that asks only when it is told to."""
        return ["run", f"-target={target}", *self.arguments, "-turns"]


WORKLOADS = (
    Workload("one", "1 connection, one small request at a time", "request", ("-workload=small",)),
    Workload(
        "one-cpu",
        "1 connection, one small request at a time, all on one CPU",
        "request",
        ("-workload=small",),
        on_one_cpu=True,
    ),
    Workload("hundred", "100 connections of small requests", "request", ("-workload=small", "-connections=100")),
    Workload("thousand", "1000 connections of small requests", "request", ("-workload=small", "-connections=1000")),
    Workload("produce", "produce, 256 KiB batches", "byte", ("-workload=produce", "-bytes=262144", "-connections=4")),
    Workload(
        "fetch", "fetch, 1 MiB answers", "byte", ("-workload=fetch", "-bytes=262144", "-batches=4", "-connections=4")
    ),
    Workload(
        "pipelined",
        "pipelined 1 KiB produces (4 connections, 32 under way)",
        "request",
        ("-workload=produce", "-bytes=1024", "-connections=4", "-inflight=32"),
    ),
    Workload("metadata", "Metadata of 1000 topics", "request", ("-workload=metadata",)),
)


def _generations() -> Iterator[Workload]:
    """Produce and Fetch as clients of every generation send them: old and new encoding, names and ids of topics."""
    pipelined = ("-connections=10", "-inflight=5")
    for api, versions in (("produce", (3, 7, 9, 13)), ("fetch", (4, 11, 13, 17))):
        for version, partitions in product(versions, PARTITIONS):
            parts = f"{partitions} partition{'s' if partitions > 1 else ''}"
            asked = (f"-workload={api}", f"-version={version}", f"-partitions={partitions}")
            for size, batches in ((100, 1), (100, 3), (16384, 1)):
                many = f"-x{batches}" if batches > 1 else ""
                yield Workload(
                    f"{api}-v{version}-{partitions}-{size}{many}",
                    f"pipelined {api} v{version}, {parts} with {batches} batch{'es' if batches > 1 else ''} "
                    f"of {size} bytes",
                    "request",
                    (*asked, f"-batches={batches}", f"-bytes={size}", *pipelined),
                )


PARTITIONS = (1, 2, 10)
GENERATIONS = tuple(_generations())
"""Of these the page shows a few, for all would take hours: asked for by name, or by the beginning of one."""
EVERY_WORKLOAD = (*WORKLOADS, *GENERATIONS)
ON_THE_PAGE = (
    *(workload.name for workload in WORKLOADS),
    *(f"produce-v9-{partitions}-100" for partitions in PARTITIONS),
    "produce-v7-10-100",
    "produce-v13-10-100-x3",
    "produce-v9-10-16384",
    *(f"fetch-v11-{partitions}-100" for partitions in PARTITIONS),
    "fetch-v17-10-100-x3",
)


def chosen(names: str | None) -> list[Workload]:
    """The workloads of a comma-separated list, the page's for None, none for 'none'.

    `produce-v7-*` stands for all that begin so. Raises ValueError on an unknown name.
    """
    if names is None:
        names = ",".join(ON_THE_PAGE)
    known = {workload.name: workload for workload in EVERY_WORKLOAD}
    wanted: list[str] = []
    for name in names.split(","):
        wanted += fnmatch.filter(known, name.strip()) if "*" in name else [name]
    return picked(",".join(wanted or [names]), known, "workload")


def picked(names: str, known: Mapping[str, One], what: str) -> list[One]:
    """Those of a comma-separated list, none for 'none'. Raises ValueError on an unknown name."""
    wanted = [name.strip() for name in names.split(",") if name.strip() and name != "none"]
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in wanted]
