"""The HTML report is one whole document, and nothing that a command said is markup in it."""

from __future__ import annotations

from html.parser import HTMLParser

from notleader.proxy.lab.explore.asked import Asked
from notleader.proxy.lab.explore.candidates import candidates
from notleader.proxy.lab.explore.map import Came, Map
from notleader.proxy.lab.explore.page import html
from notleader.proxy.lab.explore.search import Limits
from tests.proxy.lab.explore.test_findings import explored, failure, on_produce
from tests.proxy.lab.explore.test_map import POINTS


class Elements(HTMLParser):
    """What is open, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_failures_come_first_and_the_map_after_them() -> None:
    found = explored(failure(on_produce("close"), sentence="message 'a' is twice"))
    found.map = Map.of(POINTS, candidates(POINTS), [])
    found.map.told(candidates(POINTS)[0], Came.BROKE)
    page = Elements(html(found, Asked(["./shop"]), Limits()))
    assert page.open == []
    assert page.text.index("message 'a' is twice") < page.text.index("What was struck")
    assert "broke (1)" in page.text
    assert "kind: close" in page.text


def test_what_a_command_said_is_text() -> None:
    page = html(explored(failure(on_produce("close"), sentence="</pre><script>x\x1b[31m")), Asked(["<b>"]), Limits())
    assert "script" not in Elements(page).tags
    assert "\x1b" not in page
    assert "b" not in Elements(page).tags


def test_nothing_found_is_said() -> None:
    page = Elements(html(explored(), Asked(["./shop"]), Limits()))
    assert "No failures found" in page.text
    assert "What was struck" not in page.text
