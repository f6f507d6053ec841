"""A rule of every kind is armed, none can hit: whatever a client asks, and however oddly, it is answered as without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from notleader.proxy.wire.codec import is_known, request_codec
from notleader.proxy.wire.header import encode_request_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request
from tests.clients.builds import python
from tests.clients.catalog import Client
from tests.clients.comparison import armed, captured, exchanges, notleader_run, play, until_quiet
from tests.clients.identity import assert_same_bytes
from tests.clients.raw import Raw, connected
from tests.clients.tap import FRONT_HOST, TappedCluster, before, spoken

pytestmark = pytest.mark.kafka

Outcome = tuple[str, int, int, str]
# Without a transaction in it the broker never answers: it waits for the last.
_SILENT = frozenset(((ApiKey.AddPartitionsToTxn, 4), (ApiKey.AddPartitionsToTxn, 5)))
_BODIES = {
    ApiKey.Produce: {"acks": 1},
    ApiKey.Metadata: {"topics": None},
    ApiKey.ApiVersions: {"client_software_name": "raw", "client_software_version": "1"},
}


def advertised(raw: Raw) -> list[tuple[ApiKey, int]]:
    """Every API in every version that the broker says it speaks, as far as there is a definition of it."""
    keys = {int(api_key) for api_key in ApiKey}
    spoken = raw.call(ApiKey.ApiVersions, 3, _BODIES[ApiKey.ApiVersions])["api_keys"]
    versions = {entry["api_key"]: range(entry["min_version"], entry["max_version"] + 1) for entry in spoken}
    both = [ApiKey(key) for key in sorted(keys & versions.keys())]
    asked = [(api_key, version) for api_key in both for version in versions[api_key] if is_known(api_key, version)]
    return [each for each in asked if each not in _SILENT]


def everything_asked(address: str) -> Iterator[Outcome]:
    """Each with nothing in its body, as it is and with bytes behind it, and what came of that."""
    with connected(address) as first:
        asked = advertised(first)
    raw, opened = None, None
    for api_key, version in asked:
        for surplus in (b"", b"\0", b"\0\0\0"):
            if raw is None:
                opened = connected(address)
                raw = opened.__enter__()
            body = _BODIES.get(api_key, {}) if (api_key, version) != (ApiKey.Metadata, 0) else {}
            frame = encode_request_header(api_key, version, 1, "raw")
            frame += request_codec(api_key, version).encode(body) + surplus
            try:
                raw.send(frame)
                answer = raw.receive()
                outcome = "answered" if answer[:4] == b"\0\0\0\1" else "answered otherwise"
            except (EOFError, ConnectionError):
                outcome = "closed"
            if outcome != "answered":
                assert opened is not None
                opened.__exit__(None, None, None)
                raw = None
            yield api_key.name, version, len(surplus), outcome
    if raw is not None and opened is not None:
        opened.__exit__(None, None, None)


def test_every_api_that_the_broker_has_is_answered_as_without(newest: TappedCluster, tmp_path: Path) -> None:
    newest.forget()
    direct = list(everything_asked(newest.tapped))
    counts = Counter(outcome for *_, outcome in direct)
    assert counts["answered"] > 500, counts
    flags = ("--capture-level", "payload", "--advertise", FRONT_HOST, *armed(tmp_path))
    with (
        notleader_run(newest.tapped, tmp_path / "capture", tmp_path / "log", *flags) as proxy,
        before(proxy.ports) as front,
    ):
        newest.forget(proxy.pid)
        node_id, port = min(proxy.broker_ports.items())
        through = list(everything_asked(f"{FRONT_HOST}:{port}"))
        until_quiet(newest)
    assert through == direct
    assert_same_bytes(spoken(front), newest.conversations(but_of="notleader"), {node_id: (FRONT_HOST, port)})
    rows = captured(tmp_path / "capture")
    assert not [row for row in rows if row["event"] == "wire_error"]
    assert not [row for row in exchanges(rows) if row["fault_names"]]
    assert len(exchanges(rows)) == len(direct) + 1


def test_what_librdkafka_writes_too_long_is_answered_as_without(newest: TappedCluster, tmp_path: Path) -> None:
    """`list_topics()`, a subscription by a regular expression, SCRAM credentials: bytes follow the bodies of these."""
    newest.forget()
    program = Client("librdkafka", lambda: python("librdkafka_writes_more.py"))
    direct = play(program, newest.tapped, "librdkafka-direct", 1, tmp_path / "direct.log")
    assert direct == {"listed": [""], "iterations": [4096], "found": "found", "errors": []}
    flags = ("--advertise", FRONT_HOST, *armed(tmp_path))
    with (
        notleader_run(newest.tapped, tmp_path / "capture", tmp_path / "log", *flags) as proxy,
        before(proxy.ports) as front,
    ):
        through = play(program, f"{FRONT_HOST}:{proxy.ports[0]}", "librdkafka-proxied", 1, tmp_path / "through.log")
        until_quiet(newest)
    assert through == direct
    rows = captured(tmp_path / "capture")
    assert not [row for row in rows if row["event"] == "wire_error"]
    longer = Counter(
        (asked.api_key, len(request.surplus))
        for each in spoken(front)
        for asked, request in zip(each.asked, map(Request, each.sent), strict=True)
        if request.surplus
    )
    assert longer[ApiKey.Metadata, 3] > 0, "this librdkafka does write more than there is to say"
    assert longer[ApiKey.AlterUserScramCredentials, 1] == 1
