"""What the bodies of Toxiproxy's API ask for: proxies, toxics, and changes of these.

PURE. A body comes as `bodies.first_value` has read it. What is missing or wrong is said in Toxiproxy's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from notleader.faults.base import Fault
from notleader.proxy.admin.toxics.bodies import Field, Pairs, plain, take
from notleader.proxy.admin.toxics.connection import STREAMS
from notleader.proxy.admin.toxics.kafka import PREFIX, ToxicRule
from notleader.proxy.net.shaping.kinds import KINDS

WANTED: Final = 'struct { toxiproxy.Proxy; Enabled *bool "json:\\"enabled\\"" }'
"""What Go calls one item of `/populate`."""
_CHANGE: Final = 'struct { Attributes interface {} "json:\\"attributes\\""; Toxicity float32 "json:\\"toxicity\\"" }'


def _proxy_fields(place: str, enabled: str) -> dict[str, Field]:
    fields = {key: Field("string", f"{place}.{key}") for key in ("name", "listen", "upstream")}
    # `kafka` is notleader's: whether what passes is read as Kafka from the start.
    return {**fields, "enabled": Field("bool", enabled), "kafka": Field("bool", f"{place}.kafka")}


PROXY: Final = _proxy_fields("Proxy", "Proxy.enabled")
_POPULATED: Final = _proxy_fields(".Proxy", ".enabled")
_TOXIC: Final = {
    **{key: Field("string", f"ToxicWrapper.{key}") for key in ("name", "type", "stream")},
    "toxicity": Field("float32", "ToxicWrapper.toxicity"),
    "attributes": Field("object", "ToxicWrapper.attributes", "toxics.NoopToxic"),
}
_GO_NAMES: Final = {
    "noop": "NoopToxic",
    "latency": "LatencyToxic",
    "bandwidth": "BandwidthToxic",
    "slow_close": "SlowCloseToxic",
    "timeout": "TimeoutToxic",
    "reset_peer": "ResetToxic",
    "slicer": "SlicerToxic",
    "limit_data": "LimitDataToxic",
}


class WrongFieldError(ValueError):
    """A field is missing, or names what there is not or is already; `status` is HTTP's."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def wanted_proxy(value: Any, where: str = "") -> dict[str, Any]:
    """`name`, `listen`, `upstream`, `enabled` and `kafka` of a proxy that is to be. BodyError, WrongFieldError."""
    given = take(value, _POPULATED, WANTED) if where else take(value, PROXY, "toxiproxy.Proxy")
    fields = {"name": "", "listen": "", "upstream": "", "enabled": True, "kafka": False, **given}
    for key in ("name", "upstream"):
        if not fields[key]:
            raise WrongFieldError(f"missing required field: {key}{where}")
    return fields


def new_toxic(value: Any, exists: Callable[[str], bool]) -> ToxicRule:
    """A toxic that is to be. BodyError, WrongFieldError."""
    fields = {"stream": STREAMS[1], "type": "", "name": "", **take(value, _TOXIC, "toxics.ToxicWrapper")}
    stream, kind = fields["stream"], fields["type"]
    direction = next((each for each in STREAMS if each == stream.lower()), None)
    if direction is None:
        raise WrongFieldError("stream was invalid, can be either upstream or downstream")
    name = fields["name"] or f"{kind}_{stream}"
    if kind not in KINDS and not (kind.startswith(PREFIX) and kind.removeprefix(PREFIX) in Fault.kinds):
        raise WrongFieldError("invalid toxic type")
    if exists(name):
        raise WrongFieldError("toxic already exists", 409)
    attributes = _attributes(kind, {}, fields.get("attributes"))
    return ToxicRule(name, kind, direction, fields.get("toxicity", 1), attributes, spelled=stream)


def changed_toxic(rule: ToxicRule, value: Any) -> tuple[dict[str, Any], float]:
    """A toxic's attributes and toxicity as a change wants them. BodyError."""
    fields = {
        "toxicity": Field("float32", ".toxicity"),
        "attributes": Field("object", ".attributes", f"toxics.{_GO_NAMES.get(rule.type, rule.type)}"),
    }
    given = take(value, fields, _CHANGE)
    return _attributes(rule.type, rule.attributes, given.get("attributes")), given.get("toxicity", rule.toxicity)


def _attributes(kind: str, current: dict[str, Any], given: Pairs | None) -> dict[str, Any]:
    """`current` with what is given of it; attributes the toxic does not have are ignored, as Toxiproxy does.

    Those of a Kafka fault are its fields, and looked at as such when it is put in force.
    """
    if kind not in KINDS:
        return {**current, **{key.lower(): item for key, item in plain(given or Pairs()).items()}}
    number = "int" if kind == "slicer" else "int64"
    go_name = _GO_NAMES[kind]
    fields = {key: Field(number, f"{go_name}.attributes.{key}") for key in KINDS[kind].defaults}
    return {**KINDS[kind].defaults, **current, **take(given, fields, f"toxics.{go_name}")}
