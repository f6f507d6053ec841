from __future__ import annotations

from random import Random

from notleader.proxy.lab.explore.candidates import Candidate, candidates
from notleader.proxy.lab.explore.ordering import ByChance, Frontier, key
from notleader.proxy.lab.explore.points import Point


def candidate(family: str, place: int = 0) -> Candidate:
    kind = family.split()[-1]
    return Candidate((f'{{"kind": "{kind}", "place": {place}}}',), (family,), str(place))


def frontier(*given: Candidate, seed: int = 0, seen: tuple[str, ...] = ()) -> Frontier:
    return Frontier(given, random=Random(seed), seen=seen)


def families(order: Frontier, count: int) -> list[str]:
    found = [order.next() for _ in range(count)]
    return [" ".join(each.family) if each else "-" for each in found]


def test_every_family_before_a_second_of_any() -> None:
    order = frontier(candidate("a", 0), candidate("a", 1), candidate("b", 0), candidate("c", 0))
    assert families(order, 5) == ["a", "b", "c", "a", "-"]


def test_what_changes_what_brokers_keep_is_struck_in_four_ways_before_another_api_once() -> None:
    found = candidates([Point(api, None, 0, 1, 0.0) for api in ("Metadata", "Produce", "Fetch")])
    order = frontier(*found)
    first = [order.next() for _ in range(11)]
    assert [each.api for each in first if each] == [*["Produce"] * 4, "Fetch", "Metadata", "any", *["Produce"] * 4]
    assert {each.effect for each in first[:4] if each} == {
        "refused",
        "refused for good",
        "carried out, and cut",
        "refused often",
    }


def test_what_was_never_done_comes_before_more_of_what_showed_something_new() -> None:
    order = frontier(*(candidate(f"Fetch {kind}", place) for kind in ("delay", "stall", "slow") for place in range(3)))
    kinds = []
    for number in range(3):
        given = order.next()
        assert given is not None
        order.told(given, [str(number)], failed=False)
        kinds.append(given.family[0].split()[-1])
    assert kinds == ["delay", "stall", "slow"]


def test_what_many_faults_do_has_more_turns_than_what_one_does() -> None:
    order = frontier(*candidates([Point("OffsetCommit", None, at, 4, 0.0) for at in range(4)]))
    given = [order.next() for _ in range(40)]
    effects = [each.effect for each in given if each and each.api == "OffsetCommit"]
    assert effects.count("refused") > effects.count("duplicate")
    assert len(effects) > 3 * sum(each.api == "any" for each in given if each)


def test_each_place_is_struck_before_one_of_them_again() -> None:
    order = frontier(*candidates(Point("Heartbeat", None, at, 6, 0.0) for at in range(6)))
    assert len({each.point for each in (order.next() for _ in range(6)) if each}) == 6


def test_what_showed_something_new_comes_sooner_and_what_failed_last() -> None:
    order = frontier(*(candidate(f"Fetch {kind}", place) for kind in ("delay", "stall", "slow") for place in range(3)))
    for signature, failed in (((), True), ((), False), (("new",), False)):
        given = order.next()
        assert given is not None
        order.told(given, signature, failed=failed)
    kinds = [word.split()[-1] for word in families(order, 7)]
    assert kinds == ["slow", "slow", "stall", "stall", "delay", "delay", "-"]


def test_two_that_showed_something_new_are_tried_together_once() -> None:
    order = frontier(candidate("a"), candidate("b"))
    for word in "ab":
        given = order.next()
        assert given is not None
        assert order.told(given, [word], failed=False)
    pair = order.next()
    assert pair is not None
    assert pair.family == ("a", "b")
    assert len(pair.documents) == 2
    assert order.next() is None


def test_what_was_tried_before_is_not_tried_again() -> None:
    done = candidate("a", 0)
    order = frontier(done, candidate("a", 1), seen=(key(done),))
    given = order.next()
    assert given is not None
    assert given.point == "1"
    assert order.next() is None


def test_the_same_seed_gives_the_same_order() -> None:
    def places(seed: int) -> list[str]:
        order = frontier(*(candidate("a", place) for place in range(20)), seed=seed)
        return [each.point for each in iter(order.next, None)]

    assert places(1) == places(1)
    assert places(1) != places(2)


def test_by_chance_gives_each_once_whatever_was_told() -> None:
    given = [candidate(family, place) for family in "abc" for place in range(4)]

    def order(seed: int) -> list[Candidate]:
        left = ByChance(given, random=Random(seed), seen=[key(given[0])])
        assert len(left) == 11
        found = []
        while (one := left.next()) is not None:
            assert not left.told(one, ["new"], failed=False)
            found.append(one)
        return found

    assert order(1) == order(1) != order(2)
    assert sorted(map(key, order(1))) == sorted(map(key, given[1:]))
