"""notleader in the states that are measured, from this tree or another one."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any

from benchmarks.proxy.targets import HOST, Start, Target

RULES = 1000
# APIs that no workload speaks: the index by api_key has to make these rules free.
OTHER_APIS = ("OffsetCommit", "JoinGroup", "AddPartitionsToTxn", "ListOffsets")
# The workloads' own APIs, for topics and groups that don't exist: each request is looked at.
SAME_APIS = ("Produce", "Fetch", "Heartbeat", "Metadata")
_GROUP_APIS = {"Heartbeat", "JoinGroup"}
_THIS_TREE = Path(__file__).resolve().parents[2]
_LAUNCH = "import sys; sys.path.insert(0, sys.argv.pop(1)); from notleader.proxy.__main__ import main; main()"


@dataclass(frozen=True, slots=True)
class State:
    """What is switched on: rules for these APIs, the capture at a level, the HTTP API, further processes."""

    name: str
    rules: tuple[str, ...] = ()
    captures: str | None = None
    admin: bool = False
    workers: int = 1


PLAIN = State("notleader")
ALL_ON = State("notleader+all", rules=OTHER_APIS, captures="partition", admin=True)
STATES = (
    PLAIN,
    State("notleader+rules", rules=OTHER_APIS),
    State("notleader+header-capture", captures="header"),
    State("notleader+capture", captures="partition"),
    ALL_ON,
    State("notleader+own-api-rules", rules=SAME_APIS),
    State("notleader+2-workers", workers=2),
)


def target(state: State, tree: Path = _THIS_TREE, label: str = "") -> Target:
    """notleader in this state, from the sources in ``tree``; ``label`` tells trees apart."""

    def start(broker_port: int, listen_port: int, folder: Path) -> Start:
        argv = [sys.executable, "-m", "notleader", "run", "--json", "--seed=1"]
        argv += [f"--kafka={HOST}:{broker_port}", f"--listen={HOST}:{listen_port}"]
        argv.append(f"--admin={HOST}:0" if state.admin else "--admin=none")
        if state.workers > 1:
            argv.append(f"--workers={state.workers}")
        files = {}
        if state.captures:
            argv += [f"--capture={folder / 'capture'}", f"--capture-level={state.captures}"]
            # While others have their turn, its time goes by without anything to record: the bench says when.
            argv.append("--capture-rotate-s=3600")
        if state.rules:
            files["config.yaml"] = json.dumps({"faults": rules(state.rules)})
            argv.append("--config=config.yaml")
        return Start(argv, env={**os.environ, "PYTHONPATH": str(tree / "src")}, files=files)

    finish_segment = Signals.SIGUSR1 if state.captures else None
    return Target(state.name + label, _version(), start, catches_up_on=finish_segment, rewrites=True)


def rules(apis: tuple[str, ...]) -> list[dict[str, Any]]:
    """A thousand rules, spread over these APIs, that match nothing the load asks for."""
    return [_rule(number, apis[number % len(apis)]) for number in range(RULES)]


def _rule(number: int, api: str) -> dict[str, Any]:
    grouped = api in _GROUP_APIS
    return {
        "name": f"never-{number}",
        "kind": "error",
        "error_code": "REBALANCE_IN_PROGRESS" if grouped else "NOT_LEADER_OR_FOLLOWER",
        "match": {"api_key": api, "group_id" if grouped else "topic": f"absent-{number}"},
        "trigger": {"times": "forever"},
    }


def _version() -> str:
    try:
        return importlib.metadata.version("notleader")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
