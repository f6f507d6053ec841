"""No address of a broker slips past, in any message of any version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from notleader.proxy.wire.addresses import EXCLUDED, address_structs, carriers, rewrite_addresses, with_addresses
from notleader.proxy.wire.codec import Codec, known_versions, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.schemas import Field

# Requests travel to the broker, which is not told of the proxy; these carry somebody's own address there.
REQUESTS_WITH_ADDRESSES = {
    ApiKey.LeaderAndIsr: "controller to broker, Kafka 3.9 with ZooKeeper",
    ApiKey.UpdateMetadata: "controller to broker, Kafka 3.9 with ZooKeeper",
    ApiKey.BeginQuorumEpoch: "controller to controller",
    ApiKey.EndQuorumEpoch: "controller to controller",
    ApiKey.BrokerRegistration: "broker to controller",
    ApiKey.ControllerRegistration: "controller to controller",
    ApiKey.AddRaftVoter: "an operator names a controller",
    ApiKey.UpdateRaftVoter: "controller to controller",
    ApiKey.StreamsGroupHeartbeat: "the address of a Streams application",
}

# A host without a port: where a client comes from, not where a broker is.
HOSTS_OF_CLIENTS = {
    ApiKey.DescribeAcls,
    ApiKey.CreateAcls,
    ApiKey.DeleteAcls,
    ApiKey.DescribeGroups,
    ApiKey.ConsumerGroupDescribe,
    ApiKey.ShareGroupDescribe,
    ApiKey.Envelope,
}


def codecs() -> Iterator[Codec]:
    for api_key in ApiKey:
        for version in known_versions(api_key):
            yield request_codec(api_key, version)
            yield response_codec(api_key, version)


def looks_like_an_address(fields: tuple[Field, ...]) -> Iterator[tuple[str, ...]]:
    """Looser than the code under test on purpose: any port, host or address by any other name."""
    for field in fields:
        words = set(field.name.split("_"))
        if (
            words & {"host", "hostname", "port", "address", "endpoint"}
            and not field.fields
            and not (field.name.endswith(("_type", "_id", "_epoch")))
        ):
            yield (field.name,)
        for inner in looks_like_an_address(field.fields):
            yield (field.name, *inner)


def test_every_host_and_port_is_a_carrier_or_excluded_with_a_reason() -> None:
    missed = [
        (codec, path)
        for codec in codecs()
        for path in looks_like_an_address(codec.fields)
        if path[:-1] not in {carrier.path for carrier in carriers(codec)}
        and codec.api_key not in (EXCLUDED if codec.direction == "response" else REQUESTS_WITH_ADDRESSES)
        and codec.api_key not in HOSTS_OF_CLIENTS
    ]
    assert not missed


def test_no_exclusion_hides_a_carrier_that_is_needed() -> None:
    """The exclusions are exactly the APIs in which an address stands, so that none is a leftover."""
    with_addresses = {
        codec.api_key for codec in codecs() if codec.direction == "response" and any(address_structs(codec.fields))
    }
    carrying = {codec.api_key for codec in codecs() if carriers(codec)}
    assert with_addresses - carrying == set(EXCLUDED)
    assert carrying == {
        ApiKey.Produce,
        ApiKey.Fetch,
        ApiKey.Metadata,
        ApiKey.FindCoordinator,
        ApiKey.DescribeCluster,
        ApiKey.ShareFetch,
        ApiKey.ShareAcknowledge,
    }


def shifted(node_id: int, host: str, port: int) -> tuple[str, int]:
    return f"proxy-{node_id}-{host}", port + 1


@pytest.mark.parametrize("codec", [codec for codec in codecs() if carriers(codec)], ids=repr)
def test_every_carrier_is_rewritten(codec: Codec) -> None:
    """A body with one address in every carrier comes back with all of them shifted, and nothing else."""
    body = codec.decode(codec.encode({}))
    for carrier in carriers(codec):
        struct = {carrier.node_id: 3, carrier.host: "kafka", carrier.port: 9092}
        if carrier.path:
            body[carrier.path[0]] = [struct, struct | {carrier.node_id: 4}]
        else:
            body |= struct
    sent = codec.decode(codec.encode(body))
    frame = b"head" + codec.encode(body)
    assert rewrite_addresses(codec, sent, shifted)
    assert b"".join(with_addresses(codec, frame, 4, shifted) or ()) == codec.encode(sent)
    assert with_addresses(codec, frame, 4, lambda _node_id, host, port: (host, port)) is None
    for carrier in carriers(codec):
        structs = sent[carrier.path[0]] if carrier.path else [sent]
        assert [(struct[carrier.host], struct[carrier.port]) for struct in structs] == [
            (f"proxy-{struct[carrier.node_id]}-kafka", 9093) for struct in structs
        ]


@pytest.mark.parametrize(("node_id", "host"), [(-1, ""), (-1, "kafka"), (0, "")])
def test_an_answer_without_a_broker_is_left_alone(node_id: int, host: str) -> None:
    codec = response_codec(ApiKey.FindCoordinator, 2)
    body = {"error_code": 15, "node_id": node_id, "host": host, "port": -1}
    assert not rewrite_addresses(codec, body, shifted)
    assert body["port"] == -1


def test_an_address_that_stays_is_no_change() -> None:
    codec = response_codec(ApiKey.Metadata, 12)
    body = {"brokers": [{"node_id": 1, "host": "kafka", "port": 9092}]}
    assert not rewrite_addresses(codec, body, lambda _node_id, host, port: (host, port))


def test_the_topics_of_metadata_are_passed_on_unread() -> None:
    """Even what could not be read behind the brokers leaves as it came."""
    codec = response_codec(ApiKey.Metadata, 12)
    data = codec.encode({"brokers": [{"node_id": 1, "host": "kafka", "port": 9092}]})
    brokers, rest = with_addresses(codec, data + b"garbage", 0, shifted) or (b"", b"")
    assert bytes(rest).endswith(b"garbage")
    assert b"proxy-1-kafka" in brokers


def test_an_answer_that_begins_as_the_last_one_did() -> None:
    """The brokers at the beginning are compared as bytes: what follows, a broker more or a moved one is still seen."""
    codec = response_codec(ApiKey.Metadata, 12)
    one = {"node_id": 1, "host": "kafka", "port": 9092}
    answers = [
        {"brokers": [one], "cluster_id": "a"},
        {"brokers": [one], "cluster_id": "a", "topics": [{"name": "t"}]},
        {"brokers": [one, one | {"node_id": 2}], "cluster_id": "a"},
        {"brokers": [], "cluster_id": "a"},
        {"brokers": [one | {"host": "kafka2"}], "cluster_id": "a"},
    ]
    asked: list[int] = []

    def moving(node_id: int, host: str, port: int) -> tuple[str, int]:
        asked.append(node_id)
        return host, port + len(moves)

    for moves in ([], [1], [1, 2]):
        for answer in answers * 2:
            asked.clear()
            frame = codec.encode(answer)
            sent = codec.decode(frame)
            changed = rewrite_addresses(codec, sent, lambda _node_id, host, port: (host, port + len(moves)))  # noqa: B023
            found = with_addresses(codec, frame, 0, moving)
            assert (found is not None) == changed
            assert b"".join(found or (frame,)) == codec.encode(sent)
            assert set(asked) == {broker["node_id"] for broker in answer["brokers"]}
