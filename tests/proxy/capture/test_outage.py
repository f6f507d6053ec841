"""Recorded trouble becomes rules; what is no trouble does not."""

from __future__ import annotations

from typing import Any

import yaml

from notleader.faults.schema import parse_faults
from notleader.faults.timeline import parse_timeline
from notleader.proxy.capture.outage import Outage
from notleader.proxy.record.rows import COLUMNS, PARTITION_FIELDS
from notleader.proxy.wire.names import ApiKey

START_US = 1_000_000_000


def row(at_ms: float, **values: Any) -> dict[str, Any]:
    at_us = START_US + round(at_ms * 1000)
    return {**dict.fromkeys(COLUMNS), "run_id": "r", "proxy_id": "p", "request_at_us": at_us, **values}


def exchange(at_ms: float, api: ApiKey = ApiKey.Produce, took_ms: float = 2, **values: Any) -> dict[str, Any]:
    made = row(
        at_ms,
        event="exchange",
        connection_id=1,
        client_id="shop",
        node_id=1,
        api_key=int(api),
        api_name=api.name,
        outcome="answered",
        error_code=0,
    )
    made["response_at_us"] = made["request_at_us"] + round(took_ms * 1000)
    return made | values


def produce(at_ms: float, partition_index: int, error_code: int = 0, node_id: int = 1, took_ms: float = 2) -> Any:
    part = {**dict.fromkeys(PARTITION_FIELDS), "topic": "orders", "partition_index": partition_index}
    part["error_code"] = error_code
    return exchange(at_ms, took_ms=took_ms, node_id=node_id, error_code=error_code, partitions=[part])


def disconnect(at_ms: float, detail: str, **values: Any) -> dict[str, Any]:
    return row(at_ms, event="disconnect", connection_id=1, client_id="shop", detail=detail, **values)


def steps(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    outage = Outage()
    outage.add_all(rows)
    document = yaml.safe_load(outage.to_yaml("x"))
    parse_faults(document["faults"])
    parse_timeline(document["steps"])
    found: list[dict[str, Any]] = document["steps"][0]["add"]
    assert found == outage.steps()
    return found


def test_a_topic_that_metadata_refused_is_the_one_of_the_rule() -> None:
    part = {**dict.fromkeys(PARTITION_FIELDS), "topic": "orders", "error_code": 3}
    fine = part | {"topic": "fine", "error_code": 0}
    (rule,) = steps(exchange(0, ApiKey.Metadata, error_code=3, partitions=[part, fine]))
    assert rule["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert rule["match"] == {"api_key": "Metadata", "topic": "orders"}
    # At level header nobody knows which.
    (rule,) = steps(exchange(0, ApiKey.Metadata, error_code=3))
    assert rule["match"] == {"api_key": "Metadata"}


def test_refusals_come_as_often_at_the_same_time_for_the_same_partitions() -> None:
    found = steps(
        produce(0, 0), produce(100, 0, 6), produce(110, 1, 6), produce(250, 0, 6), produce(260, 1, 6), produce(400, 0)
    )
    assert found == [
        {
            "name": "recorded-001-error",
            "kind": "error",
            "error_code": "NOT_LEADER_OR_FOLLOWER",
            "match": {"api_key": "Produce", "topic": "orders", "partition_index": [0, 1]},
            "trigger": {"after_ms": 100.0, "times": 2, "for_ms": 1160.0, "per": "partition"},
        }
    ]


def test_errors_far_apart_are_two_rules() -> None:
    found = steps(produce(0, 0, 7), produce(9000, 0, 7))
    assert [fault["trigger"]["after_ms"] for fault in found] == [0, 9000]


def test_errors_of_a_group_name_the_group() -> None:
    (fault,) = steps(exchange(5, ApiKey.Heartbeat, group_id="billing", error_code=16))
    assert fault["match"] == {"api_key": "Heartbeat", "group_id": "billing"}
    assert fault["error_code"] == "NOT_COORDINATOR"


def test_what_belongs_to_normal_work_is_no_fault() -> None:
    rows = (
        exchange(0, ApiKey.JoinGroup, group_id="g", error_code=79, took_ms=3000),
        exchange(5, ApiKey.Heartbeat, group_id="g", error_code=27),
        exchange(6, ApiKey.ApiVersions, error_code=35),
        exchange(7, ApiKey.Fetch, took_ms=800),
        exchange(8, acks=0, response_at_us=None, outcome="no_response"),
        disconnect(9, "the client closed the connection"),
    )
    outage = Outage()
    outage.add_all(rows)
    assert outage.steps() == []


def test_slow_answers_that_came_in_another_order_than_their_requests_are_one_delay() -> None:
    usual = [produce(at_ms, 0) for at_ms in range(0, 100, 10)]
    (delay,) = steps(
        *usual, produce(200, 0, took_ms=6000), produce(3000, 0, took_ms=900), produce(1600, 0, took_ms=600)
    )
    assert (delay["kind"], delay["trigger"]["times"]) == ("delay", 3)
    assert delay["trigger"]["after_ms"] == 200.0


def test_slow_answers_become_delays_beyond_what_is_usual() -> None:
    (fault,) = steps(*(produce(at, 0) for at in range(0, 100, 10)), produce(100, 0, took_ms=902))
    assert fault["kind"] == "delay"
    assert fault["delay_ms"] == 900
    assert fault["trigger"] == {"after_ms": 100.0, "times": 1, "for_ms": 1000.0}


def test_connections_that_the_broker_ended_end_again_at_the_request_that_waited() -> None:
    waited = exchange(100, response_at_us=None, outcome="no_response")
    found = steps(produce(0, 0), waited, disconnect(101, "the broker reset the connection"))
    assert [(fault["kind"], fault["match"]) for fault in found] == [
        ("reset", {"client_id": "shop", "api_key": "Produce"})
    ]
    (fault,) = steps(produce(0, 0), disconnect(101, "the broker closed the connection"))
    assert (fault["kind"], fault["match"]) == ("close", {"client_id": "shop"})


def unanswered(at_ms: float, api: ApiKey = ApiKey.Produce, **values: Any) -> dict[str, Any]:
    return exchange(at_ms, api, response_at_us=None, error_code=None, **{"outcome": "no_response"} | values)


def test_what_was_never_answered_is_dropped_again_once_for_each_connection_given_up() -> None:
    part = {**dict.fromkeys(PARTITION_FIELDS), "topic": "orders", "partition_index": 2}
    at_us = START_US + 1_000_000
    (rule,) = steps(
        exchange(0),
        unanswered(1000, partitions=[part], forwarded_at_us=at_us),
        unanswered(1001, partitions=[part], forwarded_at_us=at_us),  # waited for the one before
        disconnect(31_000, "the client closed the connection"),
        exchange(31_500, connection_id=2),
    )
    assert rule["kind"] == "drop_response"
    assert rule["match"] == {"client_id": "shop", "api_key": "Produce", "topic": "orders", "partition_index": 2}
    assert rule["trigger"] == {"after_ms": 1000.0, "times": 1, "for_ms": 1000.0}
    # Who leaves, or waits for records, was not left without an answer.
    for api, gone_at_ms in ((ApiKey.Produce, 1200), (ApiKey.Fetch, 9000)):
        outage = Outage()
        goes = disconnect(gone_at_ms, "the client closed the connection")
        outage.add_all([exchange(0), unanswered(1000, api, forwarded_at_us=at_us), goes])
        assert outage.steps() == []


def test_what_a_rule_dropped_is_dropped_again_however_its_connection_ended() -> None:
    (rule,) = steps(exchange(0), unanswered(1000, outcome="dropped"), unanswered(1001), exchange(1002))
    assert rule["kind"] == "drop_request"
    at_us = START_US + 1_000_000
    dropped = unanswered(1000, ApiKey.Fetch, outcome="dropped", forwarded_at_us=at_us)
    (rule,) = steps(exchange(0), dropped, disconnect(31_000, "the client closed the connection"))
    assert (rule["kind"], rule["match"]["api_key"], rule["trigger"]["times"]) == ("drop_response", "Fetch", 1)


def test_partitions_of_a_broker_that_is_gone_have_no_leader_meanwhile() -> None:
    gone = "no broker could be reached for broker-2: Connection refused"
    rows = [produce(at, 0) for at in range(0, 4000, 100)]
    rows += [produce(50, 1, node_id=2), produce(55, 2, node_id=2)]
    rows += [disconnect(at, gone, node_id=2) for at in (200, 700, 1500)]
    rows += [disconnect(180, "the broker closed the connection", node_id=2)]
    rows += [produce(2500, 1), produce(2510, 2), produce(1600, 1, 6)]
    fault, closed = steps(*rows)
    assert fault["kind"] == "leader_election"
    assert fault["match"] == {"topic": "orders", "partition_index": [1, 2]}
    # From the first that showed it to the last: what its client didn't ask for may have been served.
    assert fault["trigger"]["after_ms"] == 180
    assert fault["for_ms"] == 1420
    assert closed["kind"] == "close"


def test_a_refusal_that_came_late_is_held_and_where_the_broker_had_appended_it_does() -> None:
    rows = [produce(at, 0) for at in range(0, 4000, 100)]
    rows += [produce(1050, 0, 7, took_ms=3000), produce(9000, 0), produce(9050, 0, 19, took_ms=3000)]
    found = [(fault["kind"], fault.get("phase"), fault["trigger"]["after_ms"]) for fault in steps(*rows)]
    assert found == [
        ("delay", "after_broker", 1050),
        ("error", "after_broker", 1050),
        ("delay", "before_broker", 9050),
        ("error", None, 9050),
    ]
    assert [fault["delay_ms"] for fault in steps(*rows) if fault["kind"] == "delay"] == [2998, 2998]


def test_when_no_broker_is_there_connections_are_closed_as_they_come() -> None:
    gone = "no broker could be reached for broker-1: Connection refused"
    (fault,) = steps(
        produce(0, 0), disconnect(300, gone, node_id=1), disconnect(900, gone, node_id=1), produce(1500, 0)
    )
    assert (fault["kind"], fault["phase"]) == ("close", "connection")
    assert fault["trigger"] == {"after_ms": 300.0, "times": "forever", "for_ms": 1202.0}
