"""Which candidate to try next: what has not been seen before what has, by what the tries before it showed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from notleader.proxy.lab.explore.candidates import Candidate

if TYPE_CHECKING:
    from random import Random

_PAIR_EVERY = 4
_NOVEL_WORTH = 2
_FAILED_COSTS = 5


class Frontier:
    """The candidates that are left, in an order that follows what was seen; the same for the same seed and reports.

    A family (what is done, whatever the place) that was not tried comes first, in the order given; then one whose
    tries were few or showed new sequences, and last one that a failure was found in. Once every family had its turn,
    every fourth try is a pair of two that showed something new.
    """

    def __init__(self, candidates: Iterable[Candidate], *, random: Random, seen: Iterable[str] = ()) -> None:
        self._random = random
        self._seen_keys = set(seen)
        self._left: dict[tuple[str, ...], list[Candidate]] = {}
        self._weight: Counter[tuple[str, ...]] = Counter()
        self._tried: Counter[tuple[str, ...]] = Counter()
        self._signatures: set[str] = set()
        self._promising: list[Candidate] = []
        self._paired: set[tuple[str, ...]] = set()
        self._given = 0
        rank: dict[tuple[str, ...], int] = {}
        for candidate in candidates:
            if key(candidate) not in self._seen_keys:
                self._left.setdefault(candidate.family, []).append(candidate)
            else:
                self._tried[candidate.family] += 1
            rank.setdefault(candidate.family, len(rank))
        self._rank = rank
        for some in self._left.values():
            first = 0 if len(some[0].rules) > 1 else 1
            head, rest = some[:first], some[first:]
            random.shuffle(rest)  # alone, the first of a client's life, then any place in it
            some[:] = [*head, *rest]

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))

    def next(self) -> Candidate | None:
        """The next to try; None when nothing is left."""
        self._given += 1
        if self._given % _PAIR_EVERY == 0 and all(self._tried[family] for family in self._left):
            pair = self._pair()
            if pair is not None:
                return pair
        if not self._left:
            return self._pair()
        family = min(self._left, key=self._order)
        candidate = self._left[family].pop(0)
        if not self._left[family]:
            del self._left[family]
        self._tried[family] += 1
        return candidate

    def _order(self, family: tuple[str, ...]) -> tuple[bool, int, int]:
        tried = self._tried[family]
        return tried > 0, tried - self._weight[family], self._rank[family]

    def told(self, candidate: Candidate, signature: Iterable[str], *, failed: bool) -> bool:
        """Take in what a try showed; whether it showed a sequence that none before it had."""
        fresh = set(signature) - self._signatures
        self._signatures |= fresh
        if failed:
            self._weight[candidate.family] -= _FAILED_COSTS
        elif fresh:
            self._weight[candidate.family] += _NOVEL_WORTH if self._weight[candidate.family] < 1 else 0
            if len(candidate.rules) == 1:
                self._promising.append(candidate)
        return bool(fresh)

    def _pair(self) -> Candidate | None:
        """Two that showed something new and were survived alone, of different families; each pair of families once."""
        for late in range(len(self._promising) - 1, 0, -1):
            for early in range(late):
                one, other = self._promising[early], self._promising[late]
                pair = one.with_(other)
                if one.family == other.family or pair.family in self._paired or key(pair) in self._seen_keys:
                    continue
                self._paired.add(pair.family)
                return pair
        return None


class ByChance:
    """The candidates that are left in an order by chance, whatever the tries before showed: to compare with."""

    def __init__(self, candidates: Iterable[Candidate], *, random: Random, seen: Iterable[str] = ()) -> None:
        known = set(seen)
        self._left = [candidate for candidate in candidates if key(candidate) not in known]
        random.shuffle(self._left)

    def __len__(self) -> int:
        return len(self._left)

    def next(self) -> Candidate | None:
        """The next to try; None when nothing is left."""
        return self._left.pop() if self._left else None

    def told(self, candidate: Candidate, signature: Iterable[str], *, failed: bool) -> bool:
        """Nothing is learned from a try."""
        return False


def key(candidate: Candidate) -> str:
    """What a candidate is known by from one run to the next."""
    return "\n".join(candidate.rules)
