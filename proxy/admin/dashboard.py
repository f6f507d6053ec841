"""`/`: the dashboard, a page of static files that talks to `/v1` of its own origin and to nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from notleader.proxy.wire.enums import ErrorCode

STATIC: Final = Path(__file__).with_name("static")
# Nothing from elsewhere, nothing inline but the styles that plots set, and no other page around it.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# A page that is older than the proxy it controls would be a riddle: ask each time, answered by 304.
_FRESH: Final = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


class _Files(StaticFiles):
    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers.update(_FRESH)
        return response


def mount(app: FastAPI) -> None:
    """Serve the page at `/` and its files below `/static`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def dashboard() -> Response:
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}
        return FileResponse(STATIC / "index.html", headers=headers)

    @router.get("/static/errors.js")
    async def errors() -> Response:
        """Kafka's error names by number, so that the page shows the ones this build knows."""
        names = json.dumps({code.value: code.name for code in ErrorCode})
        return Response(f"export const ERRORS = {names};\n", media_type="text/javascript", headers=_FRESH)

    app.include_router(router)
    app.mount("/static", _Files(directory=STATIC), name="static")
