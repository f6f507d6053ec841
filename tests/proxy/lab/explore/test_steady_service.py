"""The steady service without Kafka: what an error or a silence ends is begun again, and no order is packed twice."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

FILE = Path(__file__).parents[3] / "integration" / "lab" / "steady_service.py"


class RefusedError(Exception):
    """What the client raises when a commit fails."""


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The service, with a client library that does nothing by itself."""
    names = ("Consumer", "KafkaError", "Message", "Producer")
    client: Any = ModuleType("confluent_kafka")
    client.__dict__.update(dict.fromkeys(names, object), KafkaException=RefusedError)
    monkeypatch.setitem(sys.modules, "confluent_kafka", client)
    spec = importlib.util.spec_from_file_location("steady_service", FILE)
    assert spec is not None
    assert spec.loader is not None
    service = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(service)
    return service


class Said:
    """A message, or an error in place of one."""

    def __init__(self, order: str, error: str | None = None) -> None:
        self._order = order
        self._error = error

    def value(self) -> bytes:
        return self._order.encode()

    def error(self) -> str | None:
        return self._error


class Consumers:
    """The consumers that the service makes one after the other: what each is given, and what each commits."""

    def __init__(self, *given: list[Said], refused: int = 0) -> None:
        self._given = list(given)
        self._refused = refused
        self.commits: list[str] = []
        self.made = 0
        self.closed = 0

    def __call__(self, settings: dict[str, Any]) -> Consumers:
        self._now = self._given[self.made]
        self.made += 1
        return self

    def subscribe(self, topics: list[str]) -> None:
        pass

    def poll(self, seconds: float) -> Said | None:
        return self._now.pop(0) if self._now else None

    def commit(self, message: Said, asynchronous: bool) -> None:
        if self._refused:
            self._refused -= 1
            raise RefusedError
        self.commits.append(message.value().decode())

    def close(self) -> None:
        self.closed += 1


def packed(steady: Any, consumers: Consumers, *orders: str) -> set[str]:
    steady.Consumer = consumers
    found: set[str] = steady.pack("kafka", "orders", "packers", set(orders))
    return found


def polls(output: str) -> int:
    return output.count('"operation": "poll"')


def test_a_consumer_that_is_told_an_error_gives_way_to_a_new_one(steady: Any) -> None:
    consumers = Consumers([Said("a"), Said("", "no coordinator")], [Said("b")])
    assert packed(steady, consumers, "a", "b") == {"a", "b"}
    assert (consumers.made, consumers.closed) == (2, 2)


def test_so_does_one_to_which_nothing_comes(steady: Any) -> None:
    clock = iter(range(0, 1000, 10))  # each look at it is ten seconds later
    steady.time = SimpleNamespace(monotonic=lambda: next(clock))
    consumers = Consumers([], [Said("a")])
    assert packed(steady, consumers, "a") == {"a"}
    assert (consumers.made, consumers.closed) == (2, 2)


def test_what_comes_again_is_committed_and_not_packed_again(steady: Any, capsys: pytest.CaptureFixture[str]) -> None:
    consumers = Consumers([Said("a"), Said("a"), Said("b")])
    assert packed(steady, consumers, "a", "b") == {"a", "b"}
    assert consumers.commits == ["a", "a", "b"]
    assert polls(capsys.readouterr().out) == 2


@pytest.mark.parametrize(("refused", "commits"), [(0, ["a"]), (2, ["a"]), (3, [])])
def test_a_commit_is_tried_three_times(refused: int, commits: list[str], steady: Any) -> None:
    consumers = Consumers([Said("a")], refused=refused)
    assert packed(steady, consumers, "a") == {"a"}
    assert consumers.commits == commits


@pytest.mark.parametrize(
    ("sent", "came", "code"),
    [(({"a"}, 0), {"a"}, 0), (({"a"}, 1), {"a"}, 1), (({"a", "b"}, 0), {"a"}, 1)],
    ids=["all came", "one failed", "one never came"],
)
def test_it_ends_well_only_when_what_was_acknowledged_came(
    sent: tuple[set[str], int], came: set[str], code: int, steady: Any
) -> None:
    steady.send = lambda *_: sent
    steady.pack = lambda *_: came
    assert steady.serve("kafka", "orders", "packers") == code
