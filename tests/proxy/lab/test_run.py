"""How a run starts its clients."""

from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.lab import run
from notleader.proxy.lab.incident import load_incident


class _Noted:
    """Stands for the process."""

    def __init__(self, argv: list[str], **more: Any) -> None:
        self.argv, self.env = argv, more["env"]


@pytest.mark.parametrize(("first", "told"), [("/bin/java", ["-Djava.io.tmpdir={}"]), ("/bin/sarama", [])])
def test_what_a_program_leaves_in_its_temporary_folder_goes_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, told: list[str]
) -> None:
    monkeypatch.setattr(run, "Child", _Noted)
    incident = load_incident("sarama-hang")
    scratch = tmp_path / "scratch"
    client = run._start(incident.clients[0], [first, "a"], "localhost:9092", incident.topics, tmp_path, scratch)
    child: Any = client.child
    assert child.env["TMPDIR"] == str(scratch)
    assert child.argv[: len(told) + 2] == [first, *[word.format(scratch) for word in told], "a"]
