"""A length of time in a document: a number of milliseconds, or a distribution to draw each one from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from notleader.faults.document import Document, Milliseconds, SomeMilliseconds
from notleader.faults.random_source import RandomSource, normal, pareto, uniform


class _Distribution(Document):
    def draw_ms(self, random: RandomSource) -> float:
        raise NotImplementedError


class _Bounded(_Distribution):
    min_ms: Milliseconds
    max_ms: Milliseconds

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.min_ms > self.max_ms:
            raise ValueError(f"the range is empty: min_ms {self.min_ms:g} is above max_ms {self.max_ms:g}")
        return self


class Uniform(_Bounded):
    """Any length between two bounds, each as likely."""

    distribution: Literal["uniform"] = "uniform"
    min_ms: Milliseconds = Field(description="Shortest delay.")
    max_ms: Milliseconds = Field(description="Longest delay.")

    def draw_ms(self, random: RandomSource) -> float:
        return uniform(random, self.min_ms, self.max_ms)


class Normal(_Distribution):
    """The bell curve; what falls below zero is no delay."""

    distribution: Literal["normal"] = "normal"
    mean_ms: Milliseconds = Field(description="Mean delay.")
    deviation_ms: Milliseconds = Field(description="Standard deviation.")

    def draw_ms(self, random: RandomSource) -> float:
        return max(0.0, normal(random, self.mean_ms, self.deviation_ms))


class Pareto(_Bounded):
    """Mostly short, now and then very long, as tail latency is."""

    distribution: Literal["pareto"] = "pareto"
    min_ms: SomeMilliseconds = Field(description="Shortest delay.")
    shape: float = Field(2.0, ge=0.1, le=1000, description="The smaller, the heavier the tail (2 is heavy, 1 extreme).")
    max_ms: SomeMilliseconds = Field(60_000.0, description="What is longer is cut to this.")

    def draw_ms(self, random: RandomSource) -> float:
        return min(self.max_ms, pareto(random, self.min_ms, self.shape))


Duration = Milliseconds | Annotated[Uniform | Normal | Pareto, Field(discriminator="distribution")]


def drawn_ms(duration: Duration, random: RandomSource) -> float:
    """One length of this duration, in milliseconds."""
    return duration if isinstance(duration, float) else duration.draw_ms(random)
