"""Which candidate to try next: what has not been seen before what has, by what the tries before it showed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from notleader.proxy.lab.explore.candidates import KEPT, Candidate

if TYPE_CHECKING:
    from random import Random

_PAIR_EVERY = 4
_NOVEL_WORTH = 2
_FAILED_COSTS = 5
# Of what changes what brokers keep four tries to one: refused, refused for good, carried out and cut, refused often.
_KEPT_SHARE = 4


class Frontier:
    """The candidates that are left, in an order that follows what was seen; the same for the same seed and reports.

    Next is the API that had the fewest tries for its share. Of it, the first few things that can be done to an exchange
    come once each, then what had the fewest tries for the number of faults that do it; of that the place that was
    struck least, and the fault. Chance decides between those that are alike. What showed something new comes sooner
    once more, and what a failure was found with comes late. Once every fault had its turn, every fourth try is a pair
    of two that showed something new.
    """

    def __init__(self, candidates: Iterable[Candidate], *, random: Random, seen: Iterable[str] = ()) -> None:
        self._seen_keys = set(seen)
        self._tried: Counter[Hashable] = Counter()
        self._weight: Counter[Hashable] = Counter()
        self._rank: dict[str, int] = {}
        self._signatures: set[str] = set()
        self._promising: list[Candidate] = []
        self._paired: set[tuple[str, ...]] = set()
        self._given = 0
        self._kinds: defaultdict[Hashable, set[tuple[str, ...]]] = defaultdict(set)
        self._nth: dict[tuple[str, str], int] = {}
        self._left: list[Candidate] = []
        for candidate in candidates:
            self._rank.setdefault(candidate.api, len(self._rank))
            done = _done(candidate)
            self._nth.setdefault(done, sum(api == candidate.api for api, _ in self._nth))
            self._kinds[done].add(candidate.family)
            if key(candidate) in self._seen_keys:
                self._count(candidate)
            else:
                self._left.append(candidate)
        random.shuffle(self._left)

    def __len__(self) -> int:
        return len(self._left)

    def next(self) -> Candidate | None:
        """The next to try; None when nothing is left."""
        self._given += 1
        if self._given % _PAIR_EVERY == 0 and all(self._tried[each.family] for each in self._left):
            pair = self._pair()
            if pair is not None:
                return pair
        if not self._left:
            return self._pair()
        candidate = min(self._left, key=self._order)
        self._left.remove(candidate)
        self._count(candidate)
        return candidate

    def _count(self, candidate: Candidate) -> None:
        self._tried.update((candidate.api, _done(candidate), _place(candidate), candidate.family))

    def _order(self, candidate: Candidate) -> tuple[float, ...]:
        tried, done = self._tried, _done(candidate)
        share = _KEPT_SHARE if candidate.api in KEPT else 1
        return (
            (tried[candidate.api] + 1) / share,
            self._rank[candidate.api],
            tried[done] > 0 or self._nth[done] >= _KEPT_SHARE,
            (tried[done] + 1 - self._weight[done]) / len(self._kinds[done]),
            self._nth[done],
            tried[_place(candidate)],
            tried[candidate.family],
        )

    def told(self, candidate: Candidate, signature: Iterable[str], *, failed: bool) -> bool:
        """Take in what a try showed; whether there was something in it that none before had."""
        fresh = set(signature) - self._signatures
        self._signatures |= fresh
        done = _done(candidate)
        if failed:
            self._weight[done] -= _FAILED_COSTS
        elif fresh:
            self._weight[done] += _NOVEL_WORTH if self._weight[done] < 1 else 0
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


def _done(candidate: Candidate) -> tuple[str, str]:
    return candidate.api, candidate.effect


def _place(candidate: Candidate) -> Hashable:
    return "at", candidate.api, candidate.point


def key(candidate: Candidate) -> str:
    """What a candidate is known by from one run to the next."""
    of_its_own = [f"messages: {candidate.messages}"] if candidate.messages else []
    return "\n".join([*candidate.rules, *of_its_own])
