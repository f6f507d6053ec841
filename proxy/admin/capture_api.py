"""`/v1/capture`: start, stop, rotate and mark the recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from notleader.proxy.admin.problems import Problem
from notleader.proxy.admin.target import Capture, ControlledProxy
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.record.roots import below, without_secrets


class CaptureCommand(BaseModel):
    """What to do with the recording."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["start", "stop", "rotate", "mark"]
    directory: str | None = Field(
        None,
        min_length=1,
        max_length=4096,
        description="For start: where to, below one of the `roots`; the configured folder when absent.",
    )
    level: Literal["header", "partition", "record", "payload"] | None = Field(
        None, description="For start: how much of each exchange is kept; the configured level when absent."
    )
    label: str | None = Field(
        None, min_length=1, max_length=1000, description="For mark: the text that the row carries; `mark` when absent."
    )


def make_router(proxy: ControlledProxy) -> APIRouter:
    """The routes over one proxy."""
    router = APIRouter(tags=["capture"])

    @router.get("/v1/capture")
    async def show_capture() -> dict[str, Any]:
        """Whether the proxy records, where to, and how much so far."""
        return _document(proxy)

    @router.post("/v1/capture")
    async def command_capture(
        command: Annotated[
            CaptureCommand,
            Body(openapi_examples={"rotate": {"value": {"action": "rotate"}}}),
        ],
    ) -> dict[str, Any]:
        """Start, stop, rotate or mark; the answer is the state after it."""
        if command.action == "start":
            await _start(proxy, command)
            return _document(proxy)
        capture = _running(proxy)
        if command.action == "stop":
            await proxy.stop_capture()
        elif command.action == "rotate":
            await capture.rotate()
        else:
            capture.mark(command.label or "mark")
        return _document(proxy)

    return router


async def _start(proxy: ControlledProxy, command: CaptureCommand) -> None:
    if _recording(proxy) is not None:
        raise Problem(409, "capture-running", "the proxy records already: stop it first")
    try:
        directory = None if command.directory is None else _allowed(command.directory, proxy.capture_roots)
        await proxy.start_capture(directory, command.level)
    except (CaptureError, OSError, ValueError) as error:
        raise Problem(409, "capture-not-started", f"recording did not start: {error}") from error


def _allowed(directory: str, roots: Sequence[str]) -> str:
    """Where to record to. Raises Problem (403) below no root: who reaches the API must not write anywhere."""
    found = below(directory, roots)
    if found is None:
        shown = [without_secrets(root) for root in roots]
        where = f"only below {', '.join(shown)}" if shown else "nowhere, for notleader was started without --capture"
        raise Problem(
            403,
            "capture-elsewhere",
            f"{directory!r} is not where a recording may go: {where}; --capture-root allows more",
            extra={"roots": shown},
        )
    return found


def _running(proxy: ControlledProxy) -> Capture:
    capture = _recording(proxy)
    if capture is None:
        raise Problem(409, "capture-not-running", "the proxy does not record: start it first")
    return capture


def _recording(proxy: ControlledProxy) -> Capture | None:
    """The capture that writes files; one without a directory only feeds live readers."""
    capture = proxy.capture
    return capture if capture is not None and capture.directory is not None else None


def _document(proxy: ControlledProxy) -> dict[str, Any]:
    capture = _recording(proxy)
    if capture is None:
        return {"recording": False, "run_id": proxy.run_id, "roots": list(map(without_secrets, proxy.capture_roots))}
    return {"recording": True, "run_id": proxy.run_id, **capture.status()}
