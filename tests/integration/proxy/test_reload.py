"""A changed config file takes effect whole, or not at all; rules that stayed keep their counters."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from notleader.proxy.config.settings import load
from notleader.proxy.control.serving import reload_config
from tests.integration.proxy.conftest import ProxyFor

FLAGS = {"kafka": "127.0.0.1:1", "listen": "127.0.0.1:0", "admin": None}


async def test_reload(proxy_for: ProxyFor, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("faults: [{name: kept, kind: close}, {name: goes, kind: close}, {name: changes, kind: close}]")
    faults = load(FLAGS, file).faults
    async with proxy_for("127.0.0.1:1", faults=faults) as proxy:
        proxy.plan.get("kept").hits = 3
        proxy.plan.add(proxy.plan.get("kept").fault.model_copy(update={"name": "by-http"}))

        file.write_text("faults: [{name: kept, kind: nonsense}, {name: new, kind: close}]")
        await reload_config(proxy, FLAGS, file)
        assert [rule.name for rule in proxy.plan.rules()] == ["kept", "goes", "changes", "by-http"]
        assert "faults[0].kind" in caplog.text

        file.write_text(
            "kafka: x:1\n"
            "faults: [{name: kept, kind: close}, {name: changes, kind: drop_request}, {name: new, kind: close}]"
        )
        with caplog.at_level(logging.INFO, "notleader"):
            await reload_config(proxy, {"listen": "127.0.0.1:0", "admin": None}, file)
        rules = {rule.name: rule for rule in proxy.plan.rules()}
        assert set(rules) == {"kept", "changes", "by-http", "new"}
        assert rules["kept"].hits == 3
        assert rules["changes"].fault.kind == "drop_request"
        assert "changing kafka needs a restart" in caplog.text
