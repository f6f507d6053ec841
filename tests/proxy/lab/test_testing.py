"""What the pytest fixture says of requests, from rows that come late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.lab.testing import NeverHitError, NotLeader


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
