"""TLS on either side: contexts from files, read again when the files change."""

import logging
import ssl
from pathlib import Path
from typing import Any

from notleader.faults.schema import Problem
from notleader.proxy.config.on_disk import stamp
from notleader.proxy.config.settings import ConfigError, Settings
from notleader.proxy.wire.errors import in_words

log = logging.getLogger("notleader")


class Tls:
    """The contexts of one proxy; ``listen`` and ``kafka`` are None where that side is plaintext.

    Raises ConfigError for files that can't be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded: dict[Path, tuple[int, ...]] = {}
        self.listen = self._listen_context()
        self.kafka = self._kafka_context()

    def dialing(self, host: str) -> dict[str, Any]:
        """What ``create_connection`` needs to know to reach a broker at this host."""
        if self.kafka is None:
            return {}
        return {"ssl": self.kafka, "server_hostname": self._settings.tls_kafka_server_name or host}

    def reload(self) -> bool:
        """Read certificates and keys again where a file changed; new connections use them.

        A file that can't be used is logged, and what was loaded before stays.
        """
        if all(stamp(path) == loaded for path, loaded in self._loaded.items()):
            return False
        settings = self._settings
        try:
            # A context can't be half loaded: it is tried out first.
            self._listen_context()
            self._kafka_context()
            if self.listen is not None:
                self._load(self.listen, settings.tls_cert, settings.tls_key, "tls_cert")
            if self.kafka is not None and settings.tls_kafka_cert is not None:
                self._load(self.kafka, settings.tls_kafka_cert, settings.tls_kafka_key, "tls_kafka_cert")
        except ConfigError as error:
            log.error("the certificates stay as they were: %s", error)
            self._loaded = {path: stamp(path) for path in self._loaded}
            return False
        log.info("certificates read again")
        return True

    def _listen_context(self) -> ssl.SSLContext | None:
        settings = self._settings
        if settings.tls_cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(context, settings.tls_cert, settings.tls_key, "tls_cert")
        if settings.tls_client_ca is not None:
            self._trust(context, settings.tls_client_ca, "tls_client_ca")
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _kafka_context(self) -> ssl.SSLContext | None:
        settings = self._settings
        if not settings.tls_kafka:
            return None
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        if settings.tls_kafka_ca is not None:
            self._trust(context, settings.tls_kafka_ca, "tls_kafka_ca")
        if not settings.tls_kafka_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if settings.tls_kafka_cert is not None:
            self._load(context, settings.tls_kafka_cert, settings.tls_kafka_key, "tls_kafka_cert")
        return context

    def _load(self, context: ssl.SSLContext, cert: Path | None, key: Path | None, setting: str) -> None:
        assert cert is not None
        for path in (cert, key):
            if path is not None:
                self._loaded[path] = stamp(path)
        try:
            context.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                [_unusable(cert, key, setting) or Problem(setting, f"{cert}: {in_words(error)}")]
            ) from error

    def _trust(self, context: ssl.SSLContext, ca: Path, setting: str) -> None:
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError([Problem(setting, f"{ca}: {in_words(error)}")]) from error


def _unusable(cert: Path, key: Path | None, setting: str) -> Problem | None:
    """Which of the two files can't be read or lacks its part, where OpenSSL only says "PEM lib"; None for neither."""
    of_key = setting.removesuffix("cert") + "key"
    of_key_or_cert = setting if key is None else of_key
    for path, part, name in ((cert, "certificate", setting), (key or cert, "private key", of_key_or_cert)):
        try:
            if f"{part.upper()}-----".encode() in path.read_bytes():
                continue
        except OSError as error:
            return Problem(name, f"{path}: {in_words(error)}")
        apart = (
            f"; --{of_key.replace('_', '-')} FILE takes one of its own"
            if path is cert and part != "certificate"
            else ""
        )
        return Problem(name, f"{path}: there is no {part} in it (PEM){apart}")
    return None


def subject(certificate: dict[str, Any] | None) -> str | None:
    """The principal a client certificate names, as Kafka writes it: ``User:CN=…,O=…`` without the prefix."""
    if not certificate:
        return None
    short = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C"}
    parts = [pair for group in certificate.get("subject", ()) for pair in group]
    return ",".join(f"{short.get(name, name)}={value}" for name, value in reversed(parts)) or None
