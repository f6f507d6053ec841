"""The compiled path of plain frames and the one in Python say the same, whatever is said to them and in which portions.

The class that a session is made of is chosen at import, so the Python one plays in a process of its own.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notleader.proxy.pump.flags import MOST_OPEN, MOST_STOPS
from notleader.proxy.record.rows import PARTITIONS
from notleader.proxy.wire.codec import request_codec
from notleader.proxy.wire.header import request_header_version
from notleader.proxy.wire.names import ApiKey
from tests.proxy.pump.play import Play, play
from tests.proxy.record.batches import batch
from tests.proxy.session.conversation import framed, response

PROJECT = Path(__file__).parents[3]
Told = list[Any]


@pytest.fixture(scope="module")
def pure() -> Iterator[Callable[[Play], Told]]:
    """Play a conversation where nothing is compiled."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.proxy.pump.play"],
        cwd=PROJECT,
        env={**os.environ, "NOTLEADER_PURE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def play_there(script: Play) -> Told:
        pickle.dump(script, stdin)
        stdin.flush()
        is_native, told = pickle.load(stdout)
        assert not is_native
        return told

    with process:
        yield play_there
        stdin.close()
        assert process.wait(60) == 0


def compiled(script: Play) -> Told:
    is_native, told = play(script)
    assert is_native
    return told


def asked(
    api_key: int, version: int, number: int, body: bytes, client_id: bytes | None = b"c", tags: bytes = b"\0"
) -> bytes:
    """A whole request; its header has ``tags`` if its version has any."""
    name = pack(">h", -1) if client_id is None else pack(">h", len(client_id)) + client_id
    flexible = request_header_version(api_key, version) == 2
    return framed(pack(">hhi", api_key, version, number) + name + (tags if flexible else b"") + body)


def key(number: int) -> bytes:
    return pack(">i", number)


# ---- what is asked and answered ---------------------------------------------------------------------------------

# No header tags, one with a value of three bytes, one whose size takes two bytes.
TAGS = st.sampled_from([b"\0"] * 4 + [b"\x01\x05\x03abc", b"\x01\x07\xc8\x01" + b"t" * 200])
CLIENT_IDS = st.sampled_from([b"c", b"c", b"app-1", None, b"", b"\xff\xfe\xe2\x82", "päron".encode(), b"x" * 400])
SIZES = st.sampled_from([0, 1, 10, 10, 300, 3990, 4100, 9_000, 70_000])
BROKER = {"node_id": 2, "host": "real", "port": 9092, "rack": None}
LEADER = {"current_leader": {"leader_id": 2, "leader_epoch": 4}, "error_code": 6}
TOPIC_ID = UUID(int=7)


def produce(
    version: int, acks: int, transactional_id: str | None, records: bytes, *, topics: int = 1, partitions: int = 1
) -> bytes:
    """The body of a Produce request."""
    data = [{"index": index, "records": records} for index in range(partitions)]
    entries = [{"name": f"t{number}", "topic_id": TOPIC_ID, "partition_data": data} for number in range(topics)]
    if topics:
        entries[0]["name"] = "orders"
    body = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 1, "topic_data": entries}
    return request_codec(ApiKey.Produce, version).encode(body)


def produced(version: int, number: int, *, topics: int = 1, partitions: int = 1, **more: Any) -> bytes:
    entries = [{"index": index, "base_offset": 5, **more.get("partition", {})} for index in range(partitions)]
    told = [{"name": f"t{i}", "topic_id": TOPIC_ID, "partition_responses": entries} for i in range(topics)]
    body = {"responses": told, "node_endpoints": more.get("endpoints", []), "throttle_time_ms": 0}
    return response(ApiKey.Produce, version, number, body)


def fetched(version: int, number: int, size: int, endpoints: list[Any]) -> bytes:
    partition = {"partition_index": 0, "records": b"r" * size, "aborted_transactions": None}
    body = {"responses": [{"topic": "orders", "topic_id": TOPIC_ID, "partitions": [partition]}]}
    return response(ApiKey.Fetch, version, number, {**body, "node_endpoints": endpoints})


@st.composite
def exchanges(draw: st.DrawFn, number: int) -> tuple[bytes, bytes, int]:
    """A request, the answer to it (empty: none is due), and how many bytes of it must come at once; see `scripts`."""
    api_key = draw(
        st.sampled_from(
            [ApiKey.Produce] * 4
            + [ApiKey.Fetch] * 2
            + [ApiKey.Heartbeat] * 3
            + [ApiKey.Metadata, ApiKey.ApiVersions, ApiKey.OffsetCommit, ApiKey.FindCoordinator, 900]
        )
    )
    client_id, tags = draw(CLIENT_IDS), draw(TAGS)
    endpoints = draw(st.sampled_from([[], [], [BROKER]]))
    together = 0
    if api_key == ApiKey.Produce:
        version, acks = draw(st.sampled_from([2, 3, 7, 8, 9, 10, 11, 12, 13])), draw(st.sampled_from([-1, -1, 1, 0]))
        transactional_id = draw(st.sampled_from([None, None, "", "tx", "t" * 130]))
        many = {"topics": draw(st.sampled_from([0, 1, 1, 2])), "partitions": draw(st.sampled_from([0, 1, 1, 3, 130]))}
        size = draw(SIZES) if many["partitions"] == 1 else 10
        records = draw(st.sampled_from([bytes(size), batch(bytes(size)), batch(bytes(size), producer_id=5)]))
        body = produce(version, acks, transactional_id, records, **many)
        odd = draw(st.sampled_from([{}, {}, LEADER, {"error_message": "no"}, {"record_errors": [{"batch_index": 1}]}]))
        answer = b"" if acks == 0 else produced(version, number, **many, partition=odd, endpoints=endpoints)
        together = 512
    elif api_key == ApiKey.Fetch:
        version = draw(st.sampled_from([4, 11, 12, 15, 16, 17]))
        topic = {"topic": "orders", "topic_id": TOPIC_ID, "partitions": [{"partition": 0}]}
        body = request_codec(api_key, version).encode({"topics": [topic], "max_wait_ms": 1})
        answer = fetched(version, number, draw(SIZES), endpoints)
    elif api_key == 900:
        version, body = draw(st.sampled_from([0, 3])), bytes(draw(SIZES))
        answer = framed(key(number) + bytes(draw(SIZES)))
    else:
        version = draw(st.sampled_from([0, 1, 3, 4]))
        codec = request_codec(api_key, version)
        body = codec.encode({"group_id": "g", "key": "g", "topics": []})
        said: dict[str, Any] = {"brokers": [BROKER], "node_id": 2, "host": "real", "port": 9092}
        if api_key == ApiKey.Heartbeat:
            said = {"error_code": draw(st.sampled_from([0, 27]))}
        answer = response(api_key, version, number, said)
    return asked(api_key, version, number, body, client_id, tags), answer, together


# Frames that are none, or none that are told apart by their first bytes alone.
JUNK = [
    pack(">ihhi", 8, ApiKey.ControlledShutdown, 0, 77),
    pack(">ihhih", 10, ApiKey.Heartbeat, 3, 77, -1),
    pack(">ihhih", 10, ApiKey.Produce, 9, 77, -1),
    pack(">ihhih", 12, ApiKey.Produce, 9, 77, -1) + b"\0\0",
    pack(">ihhih", 14, ApiKey.Produce, 7, 77, 0) + b"\xff\xff\0\0",
    pack(">ihhih", 20, ApiKey.Heartbeat, 3, 77, 11) + bytes(10),
    pack(">ihhih", 20, ApiKey.Heartbeat, 3, 77, 30_000) + bytes(10),
    pack(">ihhih", 20, ApiKey.Produce, 7, 77, -9) + b"\xff\xff\0\x01" + bytes(6),
    pack(">ihhih", 40, ApiKey.Heartbeat, 300, 77, -1) + bytes(30),
    pack(">ihhih", 40, 1001, 0, 77, -1) + bytes(30),
    pack(">ihhih", 40, -1, 0, 77, -1) + bytes(30),
    pack(">i", -1) + bytes(20),
    pack(">i", 2**31 - 1) + bytes(20),
    pack(">i", 0) + bytes(20),
    b"GET / HTTP/1.1\r\n\r\n",
]
ANSWERED_JUNK = [b"", framed(key(77)), framed(key(77) + bytes(5000)), pack(">i", 3) + key(77), pack(">i", -5)]

TRIGGERS = st.sampled_from([{}, {"skip": 1}, {"times": 2, "every": 2}, {"times": "forever"}])
APIS = st.sampled_from(["Produce", "Heartbeat", "Fetch", "Metadata"])
FAULTS = st.builds(
    lambda api, fault, trigger: {"match": {"api_key": api}, **fault, "trigger": trigger},
    APIS,
    st.sampled_from(
        [
            {
                "kind": "error",
                "error_code": "NOT_LEADER_OR_FOLLOWER",
                "match": {"topic": "orders", "api_key": "Produce"},
            },
            {"kind": "error", "error_code": "REBALANCE_IN_PROGRESS", "match": {"api_key": "Heartbeat"}},
            {"kind": "error", "error_code": "UNKNOWN_SERVER_ERROR", "phase": "after_broker"},
            {"kind": "delay", "delay_ms": 3},
            {"kind": "delay", "delay_ms": 3, "phase": "after_broker"},
            {"kind": "drop_response"},
            {"kind": "drop_response", "later": "pass"},
            {"kind": "drop_request"},
            {"kind": "duplicate", "match": {"api_key": "Produce"}},
            {"kind": "close"},
            {"kind": "close", "phase": "after_broker"},
            {"kind": "truncate"},
            {"kind": "truncate", "phase": "before_broker"},
        ]
    ),
    TRIGGERS,
)

TOKEN = framed(b"\0alice\0secret")


@st.composite
def scripts(draw: st.DrawFn) -> Play:
    """A conversation of up to ten exchanges, cut anywhere on either side.

    Anywhere but in one place: of a Produce the Python one wants more bytes at once before it looks for acks, and so
    may pass its beginning on one portion later. `test_acks_are_found_wherever_it_is_cut` has that one to itself.
    """
    frames: list[bytes] = []
    answers: dict[bytes, bytes] = {}
    steps: list[tuple[str, int, float]] = []
    apart: list[range] = []
    at = 0
    if draw(st.sampled_from([False] * 5 + [True])):
        version = draw(st.sampled_from([0, 1]))
        body = request_codec(ApiKey.SaslHandshake, version).encode({"mechanism": "PLAIN"})
        frames.append(asked(ApiKey.SaslHandshake, version, 1000, body))
        answers[key(1000)] = response(ApiKey.SaslHandshake, version, 1000, {"mechanisms": ["PLAIN"]})
        at = len(frames[0])
        steps += [("client", at, 0), ("broker", 1 << 20, 0)]
        if version == 0:
            frames.append(TOKEN)
            answers[TOKEN[8:12]] = framed(b"")
            at += len(TOKEN)
    for number in range(1, draw(st.integers(1, 10)) + 1):
        if draw(st.integers(0, 11)) == 11:
            frame, answers[key(77)], together = draw(st.sampled_from(JUNK)), draw(st.sampled_from(ANSWERED_JUNK)), 0
        else:
            frame, answers[key(number)], together = draw(exchanges(number))
            if draw(st.integers(0, 40)) == 40:
                answers[key(number)] = answers[key(number)][4:] or b"\0\0\0\x04" + key(9)
        if together:
            named = max(0, int.from_bytes(frame[12:14], "big", signed=True))
            apart.append(range(at + 14, at + min(len(frame), 14 + named + together)))
        frames.append(frame)
        at += len(frame)
    position = sum(size for who, size, _ in steps if who == "client")
    end = at
    pauses = st.sampled_from([0, 0, 1, 2.5])
    portions = st.sampled_from([1, 3, 7, 8, 9, 40, 300, 4096, 1 << 20])
    while position < end:
        size = draw(st.sampled_from([1, 4, 13, 14, 15, 30, 60, 300, 4095, 4096, 20_000, 1 << 20]))
        stop = min(position + size, end)
        for region in apart:
            if stop in region:
                stop = region.stop
        steps.append(("client", stop - position, draw(pauses)))
        position = stop
        for _ in range(draw(st.integers(0, 3))):
            steps.append(("broker", draw(portions), draw(pauses)))
        if draw(st.booleans()):
            steps.append(("wake", 0, draw(pauses)))
    for _ in range(draw(st.integers(0, 3))):
        steps += [("broker", draw(portions), 0), ("wake", 0, 4)]
    ends = draw(st.lists(st.sampled_from(["client_eof", "broker_eof", "gone", "finish"]), max_size=2))
    for who in ends:
        steps += [("broker", 1 << 20, 4), ("wake", 0, 4)] * 4 if who == "finish" else [(who, 0, 1)]
    return Play(
        b"".join(frames),
        answers,
        steps,
        draw(st.lists(FAULTS, max_size=2)),
        draw(st.sampled_from([None, "header", "partition", "record", "payload"])),
        draw(st.sampled_from([64 << 20, 2000])),
        draw(st.sampled_from([{}, {}, {"max_frame_bytes": 5000}, {"max_held_bytes": 500}])),
    )


@settings(max_examples=250, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
@given(scripts())
def test_they_say_the_same(pure: Callable[[Play], Told], script: Play) -> None:
    """The same commands at each step, the same columns of the same exchanges, the same name of the client."""
    told = compiled(script)
    assert told == pure(script)
    assert "notleader failed at this" not in repr(told)


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", [2, 3, 8, 9, 12, 13])
@pytest.mark.parametrize("client_id", [None, b"", b"app"])
def test_acks_are_found_wherever_it_is_cut(
    pure: Callable[[Play], Told], client_id: bytes | None, version: int, acks: int
) -> None:
    """A Produce comes in two portions; whoever takes acks for something else waits for the wrong answer next."""
    ids = (
        (None, b"\0"),
        ("tx", b"\0"),
        (None, b"\x01\x05\x03abc"),
        ("", b"\0"),
        ("t" * 700, b"\0"),
        ("t" * 9000, b"\0"),
    )
    for transactional_id, tags in ids:
        script = Play(b"")
        for place in range(1, 60):
            number = 2 * place
            body = produce(version, acks, transactional_id, bytes(20))
            frame = asked(ApiKey.Produce, version, number, body, client_id, tags)
            cut = place if len(frame) < 200 else len(frame) * place // 60
            script.sent += frame + asked(ApiKey.Heartbeat, 3, number + 1, bytes(20))
            if acks:
                script.answers[key(number)] = produced(version, number)
            script.answers[key(number + 1)] = response(ApiKey.Heartbeat, 3, number + 1)
            length = len(script.sent) - sum(step[1] for step in script.steps if step[0] == "client")
            script.steps += [("client", cut, 0), ("client", length - cut, 0), ("broker", 1 << 20, 0)]
        for told in (compiled(script), pure(script)):
            outcomes = {entry["correlation_id"]: entry["outcome"] for entry in told[-3]}
            assert outcomes == {n: "answered" if acks or n % 2 else "no_response" for n in range(2, 120)}
            assert joined(told, "to_broker") == script.sent
            assert joined(told, "to_client") == b"".join(script.answers[key(n)] for n in range(2, 120) if acks or n % 2)


@pytest.mark.parametrize("portion", [7, 61, 250, 1000, 4096, 9000])
@pytest.mark.parametrize("version", [11, 12, 15, 16, 17])
@pytest.mark.parametrize("sizes", [([3000, 9000, 1, 20_000], [5000], []), ([3000, 9000, 1, 20_000],), ([20_000],)])
def test_the_batches_of_an_answer_are_counted_wherever_it_is_cut(
    pure: Callable[[Play], Told], sizes: Sequence[list[int]], version: int, portion: int
) -> None:
    """Most of its portions lie inside a batch: nobody looks at these, and yet they count."""
    script = Play(b"", level="partition", most_kept_bytes=2000)
    partitions = [
        {"partition_index": index, "aborted_transactions": None, "records": b"".join(batch(bytes(n)) for n in these)}
        for index, these in enumerate(sizes)
    ]
    for number, endpoints in enumerate(([], [BROKER]), 1):
        topic = {"topic": "orders", "topic_id": TOPIC_ID, "partitions": partitions}
        body = request_codec(ApiKey.Fetch, version).encode({"topics": [topic], "max_wait_ms": 1})
        script.sent += asked(ApiKey.Fetch, version, number, body)
        told = {"responses": [topic], "node_endpoints": endpoints}
        script.answers[key(number)] = response(ApiKey.Fetch, version, number, told)
    whole = b"".join(script.answers.values())
    ends = {found.end() for these in sizes for n in these for found in re.finditer(re.escape(batch(bytes(n))), whole)}
    cuts = sorted({*range(0, len(whole), portion), *ends, len(whole)})
    script.steps = [("client", 1 << 20, 0), *[("broker", stop - start, 0) for start, stop in pairwise(cuts)]]
    for said in (compiled(script), pure(script)):
        passed = joined(said, "to_client")
        changed = sum(one != other for one, other in zip(passed, whole, strict=True))
        assert changed == (version >= 16), "the tag number of the endpoints"
        rows = said[-1]
        assert len(rows) == len(script.answers)
        for row in rows:
            counts = [(part["record_count"], part["batch_bytes"]) for part in row[PARTITIONS]]
            assert counts == [(len(these), sum(these) + 61 * len(these)) for these in sizes]


def joined(told: Told, way: str) -> bytes:
    """All that went one way."""
    return b"".join(command[1] for step in told[:-3] for command in step[1] if command[0] == way)


@pytest.mark.parametrize("version", range(8, 14))
def test_a_brokers_address_leaves_no_answer_unseen(pure: Callable[[Play], Told], version: int) -> None:
    """Nor is an answer without one taken apart: the flags tell which way it went."""
    odds: list[Any] = [{}, LEADER, {"error_message": "no"}, {"error_message": ""}, {"record_errors": [{}]}]
    script = Play(b"")
    for topics, partitions, odd, endpoints in product((0, 1, 2, 130), (0, 1, 2, 130), odds, ([], [BROKER])):
        number = len(script.answers) + 1
        script.sent += asked(ApiKey.Produce, version, number, produce(version, -1, None, b""))
        many = {"topics": topics, "partitions": partitions if topics < 130 else 1}
        script.answers[key(number)] = produced(version, number, **many, partition=odd, endpoints=endpoints)
    script.steps = [("client", 1 << 20, 0), *(("broker", len(answer), 0) for answer in script.answers.values())]
    told = compiled(script)
    assert told == pure(script)
    assert len(told[-3]) == len(script.answers)
    assert (b"real" in joined(told, "to_client")) is False


@pytest.mark.parametrize("api_key", [ApiKey.Produce, ApiKey.Fetch, ApiKey.Heartbeat, ApiKey.ApiVersions])
def test_the_clients_name_is_whole_or_not_there(pure: Callable[[Play], Told], api_key: ApiKey) -> None:
    """A portion may end within it."""
    body = produce(8, -1, None, bytes(600)) if api_key == ApiKey.Produce else bytes(600)
    frame = asked(api_key, 8 if api_key == ApiKey.Produce else 3, 1, body, b"my-application")
    for cut in range(1, 40):
        script = Play(frame, steps=[("client", cut, 0), ("client", 1 << 20, 0)])
        for told in (compiled(script), pure(script)):
            first, second = told[0][3], told[1][3]
            assert "client_id=None" in first or "client_id='my-application'" in first
            assert "client_id='my-application'" in second


def test_what_comes_before_nonsense_is_passed_on_and_recorded(pure: Callable[[Play], Told]) -> None:
    """In one portion with it: it is as good as any, and says of itself that it was forwarded."""
    heartbeat, answer = asked(ApiKey.Heartbeat, 3, 1, bytes(20)), response(ApiKey.Heartbeat, 3, 1)
    script = Play(heartbeat + b"GET / HTTP/1.1\r\n\r\n", steps=[("client", 1 << 20, 0)])
    for told in (compiled(script), pure(script)):
        assert [name for name, *_ in told[0][1]] == ["to_broker", "wire_error", "close"]
        assert joined(told, "to_broker") == heartbeat
    script = Play(heartbeat * 2, {key(1): answer + pack(">i", 2)}, [("client", 1 << 20, 0), ("broker", 1 << 20, 0)])
    for told in (compiled(script), pure(script)):
        assert [name for name, *_ in told[1][1]] == ["to_client", "wire_error", "close"]
        assert joined(told, "to_client") == answer
        assert [entry["outcome"] for entry in told[-3] if isinstance(entry, dict)] == ["answered", "no_response"]


@pytest.mark.parametrize("portions", [[1, 1, 1, 1], [3, 1], [4]])
@pytest.mark.parametrize("size", [-(2**31), -1, 0, 2, 3, 7, 5001, 2**31 - 1])
def test_an_impossible_length_is_one_at_its_fourth_byte(
    pure: Callable[[Play], Told], size: int, portions: list[int]
) -> None:
    """Whoever sent it may send nothing more, and not close either."""
    heartbeat = asked(ApiKey.Heartbeat, 3, 1, bytes(20))
    limits = {"max_frame_bytes": 5000}
    script = Play(pack(">i", size), steps=[("client", portion, 0) for portion in portions], limits=limits)
    for told in (compiled(script), pure(script)):
        assert said_at_last(told) == [("wire_error", f"a frame length of {size} bytes"), "close"]
    if 4 <= size <= 5000:
        return
    script = Play(heartbeat, {key(1): pack(">i", size)}, [("client", len(heartbeat), 0)], limits=limits)
    script.steps += [("broker", portion, 0) for portion in portions]
    for told in (compiled(script), pure(script)):
        assert said_at_last(told) == [("wire_error", f"an answer of {size} bytes"), "close"]


def said_at_last(told: Told) -> list[Any]:
    """What the last step led to: what is wrong, and the names of the other commands."""
    return [command[:2] if command[0] == "wire_error" else command[0] for command in told[-4][1]]


@pytest.mark.parametrize("size", [4, 5, 8])
def test_a_short_answer_is_judged_once_it_is_here(pure: Callable[[Play], Told], size: int) -> None:
    """Nobody waits for a header that it has no room for."""
    heartbeat = asked(ApiKey.Heartbeat, 3, 1, bytes(20))
    for number, last in ((1, ["to_client"]), (2, [("wire_error", WRONG_ONE), "close"])):
        whole = pack(">ii", size, number) + bytes(size - 4)
        script = Play(heartbeat, {key(1): whole}, [("client", len(heartbeat), 0), ("broker", len(whole), 0)])
        for told in (compiled(script), pure(script)):
            assert said_at_last(told) == last


WRONG_ONE = "the broker answered correlation id 2 where 1 was due"


@pytest.mark.parametrize("api_key", [ApiKey.Heartbeat, ApiKey.Metadata, ApiKey.Fetch])
def test_a_broker_that_ends_in_the_middle_of_an_answer(pure: Callable[[Play], Told], api_key: ApiKey) -> None:
    """Whether its beginning has left already or waited for the rest."""
    frame = asked(api_key, 4, 1, request_codec(api_key, 4).encode({}))
    said = {"brokers": [BROKER], "responses": [{"topic": "t", "partitions": [{"records": bytes(30)}]}]}
    answer = response(api_key, 4, 1, said)
    for here in range(len(answer) + 1):
        script = Play(frame, {key(1): answer}, [("client", len(frame), 0), ("broker", here, 0), ("broker_eof", 0, 0)])
        middle = " in the middle of an answer" if 0 < here < len(answer) else ""
        for told in (compiled(script), pure(script)):
            assert told[-4][1] == [("close", f"the broker closed the connection{middle}")]
            assert [entry for entry in told[-4][2] if isinstance(entry, tuple)][-1][2] == told[-4][1][0][1]


def test_a_side_rests_at_the_same_place(pure: Callable[[Play], Told]) -> None:
    """Once it has had its turn, and the client where too much of what it asked for is open."""
    for api_key, version, count in ((ApiKey.ApiVersions, 0, 2 * MOST_STOPS + 5), (ApiKey.Heartbeat, 3, MOST_OPEN + 5)):
        script = Play(b"")
        for number in range(count):
            script.sent += asked(api_key, version, number, bytes(20) if api_key == ApiKey.Heartbeat else b"")
            script.answers[key(number)] = response(api_key, version, number)
        turns = [("wake", 0, 0.0)] * 3
        script.steps = [("client", 1 << 20, 0), *turns, ("broker", 1 << 20, 0), *turns]
        told = compiled(script)
        assert told == pure(script)
        assert ("pause", "client", True) in told[0][1]
        assert len(joined(told, "to_client")) == sum(map(len, script.answers.values()))
