"""The report in a real browser: on a telephone too nothing is wider than the page, and axe finds nothing serious."""

from __future__ import annotations

import os
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import async_playwright

from notleader.spark_analysis.report import html
from tests.spark_analysis.made_up import made_up
from tests.tools.programs import need

SHOTS = os.environ.get("NOTLEADER_SCREENSHOTS")


async def test_the_report_is_readable_for_everybody(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text(html.render(made_up()))
    async with async_playwright() as playwright:
        # The sandbox wants user namespaces, which containers and root don't have; the page is our own.
        browser = await playwright.chromium.launch(
            executable_path=need("chromium"), args=["--no-sandbox"], timeout=120_000
        )
        for width in (390, 1280):
            for theme in ("light", "dark"):
                page = await browser.new_page(viewport={"width": width, "height": 900})
                page.set_default_timeout(120_000)
                complaints: list[str] = []
                page.on("pageerror", lambda error, into=complaints: into.append(str(error)))
                await page.goto(f"{report.as_uri()}?theme={theme}")
                await page.wait_for_selector("#figure-timeline svg")
                if SHOTS:
                    await page.screenshot(path=f"{SHOTS}/report-{width}-{theme}.png", full_page=True)
                assert await page.evaluate("document.documentElement.scrollWidth") <= width
                found = (await Axe().run(page)).response["violations"]
                serious = [each for each in found if each["impact"] in ("serious", "critical")]
                assert not serious, [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in serious]
                assert not complaints
                await page.close()
        await browser.close()
