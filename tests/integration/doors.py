"""Three brokers with every door that the tests knock at: plain, TLS, SASL; each in a rack of its own."""

from __future__ import annotations

import ssl
from typing import Any, Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.node import HOST, Node
from notleader.proxy.lab.ports import free_ports

PASSWORD: Final = "open-sesame"
_LOGIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'


_DOORS: Final = {"TLS": "SSL", "SASL": "SASL_PLAINTEXT", "BRIEF": "SASL_PLAINTEXT"}


class ManyDoors(KafkaCluster):
    """A cluster whose brokers also listen for TLS and for SASL PLAIN, and know in which rack they stand.

    BRIEF is SASL PLAIN with sessions of two seconds.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.authority = trustme.CA()
        self._doors: dict[int, dict[str, str]] = {}

    def bootstrap_of(self, door: str) -> str:
        """`host:port` of every node's listener of this name: TLS, SASL or BRIEF."""
        return ",".join(ports[door] for ports in self._doors.values())

    def trusting(self) -> ssl.SSLContext:
        """What a client needs to believe the brokers' certificates."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context

    def _launch(self, node: Node) -> None:
        if node.node_id not in self._doors:
            self._doors[node.node_id] = {
                door: f"{HOST}:{port}" for door, port in zip(_DOORS, free_ports(len(_DOORS)), strict=True)
            }
            lines = dict(line.split("=", 1) for line in node.config.read_text().splitlines())
            node.config.write_text(
                "".join(f"{name}={value}\n" for name, value in self._with_doors(node, lines).items())
            )
        super()._launch(node)

    def _with_doors(self, node: Node, lines: dict[str, str]) -> dict[str, str]:
        more = "".join(f",{door}://{address}" for door, address in self._doors[node.node_id].items())
        issued = self.authority.issue_cert(HOST, "localhost")
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        store = node.folder / "keystore.pem"
        pems = [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
        store.write_bytes(b"".join(pems + [part.bytes() for part in issued.cert_chain_pems]))
        return lines | {
            "listeners": lines["listeners"] + more,
            "advertised.listeners": lines["advertised.listeners"] + more,
            "listener.security.protocol.map": lines["listener.security.protocol.map"]
            + "".join(f",{door}:{protocol}" for door, protocol in _DOORS.items()),
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(store),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": _LOGIN,
            "listener.name.sasl.plain.connections.max.reauth.ms": "600000",
            "listener.name.brief.plain.sasl.jaas.config": _LOGIN,
            "listener.name.brief.plain.connections.max.reauth.ms": "2000",
            "broker.rack": f"rack-{node.node_id}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        }
