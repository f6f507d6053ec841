"""The matrix as a page, in Markdown and in HTML: a word for each cell, and behind it the evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.matrix import DEFAULTS, FAMILIES, Client
from notleader.proxy.lab.matrix_run import Filled
from notleader.proxy.lab.matrix_words import WORDS, CellWords, lasting, said

_COLOURS = {
    "hangs": "#f4a6a0", "loses": "#f4a6a0", "duplicates": "#f9cf9c", "stays dead": "#f4a6a0", "lies": "#f9cf9c",
    "no start": "#f9e79f", "errors": "#f9e79f", "reads again": "#f9cf9c", "blocks": "#f9e79f",
    "recovers": "#c8e6c9", "unharmed": "#eeeeee",
}  # fmt: skip
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 100rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: 13px } th, td { border: 1px solid #ccc; padding: .3rem .5rem;
vertical-align: top; text-align: left } thead th { position: sticky; top: 0; background: #fff } td a { color: inherit;
text-decoration: none; display: block } td small { color: #444; display: block } pre { white-space: pre-wrap;
font-size: 12px; background: #f6f6f6; padding: .6rem } details { margin: .4rem 0 } .wide { overflow-x: auto }
tbody th { min-width: 11rem } :target { outline: 3px solid #36c }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd }
thead th { background: #1b1b1b } pre { background: #262626 } td { color: #111 }
td.none { color: #888 } a { color: #8ab4f8 } }
"""


@dataclass(frozen=True, slots=True)
class Page:
    """The matrix with all it shows: `about` are lines of versions, dates and commands."""

    incidents: list[Incident]
    clients: list[Client]
    filled: dict[tuple[str, str], Filled]
    about: list[str]

    def cells(self) -> Iterable[tuple[Incident, Client, Filled, CellWords]]:
        for incident in self.incidents:
            for client in self.clients:
                cell = self.filled.get((incident.name, client.name))
                if cell is not None:
                    yield incident, client, cell, said(cell, to_the_end=lasting(incident))


def markdown(page: Page, evidence: str) -> str:
    """The page for people who read Markdown; every cell links to its evidence in the HTML page `evidence`."""
    lines = ["<!-- Made by `notleader matrix`. Run that. -->", "# Who hangs, who loses, who recovers", "", _INTRO, ""]
    lines += [f"- **{word}**: {meaning}." for word, meaning in WORDS.items()]
    words = {(incident.name, client.name): told for incident, client, _, told in page.cells()}
    heads = [f"{FAMILIES[client.family].title}<br>{client.version}" for client in page.clients]
    lines += ["", f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for incident in page.incidents:
        row = [_linked(words.get((incident.name, c.name)), incident, c, evidence) for c in page.clients]
        lines.append(f"| [{incident.name}](#{incident.name}) | {' | '.join(row)} |")
    for incident in page.incidents:
        lines += ["", f"## {incident.name}", "", f"**{incident.title}.** {' '.join(incident.story.split())}", ""]
        lines += ["| client | | |", "|---|---|---|"]
        for client in page.clients:
            told = words.get((incident.name, client.name))
            if told is None:
                continue
            without = client.lacks(incident)
            name = f"{FAMILIES[client.family].title} {client.version}{f' ({without})' if without else ''}"
            lines.append(f"| {name} | [{told.word}]({evidence}#{_anchor(incident, client)}) | {_cell(told.phrase)} |")
    return "\n".join(
        [*lines, "", "## How this was made", "", *[f"- {line}" for line in page.about], "", _settings(), ""]
    )


def html(page: Page) -> str:
    """One file that works offline: the table, and below it each cell's evidence."""
    rows, behind = [], []
    for incident in page.incidents:
        cells = [f'<th><a href="#{incident.name}">{escape(incident.title)}</a></th>']
        for client in page.clients:
            cell = page.filled.get((incident.name, client.name))
            if cell is None:
                cells.append(f'<td class="none">{escape(client.unable(incident) or "not run")}</td>')
                continue
            told = said(cell, to_the_end=lasting(incident))
            more = "; ".join(filter(None, [told.phrase if told.phrase != told.word else "", client.lacks(incident)]))
            cells.append(
                f'<td style="background:{_COLOURS[told.word]}"><a href="#{_anchor(incident, client)}">'
                f"<b>{told.word}</b><small>{escape(more)}</small></a></td>"
            )
        rows.append(f"<tr>{''.join(cells)}</tr>")
        behind.append(_behind(page, incident))
    heads = "".join(f"<th>{escape(FAMILIES[c.family].title)}<br>{escape(c.version)}</th>" for c in page.clients)
    legend = "".join(
        f'<tr><td style="background:{_COLOURS[word]}"><b>{word}</b></td><td class="none">{escape(meaning)}</td></tr>'
        for word, meaning in WORDS.items()
    )
    about = "".join(f"<li>{escape(line)}</li>" for line in page.about)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Who hangs, who loses, who recovers</title><style>{_STYLE}</style>"
        f"<h1>Who hangs, who loses, who recovers</h1><p>{escape(_INTRO)}</p>"
        f'<div class="wide"><table><thead><tr><th></th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f"<h2>The words</h2><table>{legend}</table>"
        f"<h2>How this was made</h2><ul>{about}</ul><p>{escape(_settings())}</p>{''.join(behind)}</html>\n"
    )


_INTRO = (
    "Each row is an incident, each column a client library at one version; all meet the same faults, at the same "
    "moment of their work, at settings that can be compared. The words come from an analysis that joins what the "
    "proxy saw on the wire, what the client told its application, and what was in the log afterwards."
)


def _settings() -> str:
    given = ", ".join(f"{name} {str(value).lower()}" for name, value in DEFAULTS.items())
    return (
        f"Settings, where an incident does not say otherwise: {given}. A client that has no such setting goes without, "
        "so read a cell as what an application with these intentions would have met, and not as a contest."
    )


def _behind(page: Page, incident: Incident) -> str:
    links = " ".join(f'<a href="{escape(link)}">{escape(link)}</a>' for link in incident.links)
    assert incident.matrix is not None
    given = ", ".join(f"{name} {str(value).lower()}" for name, value in incident.matrix.settings.items())
    parts = [
        f'<h2 id="{incident.name}">{escape(incident.title)}</h2><p>{escape(incident.story)}</p><p>{links}</p>'
        f"<p>Settings of its own: {escape(given)}; ended after {incident.matrix.limit_s:.0f} s.</p>"
    ]
    for each, client, cell, told in page.cells():
        if each is not incident:
            continue
        hits = ", ".join(f"{name} x{count}" for name, count in cell.hits.items()) or "no rule"
        ended = f"\n{cell.failed}" if cell.failed else ""
        evidence = "\n".join([*told.evidence, "", *cell.told])
        parts.append(
            f'<details id="{_anchor(incident, client)}" open><summary>{escape(client.name)}: {escape(told.phrase)}'
            f"</summary><pre>{escape(f'{cell.at}, {cell.seconds:.0f} s; struck: {hits}{ended}')}\n\n"
            f"{escape(evidence)}</pre></details>"
        )
    return "".join(parts)


def _linked(told: CellWords | None, incident: Incident, client: Client, evidence: str) -> str:
    return f"[{told.word}]({evidence}#{_anchor(incident, client)})" if told else ""


def _anchor(incident: Incident, client: Client) -> str:
    return f"{incident.name}--{client.word}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
