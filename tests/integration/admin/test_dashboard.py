"""The dashboard in a real headless Chromium, in front of a proxy that real clients use."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml
from aiokafka import AIOKafkaProducer
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, Route, expect

from notleader.faults.base import Fault
from notleader.faults.schema import validated
from notleader.proxy.admin.traffic_api import MOST_STREAMS
from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.admin.conftest import Controlled, serve_controls
from tests.integration.conftest import PATIENCE_MS

expect.set_options(timeout=PATIENCE_MS)
SHOTS = os.environ.get("NOTLEADER_SCREENSHOTS")


async def new_page(browser: Browser, **options: Any) -> Page:
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    return await context.new_page()


async def open_page(browser: Browser, controlled: Controlled, **options: Any) -> tuple[Page, list[str]]:
    """The dashboard, and what its console complains of."""
    page = await new_page(browser, **options)
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

            await page.get_by_label("Topic", exact=True).fill("clicked")
            await page.get_by_label("Seconds without a leader").fill("0.7")
            started = loop.time()
            await page.get_by_role("button", name="Depose").click()
            await expect(page.get_by_role("region", name="Elections")).to_contain_text("clicked-0")
            await producer.send_and_wait("clicked", b"3")
            assert loop.time() - started >= 0.7

            await page.get_by_role("button", name="Remove slow").click()
            await expect(page.get_by_text("No faults: the proxy tells the truth.")).to_be_visible()
            assert complaints == []
        finally:
            await producer.stop()


async def test_what_is_typed_early_is_what_is_sent(browser: Browser, controlled: Controlled) -> None:
    """The kinds come late: whatever a person does meanwhile, their text is neither replaced nor mixed."""
    come = asyncio.Event()

    async def later(route: Route) -> None:
        await come.wait()
        await route.continue_()

    page = await new_page(browser)
    await page.route("**/v1/faults/schema", later)
    await page.goto(controlled.url)
    typing = asyncio.create_task(page.get_by_label("Document").fill('{"kind": "close", "name": "early"}'))
    await expect(page.get_by_role("heading", name="Add a fault")).to_be_visible()
    await asyncio.sleep(0)
    come.set()
    await typing
    await page.get_by_role("button", name="Add fault").click()
    await expect(page.get_by_role("region", name="Faults", exact=True)).to_contain_text("early")
    (rule,) = controlled.proxy.plan.rules()
    assert (rule.name, rule.fault.kind) == ("early", "close")


async def test_a_draft_outlives_a_look_at_another_kind(browser: Browser, controlled: Controlled) -> None:
    page, complaints = await open_page(browser, controlled)
    document, kind = page.get_by_label("Document"), page.get_by_label("Kind")
    await document.fill("mine")
    await kind.select_option("delay")
    await expect(document).to_have_value(re.compile('"kind": "delay"'))
    await kind.select_option("error")
    await expect(document).to_have_value("mine")
    await page.get_by_role("button", name="Start over").click()
    await expect(document).to_have_value(re.compile('"kind": "error"'))
    assert complaints == []


async def test_every_kinds_first_guess_can_be_added(browser: Browser, controlled: Controlled) -> None:
    """Kinds and their fields come from the schema: a new fault file is on the page without an edit."""
    page, complaints = await open_page(browser, controlled)
    kind = page.get_by_label("Kind")
    offered = await kind.locator("option").all_inner_texts()
    assert offered == sorted(Fault.kinds)
    for number, name in enumerate(offered, 1):
        await kind.select_option(name)
        await page.get_by_role("button", name="Add fault").click()
        await expect(page.get_by_role("region", name="Faults", exact=True).get_by_role("row")).to_have_count(number + 1)
    assert complaints == []


async def test_a_fault_is_switched_off_and_on(browser: Browser, controlled: Controlled) -> None:
    controlled.proxy.add_fault(kind="close", name="cut")
    page, complaints = await open_page(browser, controlled)
    switch = page.get_by_role("switch", name="Enable cut")
    for off_and_on in (False, True):
        await switch.set_checked(off_and_on)
        await expect(page.get_by_role("row", name="cut")).to_contain_text("active" if off_and_on else "off")
        assert controlled.proxy.plan.get("cut").is_on is off_and_on
    assert complaints == []


@pytest.mark.kafka
async def test_an_incident_is_started_by_a_click(browser: Browser, kafka: KafkaCluster) -> None:
    """sarama-hang refuses four Produce requests of the topic it names: a real producer has to try five times."""
    kafka.create_topic("orders", partitions=2)  # as the capture's page has it, on the same Kafka
    async with serve_controls(kafka.bootstrap) as controlled:
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen), retry_backoff_ms=20)
        await producer.start()
        try:
            page, complaints = await open_page(browser, controlled, color_scheme="dark")
            await page.get_by_label("Incident").select_option("sarama-hang")
            await page.get_by_role("button", name="Start the incident").click()
            timeline = page.get_by_role("region", name="Timeline")
            await expect(timeline).to_contain_text("add not-leader (error)")
            await expect(timeline).to_contain_text("done")
            await producer.send_and_wait("orders", b"1")
            await expect(page.get_by_role("region", name="Faults", exact=True)).to_contain_text("spent")
            assert controlled.proxy.plan.get("not-leader").hits == 4
            await expect(page.get_by_role("region", name="Exchanges", exact=True)).to_contain_text("not-leader")
            await shoot(page, "dark")
            assert complaints == []
        finally:
            await producer.stop()


async def test_a_timeline_with_ones_own_steps_is_started_and_stopped(browser: Browser, controlled: Controlled) -> None:
    page, complaints = await open_page(browser, controlled)
    await page.get_by_text("Its steps").click()
    steps = '{"steps": [{"at": "0s", "add": {"kind": "close", "name": "now"}}, {"at": "1h", "clear": true}]}'
    await page.get_by_label("Steps", exact=True).fill(steps)
    await page.get_by_role("button", name="Start the incident").click()
    await expect(page.get_by_role("region", name="Timeline").get_by_role("row")).to_have_text(
        ["WhenWhat", "at 0 sadd now (close)done", "at 3600 sclearto come"]
    )
    await page.get_by_role("button", name="Stop the timeline").click()
    await expect(page.get_by_role("status")).to_contain_text("no timeline runs")
    assert complaints == []


@pytest.mark.kafka
async def test_the_filter_language_says_where_it_is_wrong(browser: Browser, kafka: KafkaCluster) -> None:
    kafka.create_topic("filtered")
    async with serve_controls(kafka.bootstrap) as controlled:
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen), metadata_max_age_ms=50)
        await producer.start()
        try:
            page, _ = await open_page(browser, controlled)
            rows = page.get_by_role("region", name="Exchanges", exact=True)
            await expect(rows).to_contain_text("Metadata")
            wanted = page.get_by_label("Filter")
            await wanted.fill("api === Produce")
            await wanted.press("Enter")
            await expect(page.locator("pre")).to_contain_text("^")
            await shoot(page, "filter")
            await expect(rows).to_contain_text("Metadata")  # what was shown before goes on
            await wanted.fill("api == Produce")
            await wanted.press("Enter")
            await expect(page.locator("pre")).to_have_count(0)
            await expect(page.get_by_text("Plots and rows:")).to_be_visible()
            # The cell itself: rows of the filter before name a client that is called producer.
            while not await rows.get_by_role("cell", name="Produce", exact=True).count():
                await producer.send_and_wait("filtered", b"1")
            assert set(await rows.locator("tbody td:nth-child(2)").all_inner_texts()) == {"Produce"}
        finally:
            await producer.stop()


async def test_a_recording_is_started_marked_and_stopped(
    browser: Browser, controlled: Controlled, tmp_path: Path
) -> None:
    page, complaints = await open_page(browser, controlled)
    await page.get_by_label("Folder").fill(str(tmp_path / "traffic"))
    await page.get_by_label("Level").select_option("record")
    await page.get_by_role("button", name="Record", exact=True).click()
    await expect(page.get_by_role("status")).to_contain_text("recording to")
    await page.get_by_label("Mark this moment").fill("here it was")
    await page.get_by_role("button", name="Mark", exact=True).click()
    await expect(page.get_by_text("1 row written")).to_be_visible()
    # The proxy records no more at once; that the last segment is made is what the answer says.
    async with page.expect_response(lambda answer: answer.request.method == "POST"):
        await page.get_by_role("button", name="Stop recording").click()
    await expect(page.get_by_role("status")).to_contain_text("not recording")
    (segment,) = (tmp_path / "traffic").rglob("*.parquet")
    row = pyarrow.parquet.read_table(segment).to_pylist()[0]
    assert (row["event"], row["detail"]) == ("mark", "here it was")
    assert complaints == []


async def test_an_ipv6_broker_is_in_brackets(browser: Browser, controlled: Controlled) -> None:
    controlled.proxy.directory.endpoint(7, "2001:db8::1", 9092)
    page, _ = await open_page(browser, controlled)
    await expect(page.get_by_role("region", name="Brokers")).to_contain_text("[2001:db8::1]:9092")


async def test_who_is_shown_to_lead_is_there_by_partition(browser: Browser, controlled: Controlled) -> None:
    plan = controlled.proxy.plan
    plan.elections.move("orders", 1, 2, "moved")
    plan.elections.start("orders", 0, 3_600_000, controlled.proxy.now_us())
    page, complaints = await open_page(browser, controlled)
    elections = page.get_by_role("region", name="Elections")
    await expect(elections.get_by_role("row", name="orders-0")).to_contain_text("nobody")
    await expect(elections.get_by_role("row", name="orders-1")).to_contain_text("moved")
    for partition in ("orders-0", "orders-1"):
        await page.get_by_role("button", name=f"End the election of {partition}").click()
    await expect(page.get_by_text("Every partition has its leader.")).to_be_visible()
    assert complaints == []


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
        page = await new_page(browser, http_credentials={"username": "any", "password": "s3cret"})
        await page.goto(controlled.url)
        await page.get_by_label("Document").fill('{"kind": "close", "name": "with-token"}')
        await page.get_by_role("button", name="Add fault").click()
        await expect(page.get_by_role("region", name="Faults", exact=True)).to_contain_text("with-token")
        refused = await (await browser.new_context()).request.get(controlled.url)
        assert refused.status == 401


async def test_a_token_in_the_address_is_enough(browser: Browser) -> None:
    async with serve_controls(token="s3cret") as controlled:
        page = await new_page(browser)
        await page.goto(controlled.url.replace("://", "://any:s3cret@"))
        await page.get_by_label("Document").fill('{"kind": "close", "name": "with-token"}')
        await page.get_by_role("button", name="Add fault").click()
        await expect(page.get_by_role("region", name="Faults", exact=True)).to_contain_text("with-token")


async def test_who_is_one_reader_too_many_is_told_so(browser: Browser) -> None:
    async with serve_controls() as controlled:
        host, port = controlled.url.removeprefix("http://").split(":")
        writers = []
        for _ in range(MOST_STREAMS):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /v1/exchanges HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in await reader.readline()
            writers.append(writer)
        page = await new_page(browser)
        await page.goto(controlled.url)
        await expect(page.get_by_text(f"{MOST_STREAMS} streams of exchanges are open")).to_be_visible()
        await expect(page.get_by_text("No request has come.")).to_have_count(0)
        for writer in writers:
            writer.close()
            await writer.wait_closed()


@pytest.mark.kafka
async def test_an_exchange_unfolds_and_becomes_a_rule(browser: Browser, kafka: KafkaCluster, tmp_path: Path) -> None:
    """From its frames where they are kept; its times, what the fault did to it, and a rule that meets the next."""
    kafka.create_topic("unfolded")
    async with serve_controls(kafka.bootstrap) as controlled:
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen), client_id="shop")
        await producer.start()
        try:
            page, complaints = await open_page(browser, controlled)
            controlled.proxy.add_fault(kind="delay", name="slow", delay_ms=80, match={"api_key": "Produce"})
            await page.get_by_label("Folder").fill(str(tmp_path / "traffic"))
            await page.get_by_label("Level").select_option("payload")
            await page.get_by_role("button", name="Record", exact=True).click()
            await expect(page.get_by_role("status").first).to_contain_text("recording to")
            await page.get_by_label("Filter").fill("api == Produce")
            await page.get_by_label("Filter").press("Enter")
            await expect(page.get_by_text("Plots and rows:")).to_be_visible()
            rows = page.get_by_role("region", name="Exchanges", exact=True)
            await producer.send_and_wait("unfolded", b"hello")
            await rows.get_by_role("cell", name="Produce", exact=True).first.click()
            opened = page.get_by_role("region", name="Produce of shop")
            await expect(opened).to_contain_text(re.compile(r"held before the broker: \d"))
            await expect(opened).to_contain_text(re.compile(r"slow \(delay\) held request for 80\.\d ms"))
            await expect(opened).to_contain_text("hello")  # a record's value, from the frame
            await expect(opened).to_contain_text("timeout_ms")
            await expect(page.get_by_text("When each rule struck")).to_be_visible()
            await shoot(page, "exchange")
            await opened.get_by_role("button", name="Copy as rule").click()
            told, text = opened.get_by_role("status"), opened.locator("pre")
            await expect(told).to_contain_text("as rule")
            copied = json.loads(await text.inner_text())
            assert copied["match"]["topic"] == "unfolded"
            await opened.get_by_role("button", name="Copy as incident").click()
            await expect(told).to_contain_text("as incident")
            incident = yaml.safe_load(await text.inner_text())
            assert validated(Incident, incident, "").topics[0].name == "unfolded"
            await opened.get_by_role("button", name="Copy as curl").click()
            await expect(told).to_contain_text("as curl")
            said = await text.inner_text()
            ran = await asyncio.create_subprocess_shell(said, stdout=asyncio.subprocess.PIPE)
            assert json.loads((await ran.communicate())[0])["name"] == copied["name"]
            assert controlled.proxy.plan.get(copied["name"]).fault.kind == "error"
            await opened.get_by_role("button", name="Copy permalink").click()
            await expect(told).to_contain_text("permalink")
            link = await text.inner_text()
            other = await new_page(browser)
            await other.goto(link)
            await expect(other.get_by_role("region", name="Produce of shop")).to_contain_text("unfolded")
            assert complaints == []
        finally:
            await producer.stop()


@pytest.mark.kafka
@pytest.mark.parametrize("recorded", [False, True])
async def test_what_was_before_the_page_is_on_it(
    browser: Browser, kafka: KafkaCluster, tmp_path: Path, recorded: bool
) -> None:
    """Of a recording everything; without one, what a fault touched. Each once, also when the stream begins anew."""
    kafka.create_topic("earlier")
    async with serve_controls(kafka.bootstrap) as controlled:
        controlled.proxy.add_fault(kind="delay", name="slow", delay_ms=5, match={"api_key": "Produce"})
        if recorded:
            await controlled.proxy.start_capture(str(tmp_path / "traffic"), "partition")
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen), client_id="shop")
        await producer.start()
        for number in range(3):
            await producer.send_and_wait("earlier", str(number).encode())
        await producer.stop()
        if recorded:
            assert controlled.proxy.capture is not None
            await controlled.proxy.capture.rotate()
        page, complaints = await open_page(browser, controlled)
        cells = page.get_by_role("region", name="Exchanges", exact=True)
        produced = cells.get_by_role("cell", name="Produce", exact=True)
        await expect(produced).to_have_count(3 if recorded else 1)
        await expect(cells.get_by_role("row").filter(has_text="slow")).to_have_count(1)
        await expect(cells.get_by_role("cell", name="connect", exact=True).first).to_be_visible()
        assert complaints == []


async def test_a_tab_that_nobody_sees_holds_no_stream(browser: Browser, controlled: Controlled) -> None:
    page = await new_page(browser)
    await page.add_init_script(_SEEN_OR_NOT)
    await page.goto(controlled.url)
    streams = "window.streams.filter((one) => one.readyState !== EventSource.CLOSED).length"
    for is_away, count in ((False, 1), (True, 0), (False, 1)):
        await page.evaluate("(away) => window.goes(away)", is_away)
        await page.wait_for_function(f"{streams} === {count}")


# Says of the page what the test wants, and keeps its streams for the test to count.
_SEEN_OR_NOT = """
let isAway = false;
Object.defineProperty(document, "hidden", { get: () => isAway });
window.goes = (away) => { isAway = away; document.dispatchEvent(new Event("visibilitychange")); };
window.streams = [];
window.EventSource = class extends EventSource {
  constructor(...given) { super(...given); window.streams.push(this); }
};
"""


async def test_a_long_name_leaves_the_buttons_in_view(browser: Browser, controlled: Controlled) -> None:
    page = await new_page(browser, viewport={"width": 1024, "height": 900})
    where = {"client_addr": "127.0.0.1:5", "listener": "broker-1"}

    async def connected(route: Route) -> None:
        await route.fulfill(json=[{"connection_id": 1, "client_id": "c" * 150, "exchanges": 7, **where}])

    await page.route("**/v1/connections", connected)
    await page.goto(controlled.url)
    button = page.get_by_role("button", name="Reset connection 1")
    await expect(button).to_be_visible()
    inside = "(one) => one.getBoundingClientRect().right <= one.closest('article').getBoundingClientRect().right"
    assert await button.evaluate(inside)


@pytest.mark.kafka
async def test_letters_walk_through_the_traffic(browser: Browser, kafka: KafkaCluster) -> None:
    async with serve_controls(kafka.bootstrap) as controlled:
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen), metadata_max_age_ms=50)
        await producer.start()
        try:
            page, complaints = await open_page(browser, controlled)
            await expect(page.get_by_role("region", name="Exchanges", exact=True)).to_contain_text("Metadata")
            await page.get_by_role("heading", name="notleader").click()
            for key in ("j", "j", "k", "Enter"):
                await page.keyboard.press(key)
            await expect(page.get_by_role("button", name="Close the exchange")).to_be_visible()
            await expect(page.get_by_role("button", name="Go on")).to_be_visible()  # what one walks through holds still
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("button", name="Close the exchange")).to_have_count(0)
            await page.keyboard.press("?")
            await expect(page.get_by_role("note")).to_contain_text("filter")
            await page.keyboard.press("/")
            await page.keyboard.type("jkp")
            await expect(page.get_by_label("Filter")).to_have_value("jkp")  # letters are letters where one types
            async with page.expect_download() as given:
                await page.get_by_role("button", name="Export JSON lines").click()
            file = await (await given.value).path()
            assert {json.loads(line)["event"] for line in file.read_text().splitlines()} >= {"exchange"}
            assert complaints == []
        finally:
            await producer.stop()


@pytest.mark.kafka
async def test_what_a_fault_did_names_errors_and_partitions(browser: Browser, kafka: KafkaCluster) -> None:
    kafka.create_topic("told-by-name")
    async with serve_controls(kafka.bootstrap) as controlled:
        page, complaints = await open_page(browser, controlled)
        match = {"api_key": "Produce", "topic": "told-by-name"}
        controlled.proxy.add_fault(kind="error", name="moved", error_code="NOT_LEADER_OR_FOLLOWER", match=match)
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen), client_id="shop")
        await producer.start()
        try:
            await producer.send_and_wait("told-by-name", b"hello", partition=0)
        finally:
            await producer.stop()
        rows = page.get_by_role("region", name="Exchanges", exact=True)
        await rows.get_by_role("row").filter(has_text="moved").get_by_role("cell", name="Produce", exact=True).click()
        opened = page.get_by_role("region", name="Produce of shop")
        await expect(opened.get_by_role("listitem").first).to_have_text(
            re.compile(r"^moved \(error\) .* with NOT_LEADER_OR_FOLLOWER for told-by-name-0$")
        )
        assert complaints == []


async def test_a_rule_is_edited_in_its_place(browser: Browser, controlled: Controlled) -> None:
    for name in ("first", "second"):
        controlled.proxy.add_fault(kind="delay", name=name, delay_ms=100)
    page, complaints = await open_page(browser, controlled)
    await page.get_by_role("button", name="Edit first").click()
    document = page.get_by_label("Document of first")
    await document.fill((await document.input_value()).replace("100", "250"))
    await page.get_by_role("button", name="Save").click()
    await expect(document).to_have_count(0)
    assert [rule.name for rule in controlled.proxy.plan.rules()] == ["first", "second"]
    assert controlled.proxy.plan.get("first").fault.model_dump()["delay_ms"] == 250
    await page.get_by_role("button", name="Edit second").click()
    await page.get_by_label("Document of second").fill('{"kind": "delay"}')
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_contain_text("delay_ms")
    await expect(page.get_by_label("Document of second")).to_be_visible()  # what was written is not lost
    (refused,) = complaints
    assert "422" in refused


async def test_a_proxy_that_is_gone_cannot_be_overlooked(browser: Browser) -> None:
    async with serve_controls() as controlled:
        page, _ = await open_page(browser, controlled)
        await expect(page.get_by_text("The proxy is gone.")).to_have_count(0)
    await expect(page.get_by_text("The proxy is gone.")).to_be_visible()
    await expect(page).to_have_title(re.compile("gone"))
    await shoot(page, "gone")


# Words in tables that go on in a second line; a hyphen is where one may.
BROKEN_WORDS = """() => [...document.querySelectorAll("td:not(.cut), th")].flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  for (let node; (node = texts.nextNode());)
    for (const word of node.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1) broken.push(word[0]);
    }
  return broken;
})"""


@pytest.mark.parametrize("width", [390, 820, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_fits(browser: Browser, controlled: Controlled, width: int, scheme: Any) -> None:
    """Nothing sticks out at the sides; words are apart."""
    match = {"api_key": "Produce", "topic": "orders"}
    controlled.proxy.add_fault(kind="leader_election", name="a-rule-with-a-rather-long-name", match=match)
    size = {"width": width, "height": 900}
    page, complaints = await open_page(browser, controlled, color_scheme=scheme, viewport=size)
    await expect(page.get_by_role("region", name="Faults", exact=True)).to_contain_text("a-rule")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    faults = page.get_by_role("region", name="Faults", exact=True)
    assert await faults.evaluate("table => table.scrollWidth <= table.clientWidth")  # all its buttons can be seen
    await shoot(page, f"fits-{width}-{scheme}")
    assert await page.evaluate(BROKEN_WORDS) == []
    found = (await Axe().run(page)).response["violations"]
    assert not found, [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found]
    assert complaints == []


@pytest.mark.kafka
async def test_a_full_page_with_an_exchange_open_fits(browser: Browser, kafka: KafkaCluster, tmp_path: Path) -> None:
    """At every width in both themes, with long names: nothing sticks out, no word breaks, axe finds nothing."""
    kafka.create_topic("payments.eu-central-1.orders_and_refunds", partitions=3)
    async with serve_controls(kafka.bootstrap) as controlled:
        match = {"api_key": "Produce", "topic": "payments*"}
        every = {"times": "forever"}
        controlled.proxy.add_fault(kind="delay", name="slow for whoever pays", delay_ms=5, match=match, trigger=every)
        await controlled.proxy.start_capture(str(tmp_path / "traffic"), "payload")
        producer = AIOKafkaProducer(
            bootstrap_servers=str(controlled.proxy.listen),
            client_id="billing-service-7f9c6d5b8-x2v4q.payments.svc.cluster.local",
        )
        await producer.start()
        try:
            page, complaints = await open_page(browser, controlled)
            controlled.proxy.plan.elections.start("orders", 0, 3_600_000, controlled.proxy.now_us())
            await page.get_by_label("Mark this moment").fill("a full page")
            for number in range(60):
                await producer.send_and_wait("payments.eu-central-1.orders_and_refunds", b"order %d" % number)
            rows = page.get_by_role("region", name="Exchanges", exact=True)
            produced = rows.get_by_role("row").filter(has_text="slow for whoever pays")
            await produced.first.get_by_role("cell", name="Produce", exact=True).click()
            opened = page.get_by_role("region", name=re.compile("^Produce of billing"))
            await expect(opened).to_contain_text("timeout_ms")
            await opened.get_by_role("button", name="Copy as curl").click()
            await expect(opened.get_by_role("status")).to_contain_text("as curl")
            assert await rows.locator("tbody tr").count() > 40
            for width in (390, 820, 1440):
                for scheme in ("light", "dark"):
                    await page.set_viewport_size({"width": width, "height": 900})
                    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # colours change at once
                    await shoot(page, f"opened-{width}-{scheme}")
                    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
                    assert await page.evaluate(BROKEN_WORDS) == [], width
                    for label in (
                        "Exchanges",
                        "Faults",
                        "Elections",
                        "Connections",
                        "Brokers",
                    ):  # their buttons can be seen
                        table = page.get_by_role("region", name=label, exact=True)
                        assert await table.evaluate("table => table.scrollWidth <= table.clientWidth"), (width, label)
                    if width == 820 or (width == 390 and scheme == "dark"):
                        continue  # what is there goes by the width, and its colours by the theme
                    found = (await Axe().run(page)).response["violations"]
                    assert not found, [
                        (width, scheme, each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found
                    ]
            assert complaints == []
        finally:
            await producer.stop()
