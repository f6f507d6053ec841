"""What a search was asked for, as whoever tries a failure again has to say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import typer

from notleader.proxy.lab.explore.findings import Failure

NOT_DECIDING: Final = frozenset(
    (
        "kafka",  # of as many brokers, which is said
        "minutes",
        "tries",
        "lanes",
        "seed",
        "messages",  # each failure has a number of its own
        "replay",
        "by_chance",
        "failures",
        "out",
        "again",
        "keep",
        "as_json",
    )
)
"""The options that say where, how long and how to search; all others decide whether a try is a failure."""
_MOST_BROKERS: Final = 9


def rule_file_name(number: int) -> str:
    """The file that reproduces the failure of that number."""
    return f"failure-{number}.yaml"


@dataclass(frozen=True, slots=True)
class Asked:
    """The command, and the options by which its tries are judged, as words of a command line."""

    command: list[str]
    options: tuple[str, ...] = ()
    partitions: int = 1
    brokers: int = 1

    @classmethod
    def of(cls, context: typer.Context, brokers: int) -> Asked:
        """What a command line says, where Kafka has so many brokers."""
        values = context.params | {"brokers": min(brokers, _MOST_BROKERS)}
        words: list[str] = []
        for option in context.command.params:
            name, value = str(option.name), values[str(option.name)]
            if option.param_type_name == "option" and name not in NOT_DECIDING and value != option.default:
                words += [option.opts[0]] if value is True else [option.opts[0], str(value)]
        return cls(values["command"], tuple(words), values["partitions"], brokers)

    def of_failure(self, failure: Failure) -> list[str]:
        """All options that it takes to see this failure again."""
        messages = [] if failure.messages is None else ["--messages", str(failure.messages)]
        return [*messages, *self.options]

    def again(self, number: int, failure: Failure) -> list[str]:
        """The command line that tries it again, in the folder of the rule files; the command follows."""
        return ["notleader", "explore", "--replay", rule_file_name(number), *self.of_failure(failure), "--"]
