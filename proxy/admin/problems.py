"""Errors over HTTP: problem documents as RFC 9457 describes them, with every problem and its path."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

MEDIA_TYPE: Final = "application/problem+json"
_TYPE_PREFIX: Final = "urn:notleader:problem:"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a document: where (`faults[2].match.topic`, "" for the whole) and what."""

    path: str
    message: str


class Problem(Exception):  # noqa: N818 (RFC 9457 names it so)
    """An HTTP error answer: its status, a stable name of its type, one sentence, and the findings behind it.

    `extra` members appear at the top of the document (RFC 9457 section 3.2).
    """

    def __init__(
        self,
        status: int,
        name: str,
        detail: str,
        *,
        findings: Iterable[Finding] = (),
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.findings = tuple(findings)
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})

    def document(self) -> dict[str, Any]:
        """The problem as the JSON object that is sent."""
        document: dict[str, Any] = {
            "type": _TYPE_PREFIX + self.name,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.findings:
            document["problems"] = [{"path": f.path, "message": f.message} for f in self.findings]
        document.update(self.extra)
        return document

    def response(self) -> Response:
        """The problem as an HTTP response."""
        return Response(
            json.dumps(self.document()), status_code=self.status, headers=self.headers, media_type=MEDIA_TYPE
        )


def not_found(what: str, name: object, hint: str = "") -> Problem:
    """404 for a thing of this kind that does not exist."""
    return Problem(404, "not-found", f"there is no {what} {name!r}{hint}")


PROBLEM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A problem document (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "examples": [_TYPE_PREFIX + "invalid-fault"]},
        "title": {"type": "string", "examples": ["Unprocessable Entity"]},
        "status": {"type": "integer", "examples": [422]},
        "detail": {"type": "string"},
        "problems": {
            "type": "array",
            "description": "Every problem found, not only the first.",
            "items": {
                "type": "object",
                "required": ["path", "message"],
                "properties": {
                    "path": {"type": "string", "examples": ["[0].match.partition_index"]},
                    "message": {"type": "string"},
                },
            },
        },
    },
}
