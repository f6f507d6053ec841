"""Kafka's own Java classes as the judge: of the definitions, of the headers and of every codec's bytes."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from notleader.proxy.lab.paths import cache_folder
from notleader.proxy.wire.codec import Codec, known_versions, request_codec, response_codec
from notleader.proxy.wire.header import request_header_version, response_header_version
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.schemas import Field, definition, snake_case
from notleader.proxy.wire.view import Request
from tests.proxy.wire.frames import random_body, views
from tests.tools.programs import need

ROOT = Path(__file__).resolve().parents[3]
REGENERATE = ROOT / "tools" / "definitions" / "regenerate.py"
BODIES_PER_CODEC = 3

# Share groups were an early access in 3.9, and 4.x changed this message between brokers without a new version.
CHANGED_IN_PLACE = {("3.9.1", "response", ApiKey.ReadShareGroupStateSummary, 0)}


class Kafka(NamedTuple):
    """One Kafka release's classes at work: its tables of header versions, and a running rewriter."""

    release: str
    headers: dict[int, tuple[int, int, str, str]]
    process: subprocess.Popen[str]

    def rewrite(self, codec: Codec, data: bytes) -> tuple[bytes, dict[str, Any]]:
        """The body as these classes write what they read of it, and as their JSON."""
        first, rest = self._ask(codec, data.hex())
        assert first != "error", f"{codec!r}: {rest}"
        return bytes.fromhex(first), json.loads(rest)

    def defaults(self, codec: Codec) -> bytes | None:
        """A body that nobody filled in, or None where these classes themselves refuse to write one."""
        first, _ = self._ask(codec, "defaults")
        return None if first == "error" else bytes.fromhex(first)

    def _ask(self, codec: Codec, question: str) -> tuple[str, str]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{codec.direction} {codec.api_key} {codec.api_version} {question}\n")
        self.process.stdin.flush()
        first, _, rest = self.process.stdout.readline().partition(" ")
        return first, rest

    def defines(self, codec: Codec) -> bool:
        """Whether the codec is from this release's definitions, so that even its names must agree."""
        return definition(codec.api_key, codec.api_version, codec.direction).kafka == self.release

    def codecs(self) -> Iterator[Codec]:
        for api_key, (first, last, *_) in self.headers.items():
            for version in range(first, last + 1):
                for codec in (request_codec(api_key, version), response_codec(api_key, version)):
                    if (self.release, codec.direction, api_key, version) not in CHANGED_IN_PLACE:
                        yield codec


@pytest.fixture(scope="module")
def regeneration() -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder with every release's jars, kept for the next run, and what the regeneration said of the tree."""
    need("mvn")
    need("javac")
    folder = cache_folder() / "definitions"
    command = [sys.executable, str(REGENERATE), "--check", "--jars", str(folder)]
    return folder, subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module", params=["4.4.0", "3.9.1"])
def kafka(
    request: pytest.FixtureRequest, regeneration: tuple[Path, subprocess.CompletedProcess[str]]
) -> Iterator[Kafka]:
    folder = regeneration[0] / request.param
    source = Path(__file__).with_name("CrossCheck.java")
    command = ["java", "-cp", f"{folder}/*", str(source)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout
    assert process.stdin
    headers = {}
    while (line := process.stdout.readline().strip()) != "end":
        api_key, first, last, requests, responses = line.split(" ")
        headers[int(api_key)] = (int(first), int(last), requests, responses)
    yield Kafka(request.param, headers, process)
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_every_version_is_known(kafka: Kafka) -> None:
    for api_key, (first, last, *_) in kafka.headers.items():
        assert set(range(first, last + 1)) <= set(known_versions(api_key)), ApiKey(api_key)


def test_header_versions(kafka: Kafka) -> None:
    for api_key, (first, last, requests, responses) in kafka.headers.items():
        versions = range(first, last + 1)
        assert "".join(str(request_header_version(api_key, v)) for v in versions) == requests.strip("-")
        assert "".join(str(response_header_version(api_key, v)) for v in versions) == responses.strip("-")


def test_random_bodies_are_rewritten_byte_for_byte(kafka: Kafka) -> None:
    rng = Random(f"cross-check {kafka.release}")
    count = 0
    for codec in kafka.codecs():
        for _ in range(BODIES_PER_CODEC):
            body = random_body(codec, rng)
            data = codec.encode(body)
            rewritten, as_json = kafka.rewrite(codec, data)
            assert rewritten == data, codec
            if kafka.defines(codec):
                assert_same(codec.fields, body, as_json)
            count += 1
    assert count > 1500


def test_defaults(kafka: Kafka) -> None:
    """What a fault leaves out of an answer is what Kafka would have put there."""
    refused, other = [], []
    for codec in kafka.codecs():
        theirs = kafka.defaults(codec)
        if theirs is None:
            refused.append(codec)
        elif codec.encode({}) != theirs:
            other.append(codec)
    assert not other
    assert len(refused) < 20, refused


def test_recorded_frames_are_rewritten_byte_for_byte(kafka: Kafka) -> None:
    known = {(codec.direction, codec.api_key, codec.api_version) for codec in kafka.codecs()}
    count = 0
    for view in views():
        codec = view.codec
        if (codec.direction, codec.api_key, codec.api_version) in known:
            offset = view.header.body_offset if isinstance(view, Request) else view.body_offset
            data = bytes(view.frame[offset:])
            rewritten, as_json = kafka.rewrite(codec, data)
            assert rewritten == data, codec
            if kafka.defines(codec):
                assert_same(codec.fields, view.body, as_json)
            count += 1
    assert count > 100


def assert_same(fields: tuple[Field, ...], body: dict[str, Any], as_json: dict[str, Any]) -> None:
    """Kafka's JSON holds the same values under the same names; it leaves out defaults and records."""
    theirs = {snake_case(name): value for name, value in as_json.items()}
    by_name = {field.name: field for field in fields}
    for name, value in theirs.items():
        if not name.endswith("_size_in_bytes"):
            field = by_name[name]
            ours = body[name]
            if field.is_array and ours is not None:
                assert len(ours) == len(value)
                for one, other in zip(ours, value, strict=True):
                    assert_equal(field, one, other)
            else:
                assert_equal(field, ours, value)


def assert_equal(field: Field, ours: Any, theirs: Any) -> None:
    if field.kind == "struct" and ours is not None:
        assert_same(field.fields, ours, theirs)
    elif field.kind == "bytes" and ours is not None:
        assert bytes(ours) == base64.b64decode(theirs)
    elif field.kind == "uuid":
        assert isinstance(ours, UUID)
        assert ours.bytes == base64.urlsafe_b64decode(theirs + "==")
    elif field.kind != "records":
        assert ours == theirs


def test_the_definitions_are_what_the_jars_hold(
    regeneration: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    _, check = regeneration
    assert check.returncode == 0, check.stderr
