"""What the pytest fixture says of requests, from rows that come late."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.lab.testing import Finding, NeverHitError, NotJudgedError, NotLeader, Verdict


class LateRows(NotLeader):
    """One of which a row of before is on its way when somebody asks."""

    late: list[dict[str, Any]]

    async def _settle(self) -> None:
        self._rows += self.late
        self.late = []


def test_what_was_asked_before_a_rule_was_in_force_is_not_counted_for_it(tmp_path: Path) -> None:
    row = {"event": "exchange", "api_name": "Produce", "partitions": None}
    with LateRows("127.0.0.1:1", tmp_path, capture=None) as beside:
        beside.late = [row]
        with pytest.raises(NeverHitError, match="requests that passed: none"), beside.fault(kind="close", name="cut"):
            pass
        with (
            pytest.raises(NeverHitError, match="requests that passed: 1 x Produce"),
            beside.fault(kind="close", name="c"),
        ):
            beside.late = [row]


def finding(check: str, verdict: str, count: int, client: str | None = None) -> Finding:
    return Finding(check, verdict, "Not judged: no send was told of.", count, client, None, [])


def test_what_was_not_judged_is_not_found_to_be_none() -> None:
    said = [finding("duplicate", "unknown", 0), finding("lost", "unknown", 3), finding("late", "valid", 2, "shop")]
    verdict = Verdict(False, said, [], Path("report.html"))
    assert [verdict.found("lost"), verdict.found("late", "shop"), verdict.found("late", "another")] == [3, 2, 0]
    with pytest.raises(NotJudgedError, match="duplicate: Not judged: no send was told of"):
        verdict.found("duplicate")
    with pytest.raises(LookupError, match="no check 'duplicates'; did you mean 'duplicate'"):
        verdict.found("duplicates")


def test_an_interrupted_end_leaves_no_task_behind(tmp_path: Path) -> None:
    class InterruptedEnd(NotLeader):
        async def _stop(self) -> None:
            await super()._stop()
            stopped.set()
            await asyncio.sleep(3600)

        def run(self, work: Any, *, timeout_s: float | None = None) -> Any:
            if work.__name__ != "_stop":
                return super().run(work, timeout_s=timeout_s)
            left.append(self.submit(work))
            assert stopped.wait(60)
            raise KeyboardInterrupt

    left: list[Future[None]] = []
    stopped = threading.Event()
    with pytest.raises(KeyboardInterrupt), InterruptedEnd("127.0.0.1:1", tmp_path, capture=None):
        pass
    assert left[0].cancelled()
