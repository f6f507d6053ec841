from __future__ import annotations

import pytest

from notleader.faults.match import keys_answered
from notleader.faults.schema import parse_faults
from notleader.proxy.lab.explore.candidates import (
    APPLIED,
    FATAL,
    RETRIABLE,
    brokers_needed,
    candidates,
    strikes,
)
from notleader.proxy.lab.explore.points import Point
from notleader.proxy.wire.names import ApiKey, ErrorCode


@pytest.mark.parametrize("api", sorted({*RETRIABLE, *APPLIED, *FATAL, "ApiVersions"}))
def test_every_candidate_is_a_rule_that_a_config_file_may_have(api: str) -> None:
    assert api in ApiKey.__members__
    partition_index = 1 if "partition_index" in keys_answered(ApiKey[api]) else None
    for candidate in strikes(Point(api, partition_index, 3, 9, 120.0, idempotent=True, transactional=True)):
        parse_faults(candidate.documents)


def test_every_error_is_one_of_kafkas() -> None:
    for table in (RETRIABLE, APPLIED, FATAL):
        for codes in table.values():
            assert set(codes) <= set(ErrorCode.__members__)


def test_sequence_errors_are_for_producers_that_have_sequences() -> None:
    def codes(idempotent: bool) -> set[str]:
        found = strikes(Point("Produce", None, 0, 1, 0.0, idempotent=idempotent))
        return {rule.get("error_code", "") for each in found for rule in each.documents}

    assert codes(True) - codes(False) == {"OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"}


def test_the_place_is_in_the_trigger_and_the_partition_in_the_match() -> None:
    (first, *_) = strikes(Point("Produce", 2, 5, 9, 0.0))
    (rule,) = first.documents
    assert rule["match"] == {"api_key": "Produce", "partition_index": 2}
    assert rule["trigger"] == {"times": 1, "skip": 5}


def test_what_carries_the_work_comes_first() -> None:
    found = candidates([Point("ApiVersions", None, 0, 1, 0.0), Point("Produce", None, 0, 1, 1.0)])
    assert list(dict.fromkeys(candidate.api for candidate in found)) == ["Produce", "ApiVersions", "any"]


def test_what_clients_take_in_the_same_way_has_one_name() -> None:
    found = {each.family[0]: each.effect for each in strikes(Point("Produce", None, 0, 1, 0.0))}
    assert found["Produce close"] == found["Produce reset"] == "cut"
    assert found["Produce drop_request"] == found["Produce stall"] == "silent"
    assert found["Produce close after_broker"] == found["Produce reset after_broker"] == "carried out, and cut"
    assert found["Produce drop_response"] == "carried out, and silent"
    assert found["Produce error REQUEST_TIMED_OUT after_broker"] == "carried out, and refused"
    assert found["Produce error NOT_LEADER_OR_FOLLOWER"] == "refused"
    assert found["Produce error NOT_ENOUGH_REPLICAS x5"] == "refused often"
    assert found["Produce error MESSAGE_TOO_LARGE"] == "refused for good"
    assert found["Produce reset then error NOT_ENOUGH_REPLICAS"] == "one after the other"
    assert found["any reset 6000 ms"] == "cut"


def test_an_answer_that_says_nothing_may_come_of_any_api_and_may_end_a_client() -> None:
    for api in RETRIABLE:
        rules = {each.family[0]: each for each in strikes(Point(api, None, 0, 1, 0.0))}
        assert rules[f"{api} error UNKNOWN_SERVER_ERROR"].is_fatal


def test_what_is_out_of_reach_is_so_for_seconds_and_in_a_row() -> None:
    rules = {each.family[0]: each for each in strikes(Point("Produce", None, 2, 9, 400.0))}
    (gone,) = rules["any reset 6000 ms"].documents
    assert gone["trigger"] == {"after_ms": 400, "for_ms": 6000, "times": "forever"}
    (dropped,) = rules["Produce drop_request x5"].documents
    assert dropped["trigger"] == {"times": 5, "skip": 2}
    assert rules["Produce drop_request x5"].costs_s == 5 * rules["Produce drop_request"].costs_s


def test_an_outage_is_one_fault_wherever_it_begins() -> None:
    order = candidates([Point("Produce", None, 0, 1, 5.0), Point("Fetch", None, 0, 1, 40.0)])
    starts = [each.documents[0]["trigger"]["after_ms"] for each in order if each.family == ("any reset 6000 ms",)]
    assert starts == [5, 40]


def test_who_cannot_reach_kafka_for_long_may_give_up_and_say_so() -> None:
    rules = {each.family[0]: each for each in strikes(Point("Produce", None, 0, 1, 5.0))}
    assert rules["any reset 6000 ms"].stands
    assert rules["any blackhole 10000 ms"].stands
    assert not rules["any blackhole 3000 ms"].stands
    assert not rules["Produce close"].stands
    assert rules["Produce close"].with_(rules["any reset 6000 ms"]).stands
    assert rules["Produce close x5"].tries([4]) == [4]
    assert rules["any rolling_restart"].tries([4]) == [], "these are listeners and connections"


def test_the_next_request_after_one_that_is_lost_is_struck_too() -> None:
    found = {each.family[0]: each for each in strikes(Point("Produce", None, 5, 9, 0.0, idempotent=True))}
    cut, refused = found["Produce reset then error NOT_ENOUGH_REPLICAS"].documents
    assert (cut["kind"], refused["error_code"]) == ("reset", "NOT_ENOUGH_REPLICAS")
    assert cut["trigger"] == refused["trigger"] == {"times": 1, "skip": 5}


def test_the_broker_of_an_exchange_is_gone_where_others_can_take_over() -> None:
    several = Point("EndTxn", None, 2, 9, 400.0, node_id=3, brokers=3)
    found = {each.family[0]: each for each in strikes(several)}
    _, down = found["any broker_down for good from EndTxn on"].documents
    assert (down["node_id"], "for_ms" in down["trigger"]) == ("struck", False)
    for name in ("for good", "6000 ms", "powered_off for good", "powered_off 6000 ms"):
        each = found[f"any broker_down {name} from EndTxn on"]
        parse_faults(each.documents)
        assert not each.stands, "the others are there"
        assert brokers_needed(each.documents) == 3
    effects = {each.effect for name, each in found.items() if "broker_down" in name}
    assert effects == {f"broker_down{how}{lasts}" for how in ("", " powered_off") for lasts in ("", " for good")}
    alone = strikes(Point("EndTxn", None, 2, 9, 400.0, node_id=1))
    assert not any(brokers_needed(each.documents) > 1 for each in alone)


def test_an_outage_begins_with_an_exchange_too() -> None:
    found = {each.family[0]: each for each in strikes(Point("Produce", None, 2, 9, 400.0))}
    cut, silent = found["any blackhole 3000 ms from Produce on"].documents
    assert cut["name"] == silent["trigger"]["after_fault"]
    parse_faults([cut, silent])
