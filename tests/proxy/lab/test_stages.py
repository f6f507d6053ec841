"""What goes on side by side has one line, and one interruption ends all of it."""

from __future__ import annotations

import pytest

from notleader.proxy.lab.stages import Stages, Together


def test_the_line_has_the_last_word_of_each() -> None:
    said: list[str] = []
    together = Together(said.append, ["affected", "control"])
    with together.part("control").stage("clients") as say:
        say("3 ok")
    together.told("affected", "not done")
    assert said == [
        "affected: waits; control: clients",
        "affected: waits; control: 3 ok",
        "affected: not done; control: 3 ok",
    ]


def test_who_speaks_after_it_was_given_up_is_interrupted() -> None:
    together = Together(lambda _: None, ["affected"])
    with together.part("affected").stage("clients") as say:
        together.give_up()
        with pytest.raises(KeyboardInterrupt):
            say("3 ok")


@pytest.mark.parametrize(("well", "mark"), [(True, "✓"), (False, "✗")])
def test_a_finished_line_begins_with_the_mark_that_fits_its_word(
    capsys: pytest.CaptureFixture[str], *, well: bool, mark: str
) -> None:
    with Stages().stage("explore") as say:
        say("on its way", well=not well)
        say("'m-0' is not in the log", well=well)
    assert capsys.readouterr().err.startswith(f"{mark} explore: 'm-0' is not in the log (")


def test_a_part_has_no_mark() -> None:
    said: list[str] = []
    with Together(said.append, ["a"]).part("a").stage("clients") as say:
        say("3 failed", well=False)
    assert said == ["a: clients", "a: 3 failed"]
