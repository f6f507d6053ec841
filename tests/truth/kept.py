"""Recordings on disk, so that they can be judged again without being played again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Set
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.truth.log import Record

if TYPE_CHECKING:
    from tests.truth.scenario import Scenario

_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a scenario left behind."""

    scenario: Scenario
    name: str
    """What this run's topics, clients and groups begin with, before a dot."""
    rules: tuple[str, ...]
    """The names of the rules that were in force."""
    folder: Path
    log: tuple[Record, ...]
    hits: Mapping[str, int]
    problems: tuple[str, ...] = ()
    """What clients' programs said when they could not do their work."""
    attempt: int = 1
    """How often it was played until its effects showed."""

    def own(self, name: str | None) -> str | None:
        """The scenario's name for a topic, client or group of the run."""
        return name.removeprefix(f"{self.name}.") if name is not None else None

    @property
    def capture(self) -> Path:
        return self.folder / "capture"

    @property
    def outcomes(self) -> Path:
        return self.folder / "outcomes"

    @property
    def log_files(self) -> Path:
        """The broker's log as the product reads it; `log` is what the oracle read."""
        return self.folder / "log"


def fingerprint(scenario: Scenario) -> str:
    """Differs when the scenario would be played differently; what is expected of it may change."""
    text = repr([_given(scenario, leave_out=frozenset(("effects", "fast", "options", "alone")))])
    text = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _given(value: Any, leave_out: Set[str] = frozenset()) -> Any:
    """A dataclass as what it was given beyond its defaults, so that a field more changes nothing of what is kept."""
    if isinstance(value, tuple):
        return [_given(each) for each in value]
    if not is_dataclass(value):
        return value
    return {
        field.name: _given(given)
        for field in fields(value)
        if field.name not in leave_out and (given := getattr(value, field.name)) != _default(field)
    }


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def save(run: Run) -> None:
    """Write what the folder doesn't hold yet; its presence says that the recording is whole."""
    document = {
        "fingerprint": fingerprint(run.scenario),
        "name": run.name,
        "rules": run.rules,
        "hits": dict(run.hits),
        "problems": run.problems,
        "attempt": run.attempt,
        "log": [[*record[:4], record.key.hex() if record.key is not None else None] for record in run.log],
    }
    (run.folder / _FILE).write_text(json.dumps(document))


def load(scenario: Scenario, folder: Path) -> Run | None:
    """The recording of this scenario below `folder`; None where there is none, or one of another shape."""
    if not (folder / _FILE).exists():
        return None
    document: dict[str, Any] = json.loads((folder / _FILE).read_text())
    if document["fingerprint"] != fingerprint(scenario):
        return None
    log = (
        Record(topic, partition, offset, message_id, bytes.fromhex(key) if key is not None else None)
        for topic, partition, offset, message_id, key in document["log"]
    )
    return Run(
        scenario, document["name"], tuple(document["rules"]), folder, tuple(log), document["hits"],
        tuple(document["problems"]), document["attempt"],
    )  # fmt: skip
