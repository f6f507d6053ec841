"""The report in a real browser: on a telephone too nothing is wider than the page, and axe finds nothing serious."""

from __future__ import annotations

import os
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser

from notleader.spark_analysis.report import html
from tests.integration.conftest import PATIENCE_MS
from tests.spark_analysis.made_up import made_up

SHOTS = os.environ.get("NOTLEADER_SCREENSHOTS")


# Every title of an axis that lies on a label, with that label.
_COVERED = """() => [...document.querySelectorAll(".js-plotly-plot")].flatMap((figure) => {
  const placed = (what) => [...figure.querySelectorAll(what)]
    .map((one) => [one.textContent, one.getBoundingClientRect()]);
  const labels = placed(".xtick text, .ytick text, .y2tick text, .y3tick text");
  return placed(".xtitle, .ytitle, .y2title, .y3title").flatMap(([title, at]) => labels.filter(([, there]) =>
    at.left < there.right && there.left < at.right && at.top < there.bottom && there.top < at.bottom)
    .map(([label]) => [title, label]));
})"""


async def test_the_buttons_of_a_figure_are_reached_and_pressed_by_keys(browser: Browser, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text(html.render(made_up()))
    page = await browser.new_page()
    await page.goto(report.as_uri())
    await page.wait_for_selector(".updatemenu-button[tabindex]")
    shown = "document.getElementById('figure-timeline').data.map((trace) => trace.visible ?? true)"
    before = await page.evaluate(shown)
    while await page.evaluate("document.activeElement.textContent") != "by broker":
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    assert await page.evaluate(shown) != before
    assert await page.evaluate("document.activeElement.textContent") == "by broker"


async def test_the_report_is_readable_for_everybody(browser: Browser, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text(html.render(made_up()))
    for width in (390, 1280):
        for theme in ("light", "dark"):
            page = await browser.new_page(viewport={"width": width, "height": 900})
            page.set_default_timeout(PATIENCE_MS)
            complaints: list[str] = []
            page.on("pageerror", lambda error, into=complaints: into.append(str(error)))
            await page.goto(f"{report.as_uri()}?theme={theme}")
            await page.wait_for_selector("#figure-timeline svg")
            if SHOTS:
                await page.screenshot(path=f"{SHOTS}/report-{width}-{theme}.png", full_page=True)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert not await page.evaluate(_COVERED), "the title of an axis lies on its labels"
            found = (await Axe().run(page)).response["violations"]
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert not serious, [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in serious]
            assert not complaints
            await page.close()
