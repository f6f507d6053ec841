"""Random numbers that are the same for the same seed, on every Python version."""

from __future__ import annotations

import hashlib
import math
from typing import Protocol


class RandomSource(Protocol):
    """What a fault may draw: numbers in [0, 1)."""

    def random(self) -> float: ...


class SeededRandom:
    """SplitMix64 (Steele, Lea, Flood 2014) started from the SHA-256 of a text such as ``7:slow-election``."""

    __slots__ = ("_state",)

    def __init__(self, seed: str) -> None:
        self._state = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")

    def random(self) -> float:
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return float((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)


def uniform(source: RandomSource, low: float, high: float) -> float:
    """A draw from [low, high)."""
    return low + (high - low) * source.random()


def normal(source: RandomSource, mean: float, deviation: float) -> float:
    """A draw from the normal distribution (Box–Muller, one of the pair)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - source.random()))
    return mean + deviation * radius * math.cos(2.0 * math.pi * source.random())


def pareto(source: RandomSource, scale: float, shape: float) -> float:
    """A draw from the Pareto distribution: never below `scale`, the heavier-tailed the smaller `shape`."""
    return scale / math.pow(1.0 - source.random(), 1.0 / shape)
