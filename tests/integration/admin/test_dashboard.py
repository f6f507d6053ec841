"""The dashboard in a real headless Chromium, in front of a proxy that real clients use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from playwright.async_api import Browser, Page, async_playwright, expect

from proxy.lab.kafka import KafkaCluster
from tests.integration.admin.conftest import Controlled, serve_controls
from tests.tools.programs import need

SHOTS = os.environ.get("NOTLEADER_SCREENSHOTS")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """The system's Chromium."""
    system = need("chromium")
    async with async_playwright() as playwright:
        # The sandbox wants user namespaces, which containers and root don't have; the page is our own.
        made = await playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        yield made
        await made.close()


async def open_page(browser: Browser, controlled: Controlled, **options: str) -> tuple[Page, list[str]]:
    """The dashboard, and what its console complains of."""
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((controlled.url, "data:")) else complaints.append(request.url),
    )
    await page.goto(controlled.url)
    await expect(page.get_by_role("heading", name="notleader")).to_be_visible()
    return page, complaints


async def shoot(page: Page, name: str) -> None:
    if SHOTS:
        await page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


@pytest.mark.kafka
async def test_a_fault_added_by_click_changes_what_a_client_sees(browser: Browser, kafka: KafkaCluster) -> None:
    kafka.create_topic("clicked")
    async with serve_controls(kafka.bootstrap) as controlled:
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen), client_id="shop")
        await producer.start()
        try:
            page, complaints = await open_page(browser, controlled)
            await producer.send_and_wait("clicked", b"1")
            await expect(page.get_by_role("region", name="Connections")).to_contain_text("shop")

            await page.get_by_label("Kind").select_option("delay")
            await page.get_by_label("Document").fill(
                '{"name": "slow", "kind": "delay", "delay_ms": 400, "match": {"api_key": "Produce"}}'
            )
            await page.get_by_role("button", name="Add fault").click()
            faults = page.get_by_role("region", name="Faults", exact=True)
            await expect(faults).to_contain_text("slow")
            loop = asyncio.get_running_loop()
            started = loop.time()
            await producer.send_and_wait("clicked", b"2")
            assert loop.time() - started >= 0.4
            await expect(faults).to_contain_text("spent")
            await expect(page.get_by_role("region", name="Exchanges", exact=True)).to_contain_text("slow")
            await shoot(page, "light")

            await page.get_by_label("Topic").fill("clicked")
            await page.get_by_label("Seconds without a leader").fill("0.7")
            await page.get_by_role("button", name="Depose").click()
            await expect(page.get_by_role("region", name="Elections")).to_contain_text("clicked-0")
            started = loop.time()
            await producer.send_and_wait("clicked", b"3")
            assert loop.time() - started >= 0.3

            await page.get_by_role("button", name="Remove slow").click()
            await expect(page.get_by_text("No faults: the proxy tells the truth.")).to_be_visible()
            assert complaints == []
        finally:
            await producer.stop()


async def test_what_is_wrong_with_a_fault_is_said(browser: Browser, controlled: Controlled) -> None:
    page, _ = await open_page(browser, controlled)
    await page.get_by_label("Document").fill('{"kind": "close", "trigger": {"times": 0}}')
    await page.get_by_role("button", name="Add fault").click()
    await expect(page.get_by_role("alert")).to_contain_text("trigger.times: ")
    assert controlled.proxy.plan.rules() == []


async def test_the_keyboard_suffices(browser: Browser, controlled: Controlled) -> None:
    page, complaints = await open_page(browser, controlled)
    await page.get_by_label("Kind").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Control+a")
    await page.keyboard.type('{"kind": "close", "name": "typed"}')
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    remove = page.get_by_role("button", name="Remove typed")
    await expect(remove).to_be_visible()
    for _ in range(40):
        await page.keyboard.press("Tab")
        if await remove.evaluate("node => node === document.activeElement"):
            break
    await page.keyboard.press("Space")
    await expect(remove).to_have_count(0)
    assert complaints == []


async def test_it_follows_the_systems_colours(browser: Browser, controlled: Controlled) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        page, _ = await open_page(browser, controlled, color_scheme=scheme)
        await shoot(page, f"empty-{scheme}")
        found = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        brightness[scheme] = sum(int(part) for part in found[4:-1].split(",")[:3])
    assert brightness["dark"] < 200 < 600 < brightness["light"]


async def test_text_from_outside_stays_text(browser: Browser, controlled: Controlled) -> None:
    page, complaints = await open_page(browser, controlled)
    name = "<img src=x onerror=alert(1)>"
    await page.get_by_label("Document").fill(f'{{"kind": "close", "name": "{name}"}}')
    await page.get_by_role("button", name="Add fault").click()
    await expect(page.get_by_role("region", name="Faults", exact=True)).to_contain_text(name)
    assert complaints == []


async def test_with_a_token_the_browser_asks_for_it(browser: Browser) -> None:
    async with serve_controls(token="s3cret") as controlled:
        context = await browser.new_context(http_credentials={"username": "any", "password": "s3cret"})
        page = await context.new_page()
        await page.goto(controlled.url)
        await page.get_by_label("Document").fill('{"kind": "close", "name": "with-token"}')
        await page.get_by_role("button", name="Add fault").click()
        await expect(page.get_by_role("region", name="Faults", exact=True)).to_contain_text("with-token")
        refused = await (await browser.new_context()).request.get(controlled.url)
        assert refused.status == 401
