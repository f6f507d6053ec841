"""Counters in, Prometheus text out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

from notleader.proxy.admin.exposition import ProxyCollector, make_registry, render
from notleader.proxy.net.lag import sample_loop_lag
from notleader.proxy.session.metrics import MAX_RULE_SERIES, Counters
from notleader.proxy.wire.names import ApiKey, ErrorCode

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(counters: Counters, capture: object = None) -> Samples:
    registry = make_registry(SimpleNamespace(counters=counters, capture=capture))  # type: ignore[arg-type]
    pieces, content_type = render(registry, "")
    body = b"".join(pieces)
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_an_exchange_is_counted_under_its_apis_name() -> None:
    counters = Counters()
    for latency_us in (10, 100, 100_000):
        counters.traffic.answered(ApiKey.Produce, latency_us)
    counters.traffic.unanswered[ApiKey.Produce] += 1
    samples = scrape(counters)
    produce = (("api_name", "Produce"),)
    assert samples["notleader_requests_total", produce] == 4
    assert samples["notleader_unanswered_requests_total", produce] == 1
    assert samples["notleader_exchange_duration_seconds_count", produce] == 3
    assert samples["notleader_exchange_duration_seconds_sum", produce] == pytest.approx(0.10011)


@pytest.mark.parametrize("latency_us", [0, 31, 32, 33, 1023, 1024, 5_000_000, 2**27 - 1, 2**27, 2**40, -3])
def test_a_latency_is_in_every_bucket_above_it_and_in_none_below(latency_us: int) -> None:
    counters = Counters()
    counters.traffic.answered(ApiKey.Fetch, latency_us)
    buckets = {
        float(dict(labels)["le"]): count
        for (name, labels), count in scrape(counters).items()
        if name == "notleader_exchange_duration_seconds_bucket"
    }
    assert len(buckets) == 24
    for bound_s, count in buckets.items():
        assert count == (latency_us < bound_s * 1e6), bound_s


def test_an_api_and_an_error_nobody_knows_keep_their_numbers() -> None:
    counters = Counters()
    counters.traffic.answered(9999, 5)
    counters.errors[9999, 9998] += 1
    counters.errors[ApiKey.Produce, ErrorCode.NOT_LEADER_OR_FOLLOWER] += 2
    samples = scrape(counters)
    assert samples["notleader_requests_total", (("api_name", "9999"),)] == 1
    assert samples["notleader_error_responses_total", (("api_name", "9999"), ("error_code", "9998"))] == 1
    named = (("api_name", "Produce"), ("error_code", "NOT_LEADER_OR_FOLLOWER"))
    assert samples["notleader_error_responses_total", named] == 2


def test_faults_are_counted_by_rule_and_kind_and_bounded() -> None:
    counters = Counters()
    for number in range(MAX_RULE_SERIES + 5):
        counters.hit(f"rule-{number}", "error", "before_broker")
    counters.hit("rule-0", "error", "before_broker")
    samples = scrape(counters)
    injected = {labels: n for (name, labels), n in samples.items() if name == "notleader_injected_faults_total"}
    assert len(injected) == MAX_RULE_SERIES + 1
    common = (("kind", "error"), ("phase", "before_broker"))
    assert injected[(*common, ("rule", "rule-0"))] == 2
    assert injected[(*common, ("rule", "(other)"))] == 5


def test_a_label_may_hold_any_text() -> None:
    counters = Counters()
    counters.hit('a"b\\c\nd', "error", "before_broker")
    assert any(dict(labels).get("rule") == 'a"b\\c\nd' for _, labels in scrape(counters))


def test_wire_errors_are_there_before_the_first_of_them() -> None:
    """Prometheus sees no increase in a series that begins with 1."""
    samples = scrape(Counters())
    for side in ("client", "broker"):
        assert samples["notleader_wire_errors_total", (("side", side),)] == 0


def test_connections_capture_and_memory_are_there() -> None:
    counters = Counters()
    counters.connections_opened["bootstrap"] += 3
    counters.connections_closed["bootstrap"] += 1
    capture = SimpleNamespace(queued_rows=5, written_rows=70, lost_rows=2, segments=1)
    samples = scrape(counters, capture)
    assert samples["notleader_open_connections", (("listener", "bootstrap"),)] == 2
    assert samples["notleader_capture_queued_rows", ()] == 5
    assert samples["notleader_capture_lost_rows_total", ()] == 2
    assert samples["process_resident_memory_bytes", ()] > 1e6


def test_the_openmetrics_format_is_given_to_who_asks_for_it() -> None:
    registry = make_registry(SimpleNamespace(counters=Counters(), capture=None))  # type: ignore[arg-type]
    pieces, content_type = render(registry, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert b"".join(pieces).endswith(b"# EOF\n")


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_the_pieces_are_what_the_library_writes_in_one(accept: str) -> None:
    counters = Counters()
    for api_key in ApiKey:
        counters.traffic.answered(api_key, 100)
    for number in range(200):
        counters.hit(f"rule {number}\n# {number}", "close", "connection")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ProxyCollector(SimpleNamespace(counters=counters, capture=None)))  # type: ignore[arg-type]
    encoder, _ = choose_encoder(accept)
    pieces = list(render(registry, accept)[0])
    assert b"".join(pieces) == encoder(registry)
    assert max(piece.count(b"\n") for piece in pieces) < 50


async def test_a_blocked_event_loop_shows_as_lag() -> None:
    counters = Counters()
    sampler = asyncio.create_task(sample_loop_lag(counters, 0.01, 0.01))
    await asyncio.sleep(0)
    deadline = asyncio.get_running_loop().time() + 0.05
    while asyncio.get_running_loop().time() < deadline:
        pass  # nothing else gets a turn
    while not counters.loop_ticks:
        await asyncio.sleep(0)
    sampler.cancel()
    assert counters.loop_lag_max_us >= 30_000


async def test_a_loop_through_which_nothing_passes_is_looked_at_seldom() -> None:
    counters = Counters()
    sampler = asyncio.create_task(sample_loop_lag(counters, 0.01, 3600))
    while counters.loop_ticks < 3:
        counters.traffic.client_bytes += 1
        await asyncio.sleep(0.001)
    seen = counters.loop_ticks
    await asyncio.sleep(0.1)
    sampler.cancel()
    assert counters.loop_ticks <= seen + 1  # the one that was under way
