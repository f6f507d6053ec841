"""Kafka faults as toxics: `type: kafka_error` is the rule `kind: error` for the connections of one proxy.

The attributes are the rule's fields, nested or with dots (`match.topic`), as Toxiproxy's command line can only
say it. A toxic stays until it is removed, so the rule's trigger is `times: forever` unless told otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from notleader.faults.base import Fault, StandingFault
from notleader.faults.schema import FaultDocumentError, parse_fault_document
from notleader.proxy.admin.target import ControlledProxy, ListenerAddress
from notleader.proxy.admin.toxics.addresses import are_one
from notleader.proxy.admin.toxics.connection import STREAMS, Stream

PREFIX: Final = "kafka_"
_BAD_IN_NAME: Final = re.compile(r"[/\x00-\x1f\x7f]")


class KafkaToxicError(ValueError):
    """The toxic is no fault that can be put in force; the text is one line."""


@dataclass(slots=True)
class ToxicRule:
    """A toxic of a proxy, as its API shows it."""

    name: str
    type: str
    stream: Stream
    toxicity: float
    attributes: dict[str, Any] = field(default_factory=dict)
    spelled: str = ""
    """The stream as it was given: Toxiproxy takes it in any case, and shows it so."""

    @property
    def is_kafka(self) -> bool:
        """Whether it is a rule of the Kafka proxy and not a toxic of bytes."""
        return self.type.startswith(PREFIX)

    def document(self) -> dict[str, Any]:
        """The JSON object of this toxic."""
        return {
            "attributes": dict(self.attributes),
            "name": self.name,
            "type": self.type,
            "stream": self.spelled or self.stream,
            "toxicity": self.toxicity,
        }


class KafkaToxics:
    """The Kafka faults of one listener, kept as rules of the proxy's plan named `LISTENER.TOXIC`."""

    def __init__(self, proxy: ControlledProxy, listener: str) -> None:
        self._proxy = proxy
        self._listener = listener
        self.rules: list[ToxicRule] = []

    def put(self, toxic: ToxicRule) -> None:
        """Put a toxic in force, or its changed form in place of it. KafkaToxicError."""
        fault = self._fault(toxic)
        name = self._name(toxic)
        if toxic not in self.rules and any(rule.name == name for rule in self._proxy.plan.rules()):
            raise KafkaToxicError(f"a rule named {name} is in force already")
        self._proxy.plan.replace(name, fault, self._proxy.now_us())
        self._proxy.plan_changed()
        if toxic not in self.rules:
            self.rules.append(toxic)

    def check(self, toxic: ToxicRule) -> None:
        """KafkaToxicError when it can't be put in force."""
        self._fault(toxic)

    def remove(self, toxic: ToxicRule) -> None:
        """Take a toxic out of force; somebody may have removed its rule over /v1."""
        self.rules.remove(toxic)
        name = self._name(toxic)
        if any(rule.name == name for rule in self._proxy.plan.rules()):
            self._proxy.plan.remove(name)
            self._proxy.plan_changed()

    def clear(self) -> None:
        """Take them all out of force."""
        for toxic in list(self.rules):
            self.remove(toxic)

    def _name(self, toxic: ToxicRule) -> str:
        return _BAD_IN_NAME.sub("_", f"{self._listener}.{toxic.name}")

    def _fault(self, toxic: ToxicRule) -> Fault:
        document = _nested(toxic.attributes)
        kind = toxic.type.removeprefix(PREFIX)
        stands = issubclass(Fault.kinds[kind], StandingFault)
        trigger = {} if stands else {"times": "forever"}
        if toxic.toxicity < 1:
            trigger["probability"] = toxic.toxicity  # type: ignore[assignment]
        given = document.get("trigger", {})
        document |= {"kind": kind, "name": self._name(toxic)}
        document["trigger"] = {**trigger, **given} if isinstance(given, dict) else given
        match = document.get("match", {})
        if isinstance(match, dict):
            document["match"] = {**match, "listener": self._listener}
        try:
            return parse_fault_document(document)
        except FaultDocumentError as error:
            problems = [f"{problem.path}: {problem.message}" for problem in error.problems]
            if any(problem.startswith("match.listener") for problem in problems):
                # What every client is told alike (who leads, say) can't be told to one listener's alone.
                message = f"{toxic.type} is not of one proxy: add the fault {kind} over /v1/faults of `notleader run`"
            else:
                message = "; ".join(problems)
            raise KafkaToxicError(message) from error


class KafkaListener:
    """A Kafka listener of the proxy itself as Toxiproxy's API shows it: it takes Kafka faults, and is never deleted."""

    def __init__(self, proxy: ControlledProxy, address: ListenerAddress, toxics: KafkaToxics) -> None:
        self.name = address.name
        self.listen = address.listen
        self.upstream = address.server
        self._proxy = proxy
        self._kafka = toxics

    @property
    def _down(self) -> str:
        return f"{self.name}.disabled"

    @property
    def enabled(self) -> bool:
        """Whether it accepts connections, as far as this API has a say in it."""
        return all(rule.name != self._down for rule in self._proxy.plan.rules())

    @property
    def toxics(self) -> list[ToxicRule]:
        """Its Kafka faults."""
        return self._kafka.rules

    def document(self) -> dict[str, Any]:
        """The JSON object of this proxy."""
        return proxy_document(self.name, self.listen, self.upstream, self.enabled, self.toxics)

    def toxic(self, name: str) -> ToxicRule | None:
        """The toxic of that name."""
        return next((toxic for toxic in self.toxics if toxic.name == name), None)

    async def start(self) -> None:
        """Accept connections again."""
        if not self.enabled:
            self._proxy.plan.remove(self._down)
            self._proxy.plan_changed()

    async def stop(self) -> None:
        """Refuse connections, and end those there are."""
        if self.enabled:
            refuse = parse_fault_document({"kind": "refuse", "match": {"listener": self.name}})
            self._proxy.plan.replace(self._down, refuse, self._proxy.now_us())
            self._proxy.plan_changed()
        for connection in self._proxy.connections():
            if connection["listener"] == self.name:
                self._proxy.close_connection(connection["connection_id"])

    async def is_at(self, listen: str, upstream: str) -> bool:
        """Whether these are its addresses, however they are written. OSError or ValueError for what is none."""
        return await are_one(listen, self.listen) and upstream == self.upstream

    async def update(self, listen: str, upstream: str, enabled: bool) -> None:
        """Switch it on or off; ValueError for other addresses: those are the configuration's."""
        if not await self.is_at(listen, upstream):
            raise ValueError(f"{self.name} is a Kafka listener: its addresses are those of the configuration")
        await (self.start() if enabled else self.stop())

    async def add_toxic(self, rule: ToxicRule) -> None:
        """Put a Kafka fault in force. KafkaToxicError for a toxic of bytes."""
        if not rule.is_kafka:
            raise KafkaToxicError(
                f"{self.name} is a Kafka listener: it takes {PREFIX}… types, such as {PREFIX}delay; for {rule.type} "
                "create a proxy"
            )
        self._kafka.put(rule)

    async def update_toxic(self, rule: ToxicRule, attributes: dict[str, Any], toxicity: float) -> None:
        """Change attributes and toxicity; the rule's counters start at zero."""
        change(self._kafka, rule, attributes, toxicity)

    def remove_toxic(self, rule: ToxicRule) -> None:
        """Take a toxic out."""
        self._kafka.remove(rule)


def change(toxics: KafkaToxics, rule: ToxicRule, attributes: dict[str, Any], toxicity: float) -> None:
    """Change a toxic, or leave it as it was. KafkaToxicError."""
    toxics.check(ToxicRule(rule.name, rule.type, rule.stream, toxicity, attributes))
    rule.attributes, rule.toxicity = attributes, toxicity
    toxics.put(rule)


def proxy_document(name: str, listen: str, upstream: str, enabled: bool, toxics: list[ToxicRule]) -> dict[str, Any]:
    """The JSON object of a proxy; its toxics by direction, as Toxiproxy orders them."""
    ordered = sorted(toxics, key=lambda toxic: STREAMS.index(toxic.stream))
    return {
        "name": name,
        "listen": listen,
        "upstream": upstream,
        "enabled": enabled,
        "toxics": [toxic.document() for toxic in ordered],
    }


def _nested(attributes: dict[str, Any]) -> dict[str, Any]:
    """`{"match.topic": "orders"}` as `{"match": {"topic": "orders"}}`; whole numbers as such."""
    document: dict[str, Any] = {}
    for key, value in attributes.items():
        *parts, last = key.split(".")
        place = document
        for part in parts:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise KafkaToxicError(f"{key}: {part} is given both as a whole and in parts")
            place = inner
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JavaScript, Lua and Toxiproxy's command line write integers so
        place[last] = dict(value) if isinstance(value, dict) else value
    return document
