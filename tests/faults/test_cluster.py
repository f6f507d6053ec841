"""What is learned from Metadata answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

import notleader.faults.cluster as cluster_module
from notleader.faults.cluster import Cluster, Leadership
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.names import ApiKey
from tests.faults.script import ORDERS_ID, Body, metadata_answer


def observed(*answers: dict[str, object]) -> Cluster:
    cluster = Cluster()
    for answer in answers:
        cluster.observe_metadata(answer)
    return cluster


def test_names_ids_brokers_and_leaders_are_learned() -> None:
    cluster = observed(metadata_answer(epoch=5))
    assert (cluster.topic_name(ORDERS_ID), cluster.topic_id("orders")) == ("orders", ORDERS_ID)
    assert cluster.topic_name(UUID(int=1)) is None
    assert {node_id: broker.host for node_id, broker in cluster.brokers.items()} == {1: "b1", 2: "b2"}
    assert cluster.leaders["payments", 2] == Leadership(2, 5, (1, 2))
    assert cluster.topics() == {"orders", "payments"}
    assert [entry.partition_index for entry in cluster.partitions([("orders", None)])] == [0, 1, 2]
    assert [entry.topic for entry in cluster.partitions([(None, ORDERS_ID)])] == ["orders"] * 3
    assert len(cluster.partitions()) == 6


def test_an_older_epoch_is_an_older_truth() -> None:
    cluster = observed(metadata_answer(epoch=5), metadata_answer(epoch=4))
    assert cluster.leaders["orders", 0].leader_epoch == 5
    cluster.observe_metadata(metadata_answer(epoch=6))
    assert cluster.leaders["orders", 0].leader_epoch == 6


def test_a_topic_made_anew_begins_anew() -> None:
    again = metadata_answer(epoch=0, partitions=1)
    again["topics"][0]["topic_id"] = UUID(int=77)
    cluster = observed(metadata_answer(epoch=5), again)
    assert cluster.leaders["orders", 0].leader_epoch == 0
    assert ("orders", 1) not in cluster.leaders
    assert cluster.topic_id("orders") == UUID(int=77)


def test_an_answer_without_brokers_or_with_a_refused_topic_teaches_nothing() -> None:
    cluster = observed(metadata_answer(), {"brokers": [], "topics": [{"name": "x", "error_code": 3, "partitions": []}]})
    assert len(cluster.brokers) == 2
    assert "x" not in cluster.topics()


def test_an_answer_without_epochs_keeps_what_is_known_of_the_same_leader() -> None:
    nameless = metadata_answer()
    for topic in nameless["topics"]:
        for partition in topic["partitions"]:
            del partition["leader_epoch"]
    cluster = observed(metadata_answer(epoch=5), nameless)
    assert cluster.leaders["orders", 0] == Leadership(1, 5, (1, 2))
    nameless["topics"][0]["partitions"][0]["leader_id"] = 2
    cluster.observe_metadata(nameless)
    assert cluster.leaders["orders", 0] == Leadership(2, -1, (1, 2))


_CHANGES: list[Callable[[Body], Any]] = [
    lambda answer: None,
    lambda answer: answer["topics"].pop(),
    lambda answer: answer["topics"].clear(),
    lambda answer: answer["brokers"].pop(),
    lambda answer: answer["brokers"].clear(),
    lambda answer: answer["brokers"][0].update(host="b3"),
    lambda answer: answer.update(controller_id=2),
    lambda answer: answer.update(cluster_id="d"),
    lambda answer: answer["topics"][0].update(topic_id=UUID(int=77)),
    lambda answer: answer["topics"][0].update(error_code=3),
    lambda answer: answer["topics"][0]["partitions"][0].update(leader_id=2),
    lambda answer: answer["topics"][0]["partitions"][0].update(leader_id=2, leader_epoch=6),
    lambda answer: answer["topics"][0]["partitions"][0].update(isr_nodes=[2]),
    lambda answer: answer["topics"][0]["partitions"][1].update(leader_epoch=4),
]


@given(
    st.lists(st.tuples(st.integers(0, len(_CHANGES) - 1), st.sampled_from((4, 9, 12)), st.booleans()), max_size=30),
    st.sampled_from((3, 256)),
)
def test_answers_that_are_no_news_would_teach_nothing(answers: list[tuple[int, int, bool]], most: int) -> None:
    """A cluster that skips them knows what one that learns from all answers does, after each of them."""
    skips, learns = Cluster(), Cluster()
    with patch.object(cluster_module, "_MOST_KNOWN", most):
        for change, version, is_asked_by_us in answers:
            answer = metadata_answer()
            _CHANGES[change](answer)
            codec = response_codec(ApiKey.Metadata, version)
            frame = codec.encode(answer)
            body = codec.decode(frame)
            learns.observe_metadata(body)
            if is_asked_by_us:
                skips.observe_metadata(body)
            elif skips.is_news(version, b"head" + frame, 4):
                skips.observe_metadata(body, (version, frame))
            assert known(skips) == known(learns)


def known(cluster: Cluster) -> list[Any]:
    ids = [cluster.topic_id(topic) for topic in ("orders", "payments")]
    return [cluster.brokers, cluster.cluster_id, cluster.controller_id, cluster.leaders, ids]


def test_clients_that_ask_for_different_things_in_turn_bring_no_news() -> None:
    cluster = Cluster()
    all_topics, one_topic = metadata_answer(), metadata_answer()
    one_topic["topics"].pop()
    frames = [
        (version, response_codec(ApiKey.Metadata, version).encode(answer))
        for version in (4, 9, 12)
        for answer in (all_topics, one_topic)
    ]
    news = []
    for _ in range(3):
        for version, frame in frames:
            news.append(cluster.is_news(version, frame))
            if news[-1]:
                cluster.observe_metadata(response_codec(ApiKey.Metadata, version).decode(frame), (version, frame))
    assert not any(news[2 * len(frames) :])


def test_what_can_not_be_learned_from_is_tried_once() -> None:
    cluster = Cluster()
    assert cluster.is_news(9, b"too large")
    assert cluster.is_news(9, b"too large")
    cluster.pass_over(9, b"too large")
    assert not cluster.is_news(9, b"too large")
    assert cluster.is_news(9, b"too small")
