"""What the lab fills in in a command of the user's."""

from __future__ import annotations

import pytest

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.placeholders import checked


def test_what_is_spelled_otherwise_is_told() -> None:
    with pytest.raises(LabError, match=r"has \{topci\} in it, which is nothing; did you mean '\{topic\}'\?"):
        checked(["./service", "{bootstrap}", "--topic={topci}"])
    with pytest.raises(LabError, match=r"has to take \{bootstrap\}"):
        checked(["./service", "{topic}"])


def test_what_is_the_command_s_own_stays() -> None:
    checked(["./service", "{bootstrap}", '{"acks": 1}', "{}", "{yesterday}", "{topic}-{group}"])
