"""Bodies of one version in another."""

from __future__ import annotations

import pytest

from notleader.proxy.replay.shapes import fitted, newer_answer, newer_request, older_answer
from notleader.proxy.wire.codec import known_versions, response_codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.schemas import NO_UUID, version_ranges


@pytest.mark.parametrize("api_key", sorted(version_ranges()))
def test_a_body_of_any_version_can_be_told_in_any_other(api_key: int) -> None:
    versions = known_versions(api_key)
    for written in {versions[0], versions[-1]}:
        codec = response_codec(api_key, written)
        body = codec.decode(codec.encode(fitted(codec.fields, {})))
        for read in versions:
            other = response_codec(api_key, read)
            assert other.decode(other.encode(fitted(other.fields, body))) is not None


def test_what_a_version_lacks_is_left_out_and_what_is_new_has_its_default() -> None:
    fields = response_codec(ApiKey.Metadata, 12).fields
    told = fitted(fields, {"brokers": [{"node_id": 1, "_tags": {5: b"x"}}], "gone": 1, "topics": [{"name": "orders"}]})
    assert "gone" not in told
    assert told["brokers"] == [{"node_id": 1, "host": "", "port": 0, "rack": None}]
    assert (told["topics"][0]["topic_id"], told["cluster_id"]) == (NO_UUID, None)


def test_a_null_that_an_older_version_does_not_know_is_its_default() -> None:
    codec = response_codec(ApiKey.JoinGroup, 5)
    with pytest.raises(WireError):
        codec.encode({"protocol_name": None})
    assert fitted(codec.fields, {"protocol_name": None})["protocol_name"] == ""


def test_members_that_leave_one_by_one_and_together() -> None:
    request = newer_request(ApiKey.LeaveGroup, 1, {"group_id": "g", "member_id": "m"})
    answer = newer_answer(ApiKey.LeaveGroup, 1, request, {"error_code": 0})
    assert [(one["member_id"], one["error_code"]) for one in answer["members"]] == [("m", 0)]
    refused = {"error_code": 0, "members": [{"member_id": "m", "error_code": 25}]}
    assert older_answer(ApiKey.LeaveGroup, 1, refused)["error_code"] == 25
