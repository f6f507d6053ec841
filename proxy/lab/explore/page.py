"""The report of a search as one self-contained HTML file: the failures, then the map of what was struck."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from html import escape

import yaml

from notleader.proxy.lab.explore.asked import Asked
from notleader.proxy.lab.explore.findings import Failure
from notleader.proxy.lab.explore.map import Area, Came
from notleader.proxy.lab.explore.search import Explored, Limits
from notleader.proxy.lab.explore.words import (
    again,
    basis,
    found,
    given_up,
    origin,
    printable,
    rate,
    unjudged,
    unstable,
    without,
)

_SIGNS = {Came.BROKE: "✗", Came.SLOW: "◷", Came.SURVIVED: "✓", Came.MISSED: "○", Came.EARLIER: "·", Came.OPEN: ""}
_CLASSES = {Came.BROKE: "broke", Came.SLOW: "slow", Came.SURVIVED: "survived"}
_SCROLL = '<div class="scroll" tabindex="0" role="region" aria-label="{}">'
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2330; --soft: #5a6474; --line: #d9dde3; --code: #f4f5f7;
  --bad: #b42318; --bad-soft: #fdecea; --good: #22734a; --good-soft: #e6f4ec; --warn: #93430f; --warn-soft: #fdf1e3; }
@media (prefers-color-scheme: dark) { :root { --paper: #161b23; --ink: #e4e8ee; --soft: #9aa5b5; --line: #323b4a;
  --code: #1f2630; --bad: #f9a29b; --bad-soft: #4a1d1f; --good: #7ad3a2; --good-soft: #17331f; --warn: #f3b57f;
  --warn-soft: #40290f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 16px 24px 48px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 24px; line-height: 1.25; margin: 8px 0; } h2 { font-size: 18px; margin: 32px 0 8px; }
h3 { font-size: 15px; margin: 20px 0 4px; } p { margin: 6px 0; } .soft { color: var(--soft); }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 6px; padding: 10px 12px; margin: 8px 0;
  overflow-x: auto; font-size: 13px; overflow-wrap: normal; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
th, td { border: 1px solid var(--line); padding: 2px 7px; text-align: center; overflow-wrap: normal; }
th[scope=row] { text-align: left; font-weight: 400; white-space: nowrap; }
.broke { background: var(--bad-soft); color: var(--bad); font-weight: 700; }
.survived { background: var(--good-soft); color: var(--good); }
.slow { background: var(--warn-soft); color: var(--warn); }
.never { background: var(--code); }
"""


def html(explored: Explored, asked: Asked, limits: Limits) -> str:
    """The whole page; nothing is fetched, and everything that the command said is escaped."""
    title = found(explored)
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<pre tabindex='0'>{_text(shlex.join(asked.command))}</pre>",
        f'<p class="soft">{_text(basis(explored, limits))}</p>',
        *(part for number, failure in enumerate(explored.failures, 1) for part in _failure(number, failure, asked)),
        *_map(explored),
    ]
    if explored.unstable:
        parts += ["<h2>Broke once, and not again</h2>", _list(unstable(explored))]
    if explored.gave_up:
        parts += ["<h2>Gave up as it may, and said so</h2>", _list(given_up(explored))]
    if explored.slow:
        parts += ["<h2>Late, and well in the end</h2>", _list(explored.slow)]
    if told := unjudged(explored):
        parts += ["<h2>Not judged</h2>", _list(told)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}: notleader explore</title><style>{_STYLE}</style></head><body><main>"
        + "\n".join(parts)
        + "</main></body></html>\n"
    )


def _failure(number: int, failure: Failure, asked: Asked) -> Iterator[str]:
    yield f"<h2>{number}. {_text(failure.title)}</h2>"
    otherwise = _text(without(failure))
    yield f"<p>{_text(rate(failure))} {otherwise if failure.survives_without else f'<b>{otherwise}</b>'}</p>"
    yield f"<pre tabindex='0'>{_text(yaml.safe_dump({'faults': failure.rules}, sort_keys=False).rstrip())}</pre>"
    line = _text(again(number, failure, asked))
    yield f'<p class="soft">{_text(origin(failure))} <code>{line}</code> tries it again.</p>'
    if len(failure.verdicts) > 1:
        yield _list([f"{each.kind}: {each.sentence}" for each in failure.verdicts])
    if failure.timeline:
        yield f"<pre tabindex='0'>{_text(chr(10).join(failure.timeline))}</pre>"


def _map(explored: Explored) -> Iterator[str]:
    counts = {came: count for came, count in explored.map.counts().items() if count}
    if not counts:
        return
    yield "<h2>What was struck</h2>"
    yield (
        '<p class="soft">Each fault alone, at each place of the client\'s life where it was put: '
        + ", ".join(f"{_SIGNS[Came(came)] or 'empty'} {came} ({count})" for came, count in counts.items())
        + ". Pairs are not on it.</p>"
    )
    for area in explored.map.areas():
        yield from _area(area)


def _area(area: Area) -> Iterator[str]:
    yield f"<h3>{_text(area.api)}</h3>"
    heads = "".join(f'<th scope="col">#{point.nth + 1}</th>' for point in area.points)
    rows = "".join(
        f'<tr><th scope="row">{_text(family)}</th>{"".join(map(_cell, row))}</tr>' for family, row in area.rows
    )
    table = f"<table><thead><tr><th scope='col'>fault</th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    yield f"{_SCROLL.format(_text(area.api))}{table}</div>"


def _cell(came: Came | None) -> str:
    if came is None:
        return '<td class="never"></td>'
    kind = f' class="{_CLASSES[came]}"' if came in _CLASSES else ""
    return f'<td{kind} title="{came.value}">{_SIGNS[came]}</td>'


def _list(lines: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _text(text: str) -> str:
    return escape(printable(text))
