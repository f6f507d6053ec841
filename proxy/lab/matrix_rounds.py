"""How often a cell is run: twice, and again where the two say different things."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.matrix import Client, cell
from notleader.proxy.lab.matrix_run import Filled, analyse, fill
from notleader.proxy.lab.matrix_words import lasting, rated
from notleader.proxy.lab.stages import Stages

Place = tuple[Client, Incident]


def by_place(
    places: Sequence[Place], rounds: int, out: Path, stages: Stages, *, again: bool = False, pages_only: bool = False
) -> dict[tuple[str, str], list[Filled]]:
    """The rounds of each cell, by the names of its incident and client; where two differ there are `rounds` of them.

    With `pages_only` nothing is run, and all rounds that are there count.
    """
    if pages_only:
        every = [cell(client, incident, number) for number in range(1, rounds + 1) for client, incident in places]
        return _sorted(analyse(every, out, stages))
    numbers = range(1, min(rounds, 2) + 1)
    done = _sorted(fill([cell(*place, number) for number in numbers for place in places], out, stages, again=again))
    open_ones = [place for place in places if not _stable(place, done)]
    if rounds <= 2 or not open_ones:
        return done
    more = [cell(*place, number) for number in range(3, rounds + 1) for place in open_ones]
    for name, cells in _sorted(fill(more, out, stages, again=again)).items():
        done[name] = [*done[name], *cells]
    return done


def _stable(place: Place, done: dict[tuple[str, str], list[Filled]]) -> bool:
    client, incident = place
    rounds = done.get((incident.name, client.name))
    return not rounds or rated(rounds, to_the_end=lasting(incident)).stable


def _sorted(cells: Sequence[Filled]) -> dict[tuple[str, str], list[Filled]]:
    found: dict[tuple[str, str], list[Filled]] = {}
    for each in sorted(cells, key=lambda each: each.round):
        found.setdefault((each.incident, each.client), []).append(each)
    return found
