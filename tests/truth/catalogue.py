"""Every scenario, each by a name of its own."""

from __future__ import annotations

from tests.truth.healthy import HEALTHY
from tests.truth.planted import PLANTED

EVERY = (*PLANTED, *HEALTHY)

assert len({scenario.name for scenario in EVERY}) == len(EVERY), "two scenarios have one name"
