"""Ports for what the lab starts."""

from __future__ import annotations

import pytest

from notleader.proxy.lab import ports


def test_what_is_spoken_for_is_not_given_though_nobody_listens_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's own two rows had met once in some thousand starts, and the broker refused its configuration."""
    rows = iter([17_000, 17_001, 17_003])

    class Rows:
        def randrange(self, first: int, last: int) -> int:
            return next(rows)

    monkeypatch.setattr(ports, "_order", Rows())
    monkeypatch.setattr(ports, "is_free", lambda port, host: True)
    assert ports.free_ports(2, besides=[17_001, 17_002]) == [17_003, 17_004]
