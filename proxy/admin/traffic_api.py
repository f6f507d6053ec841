"""`/v1/connections`, `/v1/brokers` and `/v1/exchanges`: what goes through the proxy now."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from notleader.proxy.admin.aside import aside
from notleader.proxy.admin.problems import Finding, Problem, not_found
from notleader.proxy.admin.target import ControlledProxy
from notleader.proxy.capture.filter import FilterError, compile_filter
from notleader.proxy.capture.tree import frames_of
from notleader.proxy.record import helpers
from notleader.proxy.wire.printable import printable

KEEP_ALIVE_S: Final = 15.0
_LOOK_S: Final = 1.0
_ROWS_PER_CHUNK: Final = 256
MAX_ID: Final = 2**63 - 1
# Each costs the traffic something, whether it is read or not: a row is looked at once for every stream.
MOST_STREAMS: Final = 8
MOST_BEFORE: Final = 1000
_READING_S: Final = 10.0
MOST_FRAME_BYTES: Final = 4 << 20


class Broker(BaseModel):
    """A broker: where it is, and where the proxy listens in its place."""

    model_config = ConfigDict(from_attributes=True)

    node_id: int
    host: Annotated[str, BeforeValidator(printable)] = Field(description="Where the proxy reaches the broker.")
    port: int
    listen_host: str = Field(description="Where clients reach it through the proxy.")
    listen_port: int


class Frames(BaseModel):
    """The messages of an exchange as a row of level `payload` keeps them, base64."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"request_frame": "ABIAAAAAAAEAAWM="}]})  # an ApiVersions

    request_frame: str = Field(max_length=MOST_FRAME_BYTES)
    response_frame: str | None = Field(None, max_length=MOST_FRAME_BYTES)

    def decoded(self) -> dict[str, Any]:
        """Both with Kafka's field names, or why that can't be."""
        try:
            request, response = (
                None if text is None else base64.b64decode(text, validate=True)
                for text in (self.request_frame, self.response_frame)
            )
        except ValueError as error:
            return {"request": f"not base64: {error}"}
        return frames_of(request or b"", response)


def make_router(proxy: ControlledProxy, stopping: asyncio.Event) -> APIRouter:
    """The routes over one proxy; streams end when `stopping` is set."""
    router = APIRouter(tags=["traffic"])
    streams: set[_Stream] = set()

    @router.get("/v1/connections")
    async def list_connections() -> list[dict[str, Any]]:
        """The open client connections."""
        return proxy.connections()

    @router.delete("/v1/connections/{connection_id}", status_code=204)
    async def close_connection(
        connection_id: Annotated[int, Path(ge=0, le=MAX_ID)],
        reset: Annotated[bool, Query(description="End it with RST instead of FIN.")] = False,
    ) -> Response:
        """End one client connection."""
        if not proxy.close_connection(connection_id, reset=reset):
            raise not_found("open connection", connection_id)
        return Response(status_code=204)

    @router.get("/v1/brokers")
    async def list_brokers() -> list[Broker]:
        """The brokers the proxy knows, by node_id."""
        return [Broker.model_validate(broker) for broker in sorted(proxy.brokers(), key=lambda b: b.node_id)]

    @router.get(
        "/v1/exchanges",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "Server-sent events: one `exchange`, `connect`, `disconnect` or `wire_error` "
                "each, its data the capture row as JSON.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            429: {"description": f"{MOST_STREAMS} streams are open."},
        },
    )
    async def stream_exchanges(
        filter: Annotated[  # noqa: A002
            str, Query(description="A filter expression, such as `api == Produce and error != 0`.", max_length=10_000)
        ] = "",
        before: Annotated[
            int,
            Query(
                ge=0,
                le=MOST_BEFORE,
                description="So many rows at most from before now come first: from the recording where one runs, and "
                "else what is remembered of exchanges that a fault touched or answered with an error, and of events.",
            ),
        ] = 0,
    ) -> StreamingResponse:
        """What happens from now on, as it happens, after what was `before`; what the reader is too slow for is left
        out, and a `gap` event says how much that was.
        """
        try:
            accepts = compile_filter(filter) if filter.strip() else None
        except FilterError as error:
            place = f"filter[{error.start}:{error.end}]"
            raise Problem(
                400, "bad-filter", "\n".join(error.lines()), findings=[Finding(place, error.message)]
            ) from error
        if len(streams) >= MOST_STREAMS:
            said = f"{MOST_STREAMS} streams of exchanges are open, and more would slow the traffic down: end one"
            raise Problem(429, "too-many-streams", said)
        return _Stream(
            _events(proxy, stopping, accepts, (filter, before)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        ).among(streams)

    @router.post(
        "/v1/exchanges/decode", responses={200: {"description": "`request`, and `response` where there is one."}}
    )
    async def decode_frames(kept: Frames) -> dict[str, Any]:
        """Take the frames of a row apart, with Kafka's field names; what can't be read says why in its place."""
        return await aside(kept.decoded)

    return router


class _Stream(StreamingResponse):
    """A stream of events that is counted until it has ended, however it ends."""

    def among(self, streams: set[_Stream]) -> _Stream:
        """Be counted there from now on."""
        self._streams = streams
        streams.add(self)
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.discard(self)


async def _events(
    proxy: ControlledProxy,
    stopping: asyncio.Event,
    accepts: Callable[[Mapping[str, Any]], bool] | None,
    past: tuple[str, int],
) -> AsyncIterator[bytes]:
    stopped = asyncio.create_task(stopping.wait())
    loop = asyncio.get_running_loop()
    try:
        yield b": stream of notleader exchanges\n\n"
        spoke_at = loop.time()
        told: dict[tuple[Any, ...], dict[str, Any]] = {}
        asked, most = past
        while not stopping.is_set():
            with proxy.subscribe(accepts) as queue:
                source = proxy.capture
                if most:
                    told = await _before(proxy, asked, accepts, most)
                    most = 0
                    yield b"".join(map(_event, told.values()))
                # A recording that starts or stops brings another source of rows: subscribe to that then.
                while not stopping.is_set() and proxy.capture is source:
                    rows = [row for row in await _next_rows(queue, stopped) if _is_news(row, told.pop(_key(row), None))]
                    if rows:
                        yield b"".join(map(_event, rows))
                    elif loop.time() - spoke_at < KEEP_ALIVE_S:
                        continue
                    else:
                        yield b": keep-alive\n\n"
                    spoke_at = loop.time()
    finally:
        stopped.cancel()


def _is_news(row: Mapping[str, Any], told: Mapping[str, Any] | None) -> bool:
    """Whether it wasn't told, or only from what is remembered, which has no frames, and it has."""
    return told is None or (told.get("request_frame") is None and row.get("request_frame") is not None)


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a row from every other of the same run."""
    return tuple(row.get(name) for name in ("event", "connection_id", "exchange_seq", "request_at_us"))


async def _before(
    proxy: ControlledProxy, asked: str, accepts: Callable[[Mapping[str, Any]], bool] | None, most: int
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The last rows of this run that are still at hand, oldest first, by their keys."""
    recorded = [] if proxy.capture is None else await _recorded(str(proxy.capture.directory or ""), asked, most)
    remembered = [row for row in await proxy.notable() if accepts is None or accepts(row)]
    found = {_key(row): row for row in (*remembered, *recorded) if row["run_id"] == proxy.run_id}
    latest = sorted(found.items(), key=lambda item: item[1]["request_at_us"] or 0)
    return dict(latest[-most:])


async def _recorded(directory: str, asked: str, most: int) -> list[dict[str, Any]]:
    """The last rows in a capture, read by a process of its own: Arrow is none of the proxy's. [] where it can't."""
    if not directory:
        return []
    command = helpers.command("notleader.proxy", "capture", "tail", directory, asked, "-n", str(most), "--json")
    devnull = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=devnull, stdout=asyncio.subprocess.PIPE, stderr=devnull, env=helpers.environment()
    )
    try:
        async with asyncio.timeout(_READING_S):
            said, _ = await process.communicate()
    except TimeoutError:
        return []
    finally:
        if process.returncode is None:
            process.kill()
    return [json.loads(line) for line in said.splitlines()] if process.returncode == 0 else []


async def _next_rows(
    queue: asyncio.Queue[dict[str, Any]], stopped: asyncio.Task[Literal[True]]
) -> list[dict[str, Any]]:
    """All rows that wait, after waiting a second at most for the first."""
    first = asyncio.create_task(queue.get())
    try:
        await asyncio.wait((first, stopped), timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        rows = [first.result()] if first.done() else []
    finally:
        first.cancel()
    # One write for all that waits: a busy proxy makes thousands of rows a second.
    while rows and len(rows) < _ROWS_PER_CHUNK and not queue.empty():
        rows.append(queue.get_nowait())
    return rows


def _event(row: dict[str, Any]) -> bytes:
    name = str(row.get("event", "exchange"))
    data = json.dumps(row, default=_plain, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()


def _plain(value: object) -> object:
    """Row values that JSON has no word for: bytes as base64, everything else as text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, UUID):
        return str(value)
    return str(value)
