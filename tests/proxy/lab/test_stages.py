"""What goes on side by side has one line, and one interruption ends all of it."""

from __future__ import annotations

import pytest

from notleader.proxy.lab.stages import Together


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
