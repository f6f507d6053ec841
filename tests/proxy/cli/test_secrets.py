"""A delegation token, a SCRAM credential and a password in a configuration, through every outlet of a capture."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from notleader.proxy.cli.capture import capture_app
from notleader.proxy.record.rows import Level
from notleader.proxy.wire.names import ApiKey
from tests.proxy.record.bench import Bench
from tests.proxy.session.conversation import Conversation, request, response

SECRET = "hunter2-and-more"
RAW = SECRET.encode()
CONFIG = {"name": "listener.name.internal.ssl.keystore.password", "value": SECRET}
RESOURCE = {"resource_type": 4, "resource_name": "1"}
SCRAM = {"name": "bob", "mechanism": 1, "iterations": 4096, "salt": RAW, "salted_password": RAW}
TOLD: list[tuple[ApiKey, int, dict[str, Any], dict[str, Any]]] = [
    (ApiKey.RenewDelegationToken, 2, {"hmac": RAW}, {}),
    (ApiKey.ExpireDelegationToken, 1, {"hmac": RAW}, {}),
    (ApiKey.CreateDelegationToken, 3, {}, {"token_id": "the-id", "hmac": RAW}),
    (ApiKey.DescribeDelegationToken, 3, {}, {"tokens": [{"token_id": "the-id", "hmac": RAW}]}),
    (ApiKey.AlterUserScramCredentials, 0, {"upsertions": [SCRAM]}, {}),
    (ApiKey.AlterConfigs, 2, {"resources": [RESOURCE | {"configs": [CONFIG]}]}, {}),
    (
        ApiKey.IncrementalAlterConfigs,
        1,
        {"resources": [RESOURCE | {"configs": [CONFIG]}]},
        {"responses": [RESOURCE | {"error_code": 40, "error_message": f"Invalid value {SECRET}"}]},
    ),
    (ApiKey.CreateTopics, 7, {"topics": [{"name": "orders", "configs": [CONFIG]}]}, {}),
    (ApiKey.DescribeConfigs, 4, {}, {"results": [RESOURCE | {"configs": [CONFIG | {"synonyms": [CONFIG]}]}]}),
    (ApiKey.SaslAuthenticate, 2, {"auth_bytes": RAW}, {"auth_bytes": RAW}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One exchange of each, at level payload."""
    bench = Bench(tmp_path_factory.mktemp("capture"), level=Level.PAYLOAD)
    # With a rule to ask about each request, more of it is held than the capture's level wants.
    talk = Conversation(
        {"kind": "delay", "delay_ms": 1, "match": {"topic": "none"}, "trigger": {"times": "forever"}},
        {"kind": "delay", "delay_ms": 1, "match": {"client_id": "nobody"}, "trigger": {"times": "forever"}},
        level=Level.PAYLOAD,
    )
    for number, (api_key, version, asked, answered) in enumerate(TOLD):
        talk.now_ms += 1
        talk.client(request(api_key, version, number, asked))
        talk.broker(response(api_key, version, number, answered))
    bench.put(talk.exchanges)
    assert clear_of_it(bench.journal.read_bytes()), "not for a moment"
    bench.close()
    return bench.folder


def run(*arguments: str) -> str:
    done = CliRunner().invoke(capture_app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def clear_of_it(content: bytes) -> bool:
    return not any(form in content for form in (RAW, base64.b64encode(RAW)[:16], RAW.hex().encode()))


def test_no_file_of_the_capture_has_it(folder: Path) -> None:
    import pyarrow.parquet as pq

    for path in folder.rglob("*.parquet"):
        assert clear_of_it(repr(pq.ParquetFile(path).read().to_pylist()).encode())


@pytest.mark.parametrize("form", ["pcapng", "jsonl", "csv"])
def test_no_export_has_it(folder: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"out.{form}"
    run("export", str(folder), str(file), "--to", form)
    content = file.read_bytes()
    assert clear_of_it(content)
    if form == "pcapng":
        assert content.count(b"*" * len(RAW)) >= len(TOLD) - 1


def test_show_has_the_frame_without_it(folder: Path) -> None:
    for api_key, *_ in TOLD:
        lines = run("show", str(folder), f"api == {api_key.name}")
        (tree,) = json.loads(run("show", str(folder), f"api == {api_key.name}", "--json"))
        assert clear_of_it(lines.encode())
        assert clear_of_it(json.dumps(tree).encode())
        assert ("request" in tree) == (api_key != ApiKey.SaslAuthenticate)
