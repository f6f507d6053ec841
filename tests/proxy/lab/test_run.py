"""How a run starts its clients, and what it says of those that end at once."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from notleader.proxy.lab import run
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.explore.asked import Asked
from notleader.proxy.lab.explore.findings import Failure
from notleader.proxy.lab.explore.judging import Learned, Verdict
from notleader.proxy.lab.explore.search import Explored, Limits
from notleader.proxy.lab.explore.telling import write
from notleader.proxy.lab.incident import Incident, load_incident
from notleader.proxy.lab.recorded import _never_came
from notleader.proxy.lab.stages import Stages


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


@pytest.fixture
def explored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a search in the folder `work` has written, seen from another folder."""
    for name in ("work", "reports", "elsewhere"):
        (tmp_path / name).mkdir()
    shop = tmp_path / "work" / "shop"
    shop.write_text("#!/bin/sh\npwd\n")
    shop.chmod(0o755)
    monkeypatch.chdir(tmp_path / "work")
    rule = {"kind": "close", "match": {"api_key": "Produce"}, "trigger": {"times": 1}}
    failure = Failure([Verdict("exit", "it ended")], [rule], [rule], "Produce #1", 3, 3, True, 1, 1)
    found = Explored(Learned(1.0), failures=[failure])
    write(found, Asked(["./shop", "{bootstrap}"]), Limits(), Path("../reports"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    return Path("../reports/incident-1.yaml")


def test_a_command_that_was_explored_runs_from_anywhere(explored: Path, tmp_path: Path) -> None:
    incident = load_incident(str(explored))
    (program,) = incident.clients
    commands = run.build(incident, Stages(quiet=True))
    assert set(map(str, commands.values())) == {"['./shop', '{bootstrap}']"}
    for name in ("logs", "outcomes"):
        (tmp_path / name).mkdir()
    client = run._start(program, program.command, "localhost:9092", incident.topics, tmp_path, tmp_path)
    assert client.child.wait(60) == 0
    assert client.outcomes.read_text() == f"{tmp_path / 'work'}\n"


def test_a_program_or_folder_that_is_not_there_is_told_with_the_folder(explored: Path, tmp_path: Path) -> None:
    (tmp_path / "work" / "shop").rename(tmp_path / "elsewhere" / "shop")
    with pytest.raises(LabError, match=rf"there is no program '\./shop' to run in {tmp_path}/work"):
        run.build(load_incident(str(explored)), Stages(quiet=True))
    (tmp_path / "work").rmdir()
    with pytest.raises(LabError, match=f"there is no folder {tmp_path}/work to run"):
        run.build(load_incident(str(explored)), Stages(quiet=True))


def test_a_folder_is_of_a_command_alone(tmp_path: Path) -> None:
    document = load_incident("sarama-hang").model_dump(mode="json", exclude_unset=True)
    document["clients"][0]["folder"] = "."
    with pytest.raises(ValueError, match="a folder is of a command"):
        Incident.model_validate(document)


@pytest.mark.parametrize(("events", "says"), [([], True), (["start"], True), (["connect", "disconnect"], False)])
def test_a_command_that_ends_with_an_error_and_never_connected_says_nothing_of_the_faults(
    events: list[str], says: bool, explored: Path, tmp_path: Path
) -> None:
    (tmp_path / "work" / "shop").write_text("#!/bin/sh\necho Error: no such module\nexit 3\n")
    incident = load_incident(str(explored))
    (program,) = incident.clients
    for name in ("logs", "outcomes", "capture"):
        (tmp_path / name).mkdir()
    client = run._start(program, program.command, "localhost:9092", incident.topics, tmp_path, tmp_path)
    run._let_work([client], 60, lambda _: None)
    assert client.told == "ended with code 3: Error: no such module"
    if events:
        pyarrow.parquet.write_table(pyarrow.table({"event": events}), tmp_path / "capture" / "a.parquet")
    failed = _never_came([client], tmp_path / "capture")
    told = f"client service {client.told}; it never connected (log: {tmp_path}/logs/service.log)"
    assert failed == (told if says else "")
