"""The short way to read the flags of `notleader run` against Typer's: the same, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from notleader.proxy.cli import run as run_cli
from notleader.proxy.cli.alone import alone
from notleader.proxy.control.flags import Flag, RunOptions, flags, read

NUMBERS = st.sampled_from(["0", "7", "-3", "1.5", "1e3", "", "x"])
TEXTS = st.sampled_from(["127.0.0.1:9092", "", "a=b", "-", "--json", "none", "ein Wörtchen"])
ODD = st.sampled_from(
    ["--help", "-v", "-vv", "--verbose", "--json", "--json=1", "--config=a.yaml", "--config", "--", "x"]
)
RUN = alone("run")
assert RUN is not None


def spelled(flag: Flag) -> st.SearchStrategy[list[str]]:
    if flag.kind is bool:
        return st.sampled_from([[flag.spelled], [flag.spelled_off], [f"{flag.spelled}=yes"], [flag.spelled[:-1]]])
    values = TEXTS if flag.kind is str else NUMBERS
    return values.flatmap(lambda value: st.sampled_from([[f"{flag.spelled}={value}"], [flag.spelled, value]]))


COMMAND_LINES = st.lists(
    st.one_of(st.sampled_from(list(flags())).flatmap(spelled), ODD.map(lambda odd: [odd])), max_size=6
).map(lambda pieces: [piece for pieces in pieces for piece in pieces])


@pytest.fixture(scope="module")
def served() -> Iterator[list[RunOptions]]:
    """What Typer had served."""
    asked: list[RunOptions] = []

    def note(one: RunOptions) -> int:
        asked.append(one)
        return 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_cli, "serve", note)
        yield asked


def by_typer(arguments: Sequence[str], served: list[RunOptions]) -> RunOptions | None:
    served.clear()
    CliRunner().invoke(RUN, ["run", *arguments])
    return served.pop() if served else None


@given(COMMAND_LINES)
def test_what_is_read_is_what_typer_reads(served: list[RunOptions], arguments: list[str]) -> None:
    found = read(arguments)
    if found is not None:
        assert found == by_typer(arguments, served)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], RunOptions({})),
        (["--kafka", "a:1", "--listen=b:2"], RunOptions({"kafka": "a:1", "listen": "b:2"})),
        (["--seed", "7", "--seed=8"], RunOptions({"seed": 8})),
        (["--capture-rotate-s=1.5"], RunOptions({"capture_rotate_s": 1.5})),
        (["--admin="], RunOptions({"admin": ""})),
        (["--tls-kafka-verify", "--no-tls-kafka-verify"], RunOptions({"tls_kafka_verify": False})),
        (["--config", "f.yaml", "--json", "-v"], RunOptions({}, Path("f.yaml"), True, True)),
    ],
)
def test_the_usual_needs_no_typer(arguments: list[str], expected: RunOptions, served: list[RunOptions]) -> None:
    assert read(arguments) == expected
    assert by_typer(arguments, served) == expected


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--kafk=a:1"], ["--kafka"], ["--kafka", "--json"], ["--seed=x"], ["--json=1"], ["x"], ["--"], ["-x"]],
)
def test_help_and_mistakes_are_typers_to_say(arguments: list[str]) -> None:
    assert read(arguments) is None


def test_every_setting_has_its_flag(served: list[RunOptions]) -> None:
    example: dict[type, Any] = {int: 3, float: 2.5, str: "t", bool: True}
    expected = {flag.name: example[flag.kind] for flag in flags()}
    arguments = [flag.spelled if flag.kind is bool else f"{flag.spelled}={example[flag.kind]}" for flag in flags()]
    assert read(arguments) == by_typer(arguments, served) == RunOptions(expected)
