"""`/`: the dashboard, a page of static files that talks to `/v1` of its own origin and to nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

STATIC: Final = Path(__file__).with_name("static")
# Nothing from elsewhere, nothing inline but the styles that plots set, and no other page around it.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class _Files(StaticFiles):
    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        # A page that is older than the proxy it controls would be a riddle: ask each time, answered by 304.
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def mount(app: FastAPI) -> None:
    """Serve the page at `/` and its files below `/static`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def dashboard() -> Response:
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}
        return FileResponse(STATIC / "index.html", headers=headers)

    app.include_router(router)
    app.mount("/static", _Files(directory=STATIC), name="static")
