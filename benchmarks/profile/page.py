"""The page in the documentation, written from one run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.profile.places import CALLS, ELSEWHERE
from benchmarks.proxy.page import table
from benchmarks.proxy.workloads import Workload

_NAMED = 4
_LEAST_US = 0.1


@dataclass(frozen=True, slots=True)
class Profile:
    """One target under one load: its CPU per request in µs, and where the profiler's samples fell."""

    workload: Workload
    target: str
    cpu_us: float
    samples: Counter[str]

    def us(self, place: str) -> float:
        """CPU per request spent there, in µs."""
        return self.cpu_us * self.samples[place] / max(self.samples.total(), 1)

    @property
    def libraries(self) -> list[str]:
        """Where it runs outside the kernel, the most costly first."""
        return [name for name, _ in self.samples.most_common() if name not in CALLS and name != ELSEWHERE]


def page(profiles: Sequence[Profile], machine: Mapping[str, str]) -> str:
    """Markdown: a table for each load."""
    headings = ["", "CPU µs", *CALLS, ELSEWHERE, "outside the kernel", "most of that"]
    tables = "\n".join(
        f"## {workload.heading}\n\n{table(headings, [_row(one) for one in profiles if one.workload == workload])}"
        for workload in dict.fromkeys(one.workload for one in profiles)
    )
    return f"""# What is in the way

`python -m benchmarks.profile --page` wrote this page. It asks Linux's profiler where a proxy's CPU goes while it
carries small requests: µs per request, in the system calls that send, receive and wait for events, elsewhere in the
kernel, and outside of it. A system call has all that it sets off: sending over loopback is also the other side's
receiving, up to waking its process. A proxy has to send twice and to receive twice for each request and its answer,
whatever it is written in; so what a proxy's own code can save or waste is the column outside the kernel, and how often
it asks the kernel at all.

{time.strftime("%Y-%m-%d")}; {machine["processor"]}, {machine["cores"]} cores, Linux {machine["kernel"]},
Python {machine["python"]}.

{tables}
How fast all that is beside others, by turns on the same machine: [How fast it is](benchmarks.md). These profiles are
taken one after the other, so small differences between their rows mean nothing.
"""


def _row(one: Profile) -> list[str]:
    kernel = [f"{one.us(place):.1f}" for place in (*CALLS, ELSEWHERE)]
    outside = sum(one.us(name) for name in one.libraries)
    most = [f"{name} {one.us(name):.1f}" for name in one.libraries[:_NAMED] if one.us(name) >= _LEAST_US]
    return [one.target, f"{one.cpu_us:.1f}", *kernel, f"{outside:.1f}", ", ".join(most)]
