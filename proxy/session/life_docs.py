"""``python -m notleader.proxy.session.life_docs`` writes life.md beside it: the tables of `life`, drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from notleader.proxy.session.life import ANSWERS, REQUESTS, Event

PAGE = Path(__file__).with_name("life.md")
_HEAD = """\
# The life of a conversation

<!-- Written by python -m notleader.proxy.session.life_docs from proxy/session/life.py. -->

A client's connection and the broker's behind it are one conversation. Its requests and its answers each are in one of
a few states, which say what becomes of the next frame of that direction. Answers leave in the order of their requests,
whoever made them: one that was made here, or is held, waits in the queue of `proxy/pump` for its turn.
"""


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_section("Requests", REQUESTS), "", *_section("Answers", ANSWERS))) + "\n"


def _section(title: str, table: Mapping[Any, Mapping[Event, Any]]) -> Iterable[str]:
    yield f"## {title}"
    yield ""
    yield "| state | what it means |"
    yield "|---|---|"
    for state in table:
        yield f"| {_name(state)} | {state.value} |"
    yield ""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {_name(next(iter(table)))}"
    for state, row in table.items():
        for event, after in row.items():
            if after is not state and event is not Event.CLOSED:
                yield f"    {_name(state)} --> {_name(after)}: {event.value}"
    yield "```"
    yield ""
    ways = [state for state, row in table.items() if Event.CLOSED in row]
    yield f"From each of {', '.join(map(_name, ways[:-1]))} and {_name(ways[-1])} it can be closed at once."
    stays = [(state, event) for state, row in table.items() for event, after in row.items() if after is state]
    if stays:
        yield ""
        yield "What can happen without changing it:"
        yield ""
        for state in dict.fromkeys(state for state, _ in stays):
            yield f"- {_name(state)}: {'; '.join(event.value for same, event in stays if same is state)}"


def _name(state: Enum) -> str:
    return state.name.lower()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
