"""Everything beside the faults: health, metrics, traffic, capture, elections, timelines, OpenAPI."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from notleader.proxy.admin.app import create_app
from notleader.proxy.admin.problems import PROBLEM_SCHEMA
from notleader.proxy.admin.traffic_api import MOST_STREAMS
from notleader.proxy.wire.names import ApiKey
from tests.proxy.admin.conftest import Endpoint, FakeCapture, FakeProxy


async def test_health_and_readiness(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}
    proxy.ready = False
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/readyz")).status_code == 503


async def test_metrics(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    proxy.counters.traffic.answered(ApiKey.Fetch, 900)
    answer = await client.get("/metrics")
    assert 'notleader_requests_total{api_name="Fetch"} 1.0' in answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")


@pytest.mark.parametrize("path", ["/nowhere", "/v1/nothing", "/v1/faults/"])
async def test_an_unknown_address_is_a_problem(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_wrong_method_says_which_ones_there_are(client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/connections")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert (await client.post("/v1/faults/x")).headers["allow"] == "DELETE, GET, PATCH, PUT"
    assert (await client.put("/v1/faults/schema/")).status_code == 404
    assert (await client.post("/v1/faults/schema")).headers["allow"] == "GET"
    assert answer.json()["status"] == 405


async def test_a_bug_is_a_problem_too(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    proxy.connections = lambda: 1 // 0  # type: ignore[assignment, return-value]
    answer = await client.get("/v1/connections")
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:notleader:problem:internal"


async def test_brokers_come_by_node_id(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/v1/brokers")).json()
    assert [broker["node_id"] for broker in answer] == [1, 2]
    assert answer[0]["listen_port"] == 19092


async def test_a_broker_of_a_name_that_is_no_utf_8_is_listed(
    client: httpx.AsyncClient, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "brokers", lambda: [Endpoint(1, host="k\udcff\x1b")])
    assert (await client.get("/v1/brokers")).json()[0]["host"] == r"k\udcff\x1b"


async def test_a_connection_is_listed_and_reset(client: httpx.AsyncClient, proxy: FakeProxy) -> None:
    assert [item["connection_id"] for item in (await client.get("/v1/connections")).json()] == [4]
    assert (await client.delete("/v1/connections/4?reset=true")).status_code == 204
    assert proxy.closed == [(4, True)]
    assert (await client.delete("/v1/connections/4")).status_code == 404
    assert (await client.delete("/v1/connections/x")).status_code == 422


class TestExchanges:
    async def read(self, proxy: FakeProxy, rows: list[dict[str, object]], query: str = "") -> list[str]:
        """The stream's text, ended by a stop once the rows are through (httpx reads to the end)."""
        stopping = asyncio.Event()
        transport = httpx.ASGITransport(create_app(proxy, stopping=stopping))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = asyncio.create_task(client.get(f"/v1/exchanges{query}"))
            while not proxy.queues:
                await asyncio.sleep(0)
            for row in rows:
                proxy.queues[0].put_nowait(row)
            await asyncio.sleep(0.01)
            stopping.set()
            done = await answer
        assert done.headers["content-type"].startswith("text/event-stream")
        assert not proxy.queues, "the subscription has to end with the stream"
        return done.text.split("\n\n")

    async def test_rows_are_events(self, proxy: FakeProxy) -> None:
        rows: list[dict[str, object]] = [
            {"event": "exchange", "api_name": "Produce", "request_frame": b"\x00\xff"},
            {"event": "connect", "connection_id": 3},
        ]
        events = await self.read(proxy, rows)
        assert events[1].splitlines()[0] == "event: exchange"
        data = json.loads(events[1].splitlines()[1].removeprefix("data: "))
        assert data == {"event": "exchange", "api_name": "Produce", "request_frame": "AP8="}
        assert events[2].startswith("event: connect\n")

    async def test_more_streams_than_the_traffic_bears_are_refused_until_one_ends(self, proxy: FakeProxy) -> None:
        stopping = asyncio.Event()
        transport = httpx.ASGITransport(create_app(proxy, stopping=stopping))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            open_ = [asyncio.create_task(client.get("/v1/exchanges")) for _ in range(MOST_STREAMS)]
            while len(proxy.queues) < MOST_STREAMS:
                await asyncio.sleep(0)
            refused = await client.get("/v1/exchanges")
            assert refused.status_code == 429
            assert refused.headers["content-type"] == "application/problem+json"
            open_[0].cancel()
            await asyncio.gather(open_[0], return_exceptions=True)
            again = asyncio.create_task(client.get("/v1/exchanges"))
            while len(proxy.queues) < MOST_STREAMS:
                await asyncio.sleep(0)
            stopping.set()
            answers = await asyncio.gather(again, *open_[1:])
        assert [answer.status_code for answer in answers] == [200] * MOST_STREAMS

    async def test_what_was_remembered_is_told_again_where_its_frames_come_behind(
        self, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An exchange that ends while the stream begins is remembered, without frames, and comes with them."""
        seen = {"event": "exchange", "run_id": proxy.run_id, "exchange_seq": 1, "request_at_us": 5}
        other = {**seen, "exchange_seq": 2}

        async def notable() -> list[dict[str, object]]:
            return [seen, other]

        monkeypatch.setattr(proxy, "notable", notable)
        events = await self.read(proxy, [{**seen, "request_frame": b"\x00"}, other], "?before=10")
        told = [json.loads(event.splitlines()[1][6:]) for event in events if event.startswith("event:")]
        assert [(row["exchange_seq"], row.get("request_frame")) for row in told] == [(1, None), (2, None), (1, "AA==")]

    async def test_text_cannot_forge_an_event(self, proxy: FakeProxy) -> None:
        events = await self.read(proxy, [{"event": "exchange", "client_id": "a\n\nevent: evil\ndata: 1"}])
        assert [event.splitlines()[0] for event in events[1:-1]] == ["event: exchange"]

    async def test_a_recording_that_starts_does_not_end_the_stream(
        self, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("notleader.proxy.admin.traffic_api._LOOK_S", 0.005)
        stopping = asyncio.Event()
        transport = httpx.ASGITransport(create_app(proxy, stopping=stopping))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = asyncio.create_task(client.get("/v1/exchanges"))
            while not proxy.queues:
                await asyncio.sleep(0)
            former = proxy.queues[0]
            proxy.capture = FakeCapture(Path("capture"))
            while not proxy.queues or proxy.queues[0] is former:
                await asyncio.sleep(0.001)
            proxy.queues[0].put_nowait({"event": "exchange"})
            await asyncio.sleep(0.01)
            stopping.set()
            assert "event: exchange" in (await answer).text

    async def test_a_filter_that_is_none_is_refused_with_the_spot(self, client: httpx.AsyncClient) -> None:
        answer = await client.get("/v1/exchanges", params={"filter": "api == Produze"})
        assert answer.status_code == 400
        assert answer.json()["problems"][0]["path"] == "filter[7:14]"
        assert answer.json()["detail"].endswith("         ^^^^^^^")


class TestCapture:
    async def test_start_mark_rotate_stop(self, client: httpx.AsyncClient, proxy: FakeProxy) -> None:
        assert (await client.get("/v1/capture")).json() == {
            "recording": False,
            "run_id": "run-1",
            "roots": ["capture", "s3://bucket/tests"],
        }
        started = await client.post("/v1/capture", json={"action": "start", "directory": "capture/d"})
        assert started.json()["recording"] is True
        capture = proxy.capture
        assert capture is not None
        await client.post("/v1/capture", json={"action": "mark", "label": "here"})
        await client.post("/v1/capture", json={"action": "rotate"})
        assert capture.done == ["mark here", "rotate"]
        assert (await client.post("/v1/capture", json={"action": "stop"})).json()["recording"] is False

    async def test_one_that_only_feeds_readers_is_no_recording(
        self, client: httpx.AsyncClient, proxy: FakeProxy
    ) -> None:
        proxy.capture = FakeCapture(None)
        assert (await client.get("/v1/capture")).json()["recording"] is False
        assert (await client.post("/v1/capture", json={"action": "rotate"})).status_code == 409
        assert (await client.post("/v1/capture", json={"action": "start"})).json()["recording"] is True

    @pytest.mark.parametrize(
        ("command", "status"),
        [
            ({"action": "stop"}, 409),
            ({"action": "mark", "label": "x"}, 409),
            ({"action": "start", "directory": "capture/nowhere"}, 409),
            ({"action": "start", "directory": "capture/\0"}, 409),
            ({"action": "dance"}, 422),
            ({}, 422),
            ({"action": "start", "level": "everything"}, 422),
        ],
    )
    async def test_what_cannot_be_done_is_a_problem(
        self, client: httpx.AsyncClient, command: dict[str, str], status: int
    ) -> None:
        answer = await client.post("/v1/capture", json=command)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"

    @pytest.mark.parametrize(
        "directory",
        [
            "elsewhere",
            "/etc/cron.d",
            "capture/../elsewhere",
            "capture-2",
            "file:///etc",
            "s3://bucket/tests",  # another endpoint than the one allowed
            "s3://key:word@bucket/tests/../others?region=here",
            "s3://key:word@bucket/tests/%2e%2e/others?region=here",
            "s3://key:word@bucket/tests-2?region=here",
        ],
    )
    async def test_it_goes_nowhere_but_below_the_roots(
        self, client: httpx.AsyncClient, proxy: FakeProxy, directory: str
    ) -> None:
        answer = await client.post("/v1/capture", json={"action": "start", "directory": directory})
        assert answer.status_code == 403
        assert answer.json()["roots"] == ["capture", "s3://bucket/tests"]
        assert "--capture-root" in answer.json()["detail"]
        assert "word" not in answer.text.replace(directory, "")
        assert proxy.capture is None
        proxy.capture_roots = []
        refused = await client.post("/v1/capture", json={"action": "start", "directory": directory})
        assert "without --capture" in refused.json()["detail"]


class TestElections:
    async def test_one_is_started_listed_and_ended(self, client: httpx.AsyncClient, proxy: FakeProxy) -> None:
        body = {"topic": "orders", "partition_index": 0, "for_ms": 500}
        started = await client.post("/v1/elections", json=body)
        assert started.status_code == 201
        assert started.json()["until_us"] == proxy.clock_us + 500_000
        assert proxy.plan.elections.lasts("orders", 0)
        assert (await client.get("/v1/elections")).json() == [started.json()]
        assert (await client.delete("/v1/elections?topic=orders&partition_index=0")).status_code == 204
        assert not proxy.plan.elections.lasts("orders", 0)
        assert (await client.delete("/v1/elections?topic=orders")).status_code == 404
        assert (await client.delete("/v1/elections")).status_code == 204

    async def test_who_is_shown_to_lead_instead_is_listed_and_ended(
        self, client: httpx.AsyncClient, proxy: FakeProxy
    ) -> None:
        proxy.plan.elections.move("orders", 3, 2, "moved")
        (shown,) = (await client.get("/v1/elections")).json()
        assert shown == {
            "topic": "orders",
            "partition_index": 3,
            "leader_id": 2,
            "started_us": None,
            "until_us": None,
            "started_by": "moved",
            "kind": "leader_move",
        }
        assert (await client.delete("/v1/elections?topic=orders")).status_code == 204
        assert (await client.get("/v1/elections")).json() == []

    async def test_it_is_over_when_its_time_is(self, client: httpx.AsyncClient, proxy: FakeProxy) -> None:
        await client.post("/v1/elections", json={"topic": "orders", "partition_index": 0, "for_ms": 500})
        proxy.clock_us += 500_000
        assert (await client.get("/v1/elections")).json() == []

    @pytest.mark.parametrize(
        ("topic", "index", "said"),
        [
            ("ordres", 0, "there is no topic 'ordres'; did you mean 'orders'?"),
            ("orders", 2, "there is no partition 'orders-2'; orders has [0, 1]"),
        ],
    )
    async def test_there_is_none_of_what_no_broker_knows(
        self, client: httpx.AsyncClient, proxy: FakeProxy, topic: str, index: int, said: str
    ) -> None:
        answer = await client.post("/v1/elections", json={"topic": topic, "partition_index": index})
        assert (answer.status_code, answer.json()["detail"]) == (404, said)
        assert (await client.get("/v1/elections")).json() == []
        proxy.there = None  # nobody says what there is
        assert (await client.post("/v1/elections", json={"topic": topic, "partition_index": index})).status_code == 201

    @pytest.mark.parametrize("body", [{}, {"topic": "", "partition_index": 0}, {"topic": "a", "partition_index": -1}])
    async def test_a_wrong_one_is_a_problem(self, client: httpx.AsyncClient, body: dict[str, object]) -> None:
        answer = await client.post("/v1/elections", json=body)
        assert answer.status_code == 422
        assert all(problem["path"].startswith("body") for problem in answer.json()["problems"])


class TestTimelines:
    async def test_steps_are_started_and_stopped(self, client: httpx.AsyncClient, proxy: FakeProxy) -> None:
        steps = [{"at": "0s", "add": {"kind": "close", "name": "cut"}}, {"at": "10s", "clear": True}]
        started = await client.post("/v1/timelines", json={"steps": steps})
        assert (started.status_code, started.json()["running"]) == (201, True)
        assert proxy.timeline is not None
        assert (await client.get("/v1/timelines")).json()["running"] is True
        assert (await client.delete("/v1/timelines")).status_code == 204
        assert (await client.get("/v1/timelines")).json()["running"] is False

    async def test_each_step_says_when_what_and_whether_it_was(
        self, client: httpx.AsyncClient, proxy: FakeProxy
    ) -> None:
        steps = [
            {"at": "0s", "add": {"kind": "close", "name": "cut"}},
            {"after": {"fault": "cut", "hits": 1}, "remove": "cut"},
            {"at": "1.5s", "add": {"kind": "close"}, "clear": True},
        ]
        await client.post("/v1/timelines", json={"steps": steps})
        assert proxy.timeline is not None
        proxy.timeline.run_due(proxy.plan, 0, proxy.clock_us)
        state = (await client.get("/v1/timelines")).json()
        assert [tuple(step.values()) for step in state["timeline"]] == [
            ("at 0 s", "add cut (close)", True),
            ("after 1 hit of cut", "remove cut", False),
            ("at 1.5 s", "clear, add close", False),
        ]
        proxy.serve()
        proxy.timeline.run_due(proxy.plan, 1, proxy.clock_us)
        state = (await client.get("/v1/timelines")).json()
        assert [step["done"] for step in state["timeline"]] == [True, True, False]

    async def test_every_incident_can_be_started_as_it_is(self, client: httpx.AsyncClient) -> None:
        incidents = (await client.get("/v1/incidents")).json()
        assert "sarama-hang" in [incident["name"] for incident in incidents]
        for incident in incidents:
            assert incident["title"]
            started = await client.post("/v1/timelines", json={"steps": incident["steps"]})
            assert (started.status_code, started.json()["running"]) == (201, True), incident["name"]

    @pytest.mark.parametrize(
        "body", [{}, {"steps": []}, {"steps": [{"at": "soon"}]}, {"steps": [{"at": "1s"}]}, {"steps": [], "x": 1}, 3]
    )
    async def test_wrong_steps_are_a_problem(self, client: httpx.AsyncClient, proxy: FakeProxy, body: object) -> None:
        answer = await client.post("/v1/timelines", json=body)
        assert answer.status_code == 422
        assert answer.json()["problems"]
        assert proxy.timeline is None


async def test_openapi_says_what_each_operation_does_and_shows_what_to_send(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    operations = [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(operations) > 20
    for name, operation in operations:
        assert operation["description"], name
        assert any(status.startswith("2") for status in operation["responses"]), name
        for body in operation.get("requestBody", {}).get("content", {}).values():
            schema = body["schema"]
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert body.get("examples") or schema.get("examples"), name


async def test_openapi_refers_to_nothing_that_is_not_there(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["components"]["schemas"]["Problem"] == json.loads(json.dumps(PROBLEM_SCHEMA))
    references: set[str] = set()

    def collect(node: object) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                references.add(node["$ref"])
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    collect(document)
    prefix = "#/components/schemas/"
    assert "#/components/schemas/Fault" in references
    assert {reference.removeprefix(prefix) for reference in references} <= set(document["components"]["schemas"])
    for path in document["paths"].values():
        for operation in path.values():
            assert operation.get("description"), operation
            assert "4XX" in operation["responses"]


async def test_the_examples_in_openapi_are_accepted(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    tried = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                for example in media.get("examples", {}).values():
                    await client.delete("/v1/faults")
                    answer = await client.request(
                        method, path.replace("{name}", "slow-election"), json=example["value"]
                    )
                    assert answer.status_code in (200, 201, 409), (path, answer.text)
                    tried += 1
    assert tried >= 5
