"""Recorded sessions of real clients: the same seed decides the same twice, and every refusal is one they could read."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from notleader.faults.actions import Answer
from notleader.faults.plan import Plan
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request, Response
from tests.faults.script import connection, fault

RECORDINGS = sorted((Path(__file__).parents[1] / "golden" / "frames").glob("*.jsonl"))


def recorded(path: Path) -> list[tuple[Request, bytes | None]]:
    """Requests and the answers they got."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]
    return [
        (
            Request(base64.b64decode(row["request"])),
            base64.b64decode(row["response"]) if row.get("response") else None,
        )
        for row in rows
    ]


def decided(path: Path, seed: int) -> list[object]:
    """Every decision of one session under rules that draw lots."""
    plan = Plan(
        seed,
        [
            fault(
                kind="delay",
                delay_ms={"distribution": "normal", "mean_ms": 50, "deviation_ms": 20},
                trigger={"times": "forever", "probability": 0.5},
            ),
            fault(
                kind="error",
                error_code=6,
                match={"api_key": ["Produce", "Fetch", "ListOffsets"]},
                trigger={"times": "forever", "probability": 0.5},
            ),
            fault(kind="leader_election", trigger={"skip": 3}),
            fault(kind="leader_move"),
            fault(kind="rolling_restart", down_ms=5, pause_ms=5),
            fault(kind="reorder", trigger={"times": "forever", "probability": 0.5}),
            fault(kind="offset_lie", add=-1, trigger={"times": "forever"}),
            fault(
                kind="error",
                error_code=15,
                phase="after_broker",
                trigger={"times": "forever", "probability": 0.3, "skip": 2},
            ),
        ],
    )
    seen: list[object] = []
    for position, (request, answer) in enumerate(recorded(path)):
        decision = plan.on_request(connection(), request, position * 1000)
        seen.append((repr(decision.actions), decision.hits))
        if answer is not None and not any(isinstance(action, Answer) for action in decision.actions):
            response = Response(answer, request)
            if request.header.api_key == ApiKey.Metadata:
                plan.cluster.observe_metadata(response.body)
            after = plan.on_response(connection(), request, response, decision, position * 1000)
            seen.append((len(after.actions), after.hits))
    return [str(entry).split("<function", maxsplit=1)[0].split("<memory", maxsplit=1)[0] for entry in seen]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_same_seed_and_session_give_the_same_decisions(path: Path) -> None:
    assert decided(path, 7) == decided(path, 7)


def _is_about_nothing(request: Request) -> bool:
    """A request that is refused entry by entry, and names none, or is of a session that began unseen."""
    api_key, api_version, *_ = request.header
    if api_key == ApiKey.Metadata:
        return api_version > 0 and request.body["topics"] == []
    if api_key == ApiKey.Fetch and request.body.get("session_id"):
        return True
    return api_key in (ApiKey.Fetch, ApiKey.ShareFetch) and request.body["topics"] == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_every_request_of_a_real_client_can_be_refused(path: Path) -> None:
    for request, answer in recorded(path):
        plan = Plan(faults=[fault(name="e", kind="error", error_code=41, trigger={"times": "forever"})])
        decision = plan.on_request(connection(), request, 0)
        if _is_about_nothing(request):
            assert plan.get("e").hits == 0
            continue
        assert plan.get("e").hits == 1, plan.get("e").last_refusal
        for action in decision.actions:
            if isinstance(action, Answer):
                codec = response_codec(request.header.api_key, request.header.api_version)
                assert "41" in str(codec.decode(codec.encode(action.body)))
        if answer is not None:
            after = Plan(faults=[fault(kind="error", error_code=41, phase="after_broker")])
            response = Response(answer, request)
            made = after.on_response(connection(), request, response, after.on_request(connection(), request, 0), 0)
            if request.header.api_key == ApiKey.Metadata and not response.body["topics"]:
                assert made.actions == ()
                continue
            assert len(made.actions) == 1
            assert response.encode(made.actions[0].body)  # type: ignore[union-attr]
