"""The same random calls to a Toxiproxy server and to ours: the same statuses, types and bodies.

What differs on purpose (docs/how-to/move-from-toxiproxy.md) is kept out of the calls, or put right after them where a
refused change left something behind there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest

from notleader.proxy.lab.ports import free_ports

pytestmark = pytest.mark.toxiproxy

_CALLS = 300
_HOSTS = {"ours": "127.0.0.2", "theirs": "127.0.0.3"}  # so that both can have one port
_NAMES = ("a", "b", "c")
_TOXICS = {
    "latency": ("latency", "jitter"),
    "bandwidth": ("rate",),
    "slow_close": ("delay",),
    "timeout": ("timeout",),
    "reset_peer": ("timeout",),
    "slicer": ("average_size", "size_variation", "delay"),
    "limit_data": ("bytes",),
    "noop": (),
    "nonsense": ("latency",),
}
_BROKEN = (
    "",
    " ",
    "{",
    "[",
    "nil",
    "5",
    '"x"',
    "null",
    "[]",
    "{}",
    '{"name":',
    '{"a":1,}',
    '{"a" 1}',
    "[1 2]",
    "[tru]",
)
_VALUES = (None, True, False, 0, 1, -1, 250, 1.5, 1e3, 2**63, "x", "", [], {}, [1], {"a": 1})


class Call(NamedTuple):
    method: str
    path: str
    body: str | None = None


class Calls:
    """What a tester might send, and what none would."""

    def __init__(self, seed: int, ports: list[int]) -> None:
        self._random = Random(seed)
        self._ports = ports

    def one(self) -> Call:
        pick = self._random.choice
        name, toxic = pick(_NAMES), pick(("", f"{pick(list(_TOXICS))}_{pick(('upstream', 'downstream'))}"))
        of_proxy, of_toxics = f"/proxies/{name}", f"/proxies/{name}/toxics"
        return pick(
            (
                lambda: Call(
                    "GET", pick(("/proxies", "/version", of_proxy, of_toxics, "/nowhere", f"{of_toxics}/{toxic}"))
                ),
                lambda: Call("POST", "/proxies", self._body(self._proxy(name))),
                lambda: Call("POST", "/proxies", self._body(self._proxy(name))),
                lambda: Call(pick(("PATCH", "POST")), of_proxy, self._body(self._change())),
                lambda: Call("POST", "/populate", self._body(self._populate())),
                lambda: Call("POST", of_toxics, self._body(self._toxic())),
                lambda: Call("POST", of_toxics, self._body(self._toxic())),
                lambda: Call("POST", of_toxics, self._body(self._toxic())),
                lambda: Call(pick(("PATCH", "POST")), f"{of_toxics}/{toxic or 'x'}", self._body(self._toxic())),
                lambda: Call("DELETE", pick((of_proxy, f"{of_toxics}/{toxic or 'x'}"))),
                lambda: Call("POST", "/reset"),
                lambda: Call(pick(("PUT", "OPTIONS", "PATCH")), pick(("/proxies", "/version", "/reset"))),
            )
        )()

    def _body(self, document: Any) -> str:
        if self._random.random() < 0.1:
            return self._random.choice(_BROKEN)
        text = json.dumps(document)
        if self._random.random() < 0.05:
            text = text[: self._random.randrange(len(text))]
        return text + self._random.choice(("", "", "", "\n", "{}"))

    def _listen(self) -> str:
        return self._random.choice(
            (*(f"HOST:{port}" for port in self._ports), "HOST:0", "HOST:999999", "bad", "::1:80")
        )

    def _odd(self, document: dict[str, Any]) -> dict[str, Any]:
        """Now and then a key in another case, a wrong value, or something nobody knows."""
        odd: dict[str, Any] = {}
        for key, value in document.items():
            key = key.title() if self._random.random() < 0.1 else key
            odd[key] = self._random.choice(_VALUES) if self._random.random() < 0.07 else value
        if self._random.random() < 0.1:
            odd["unknown"] = self._random.choice(_VALUES)
        return odd

    def _proxy(self, name: str) -> dict[str, Any]:
        upstream = self._random.choice(("127.0.0.1:1", "127.0.0.1:2"))
        wanted = {"name": name, "listen": self._listen(), "upstream": upstream}
        if self._random.random() < 0.3:
            wanted["enabled"] = self._random.choice((True, False, None))  # type: ignore[assignment]
        return self._odd(wanted)

    def _change(self) -> dict[str, Any]:
        wanted = self._proxy("other")
        return {key: value for key, value in wanted.items() if self._random.random() < 0.5}

    def _populate(self) -> list[Any]:
        names = self._random.sample(_NAMES, self._random.randrange(4))
        return [self._proxy(name) for name in names]

    def _toxic(self) -> dict[str, Any]:
        kind = self._random.choice(list(_TOXICS))
        attributes = {key: self._random.randrange(1000) for key in _TOXICS[kind] if self._random.random() < 0.7}
        wanted: dict[str, Any] = {"type": kind, "attributes": self._odd(attributes)}
        if self._random.random() < 0.7:
            wanted["stream"] = self._random.choice(("upstream", "downstream", "Upstream", "sideways"))
        if self._random.random() < 0.3:
            wanted["toxicity"] = self._random.choice((0, 1, 0.25, 0.1, 0.123456789, 1.5, -1))
        if self._random.random() < 0.2:
            wanted["name"] = self._random.choice(("latency_upstream", "mine", "ünïcode"))
        return self._odd(wanted)


def _is_on_purpose(call: Call) -> bool:
    """Whether both sides are known to differ: no `listen`, or an address that is none where nothing is done with it."""
    if call.method == "GET" or not re.fullmatch(r"/populate|/proxies(/[^/]+)?", call.path):
        return False
    try:
        document = json.JSONDecoder().raw_decode(call.body or "")[0]
    except ValueError:
        return False
    for proxy in document if isinstance(document, list) else [document]:
        if not isinstance(proxy, dict):
            continue
        given = {key.lower(): value for key, value in proxy.items()}
        is_new = call.path in ("/proxies", "/populate")
        if given.get("listen", "" if is_new else "there") in ("", None):
            return True
        if isinstance(given.get("upstream"), str) and ":" not in given["upstream"]:
            return True
        if is_new and given.get("enabled") is False and not re.fullmatch(r"HOST:\d{1,5}", str(given.get("listen"))):
            return True
    return False


def _asked(http: httpx.Client, call: Call, host: str, ports: list[int]) -> tuple[int, str, bool, Any]:
    body = None if call.body is None else call.body.replace("HOST", host)
    answer = http.request(call.method, call.path, content=body)
    text = answer.text.replace(host, "HOST").replace(',"Logger":{}', "")
    text = re.sub(r"HOST:(\d+)", lambda found: found[0] if int(found[1]) in (0, 999999, *ports) else "HOST:FREE", text)
    try:
        document = json.loads(text)
    except ValueError:
        document = text
    if call.path == "/version" and answer.status_code == 200:
        document = sorted(document)  # a build of one's own is of another version
    return (
        answer.status_code,
        answer.headers.get("content-type", ""),
        "x-toxiproxy-request-id" in answer.headers,
        document,
    )


def _put_right(call: Call, status: int, http: httpx.Client) -> None:
    """Take away what a refused change may have left: there it is done in part, here not at all."""
    if status < 400 or call.method == "GET":
        return
    if call.path in ("/reset", "/populate") or re.fullmatch(r"/proxies/[^/]+", call.path):
        for name in http.get("/proxies").json():
            http.delete(f"/proxies/{name}")
    elif "/toxics/" in call.path:
        http.delete(call.path)


@pytest.fixture
def both(ours: str, theirs: str) -> Iterator[dict[str, httpx.Client]]:
    with (
        httpx.Client(base_url=ours, trust_env=False) as here,
        httpx.Client(base_url=theirs, trust_env=False) as there,
    ):
        yield {"ours": here, "theirs": there}


@pytest.mark.parametrize("seed", range(12))
def test_the_same_calls_have_the_same_answers(both: dict[str, httpx.Client], seed: int) -> None:
    ports = free_ports(3)
    calls = Calls(seed, ports)
    statuses: set[int] = set()
    done: list[str] = []
    for _ in range(_CALLS):
        call = calls.one()
        if _is_on_purpose(call):
            continue
        done.append(f"{call.method} {call.path} {call.body}")
        answers = {side: _asked(http, call, _HOSTS[side], ports) for side, http in both.items()}
        ours, theirs = answers["ours"], answers["theirs"]
        if call.path == "/reset" and theirs[0] == 500:
            ours, theirs = ours[:1], theirs[:1]  # which one can't listen is up to the order of a Go map
        assert ours == theirs, "\n".join(done[-20:])
        statuses.add(theirs[0])
        for side, http in both.items():
            _put_right(call, answers[side][0], http)
    assert {200, 201, 204, 400, 404, 405, 409, 500} <= statuses
