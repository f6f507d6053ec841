"""The recorder's process: what its start waits for is said."""

import logging
import sys

import pytest

from notleader.proxy.record import helpers, process
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.record.process import RecorderProcess


async def test_a_place_that_does_not_answer_is_named_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(helpers, "command", lambda *_: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(process, "_QUIET_S", 0.05)
    monkeypatch.setattr(process, "_READY_S", 0.5)
    caplog.set_level(logging.WARNING)
    recorder = RecorderProcess({"place": "s3://user:word@lake/captures?region=x"}, lambda said: None)
    with pytest.raises(CaptureError, match="could not reach the capture's place"):
        await recorder.start(wait=True)
    assert "waiting for the capture's place to answer, for 0 s at most: s3://lake/captures" in caplog.text
    assert "word" not in caplog.text
