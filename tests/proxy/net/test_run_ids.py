"""The names that runs are given."""

from __future__ import annotations

from uuid import UUID

import pytest

from notleader.proxy.config.settings import Settings
from notleader.proxy.net.server import Proxy


def test_no_run_is_named_like_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes a number of a folder run=15e361470418, with all its digits."""
    monkeypatch.setattr("notleader.proxy.net.server.uuid.uuid4", lambda: UUID("15e36147-0418-4000-8000-000000000000"))
    run_id = Proxy(Settings.model_validate({"kafka": "127.0.0.1:9092"})).run_id
    assert run_id == "r15e36147041"
    with pytest.raises(ValueError, match="could not convert"):
        float(run_id)
