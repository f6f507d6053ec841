"""A small client of the `/v1` API, for the command line: one call, one answer, or one clear line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx

DEFAULT_ADMIN: Final = "127.0.0.1:8474"
_TIMEOUT_S: Final = 10.0
_JSON: Final = {"Content-Type": "application/json"}


class UnreachableError(Exception):
    """Nothing usable answers at the admin address; the text is one line that says what to do."""


class RefusedError(Exception):
    """The server answered with an error: its status and its problem document."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        super().__init__(str(document.get("detail") or document.get("title") or f"HTTP {status}"))
        self.status = status
        self.document = document

    def lines(self) -> list[str]:
        """The detail, then every problem with its path."""
        found = [
            f"  {problem.get('path') or '(document)'}: {problem.get('message')}"
            for problem in self.document.get("problems", [])
        ]
        return [str(self), *found]


class AdminClient:
    """Talks to one admin server at `HOST:PORT` or at an http URL; use it as a context manager.

    Raises ValueError for an address that is neither.
    """

    def __init__(
        self, admin: str = DEFAULT_ADMIN, token: str | None = None, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.admin = admin
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # trust_env off: an HTTP_PROXY of the environment has no business with a loopback address.
        self._http = httpx.Client(
            base_url=_base_url(admin), headers=headers, timeout=_TIMEOUT_S, transport=transport, trust_env=False
        )

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def list_faults(self) -> list[dict[str, Any]]:
        """Every rule with its hits."""
        rules: list[dict[str, Any]] = self._call("GET", "/v1/faults").json()
        return rules

    def add_faults(self, document: Any) -> list[dict[str, Any]]:
        """Add one fault or a list of them, all or none; the rules as the server made them."""
        # YAML has dates, JSON has not: such a value becomes text, and the server says what it thinks of it.
        body = json.dumps(document, default=str)
        made = self._call("POST", "/v1/faults", content=body, headers=_JSON).json()
        return made if isinstance(made, list) else [made]

    def remove_fault(self, name: str) -> None:
        """Remove one rule."""
        self._call("DELETE", f"/v1/faults/{quote(name, safe='')}")

    def clear_faults(self) -> None:
        """Remove all rules."""
        self._call("DELETE", "/v1/faults")

    def release_fault(self, name: str) -> None:
        """Let go what the rule holds."""
        self._call("POST", f"/v1/faults/{quote(name, safe='')}/release")

    def wait_for_hits(self, name: str, hits: int, timeout_ms: int) -> dict[str, Any]:
        """Wait until the rule has been hit that often; `reached` says whether it was."""
        try:
            answer = self._call(
                "GET",
                f"/v1/faults/{quote(name, safe='')}/wait",
                params={"hits": hits, "timeout_ms": timeout_ms},
                timeout=timeout_ms / 1000 + _TIMEOUT_S,
            )
        except RefusedError as refused:
            if refused.status != httpx.codes.REQUEST_TIMEOUT:
                raise
            return refused.document
        reached: dict[str, Any] = answer.json()
        return reached

    def exchanges(self, filter_text: str = "") -> Iterator[dict[str, Any]]:
        """The capture rows that the filter accepts from now on, until the server ends the stream."""
        try:
            # The server speaks every 15 s, if only to say that it lives.
            with self._http.stream("GET", "/v1/exchanges", params={"filter": filter_text}, timeout=60.0) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._refusal(answer)
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        yield json.loads(line.removeprefix("data: "))
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.is_success:
            return answer
        raise self._refusal(answer)

    def _unreachable(self, error: httpx.HTTPError) -> UnreachableError:
        if isinstance(error, httpx.ConnectError):
            return UnreachableError(
                f"no notleader answers at {self.admin}: start one with 'notleader run', or name its admin "
                "address with --admin HOST:PORT or NOTLEADER_ADMIN"
            )
        reason = str(error) or type(error).__name__
        return UnreachableError(f"the admin server at {self.admin} did not answer: {reason}")

    def _refusal(self, answer: httpx.Response) -> UnreachableError | RefusedError:
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            wants = "has another token" if "Authorization" in self._http.headers else "wants its token"
            return UnreachableError(f"the server at {self.admin} {wants}: give --token or NOTLEADER_TOKEN")
        return RefusedError(answer.status_code, _problem(answer))


def _problem(answer: httpx.Response) -> dict[str, Any]:
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        document = answer.json()
        if isinstance(document, dict):
            return document
    return {"title": f"HTTP {answer.status_code}", "detail": f"HTTP {answer.status_code} that is not notleader's"}


def _base_url(admin: str) -> str:
    url = admin if "://" in admin else f"http://{admin}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{admin!r} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{admin!r} is no address: HOST:PORT or http://HOST:PORT is wanted")
    if port is None and "://" not in admin:
        url += ":8474"
    return url
