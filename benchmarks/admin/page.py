"""The page in the documentation, written from one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

RULES = 100
"""Fault rules of the proxy under load, on an API that the load does not use: what `/v1/faults` has to tell."""

Ratios = Mapping[str, Mapping[str, Sequence[float]]]
"""load → figure → polled ÷ quiet, one for each round."""


def page(ratios: Ratios, answers_per_s: float, pollers: int, run: str, machine: Mapping[str, str]) -> str:
    """Markdown; `run` says how many rounds of what length."""
    rows = "\n".join(
        f"| {load} | " + " | ".join(spread(each) for each in figures.values()) + " |"
        for load, figures in ratios.items()
    )
    names = list(next(iter(ratios.values())))
    return f"""# What polling costs

`python -m benchmarks.admin --page` wrote this page. Requests go through one proxy while {pollers} processes ask
`/metrics`, `/v1/faults`, `/v1/connections` and `/v1/brokers` without a pause, all of them that proxy, or another one
beside it, so that the machine has the same to do in both states. The proxy under load has {RULES} rules. Both states
take turns within each round, the order changes from round to round, and only ratios within a round are told: polled ÷
left alone, the median of the rounds, and in brackets the lowest and the highest.

{time.strftime("%Y-%m-%d")}; {machine["processor"]}, {machine["cores"]} cores, Linux {machine["kernel"]},
Python {machine["python"]}; {run}.

| load | {" | ".join(names)} |
|---|{"---:|" * len(names)}
{rows}

The pollers had {answers_per_s:.0f} answers a second. More there are not: the HTTP API lets a burst pass and then 20
requests a second, and what comes faster waits its turn, since each holds the event loop that carries the traffic for
a moment.
"""


def spread(values: Sequence[float]) -> str:
    """The median, the lowest and the highest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
