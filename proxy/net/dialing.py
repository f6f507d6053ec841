"""How a proxy reaches its brokers: with TLS and a time limit as the settings say, and a reason for each that fails."""

import asyncio
import ssl
from collections.abc import Iterable

from notleader.proxy.config.settings import Settings
from notleader.proxy.net.discovery import LoginWantedError, fetch_brokers
from notleader.proxy.net.tls import Tls
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.errors import WireError, in_words


class Dialer:
    """Connections to the real cluster."""

    def __init__(self, settings: Settings, tls: Tls) -> None:
        self._bootstrap = tuple(settings.kafka)
        self._timeout_s = settings.connect_timeout_ms / 1000
        self._tls = tls
        self._shows_certificate = settings.tls_kafka_cert is not None

    async def bootstrap(self, protocol: asyncio.Protocol) -> None:
        """Connect to the first bootstrap address that accepts. Raises OSError."""
        await self.first_of(self._bootstrap, protocol)

    async def first_of(self, targets: Iterable[Endpoint], protocol: asyncio.Protocol) -> None:
        """Connect to the first of these that accepts. Raises ConnectionError with the reasons of all."""
        loop = asyncio.get_running_loop()
        errors = []
        for target in targets:
            tls = self._tls.dialing(target.host)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await loop.create_connection(lambda: protocol, target.host, target.port, **tls)
                    return
            except OSError as error:
                errors.append(f"{target}: {self._reason(error, tls=bool(tls))}")
        raise ConnectionError("; ".join(errors))

    async def in_the_clear(self, target: Endpoint, protocol: asyncio.Protocol) -> None:
        """Connect to one server, without TLS. Raises OSError."""
        async with asyncio.timeout(self._timeout_s):
            await asyncio.get_running_loop().create_connection(lambda: protocol, *target)

    async def metadata(self, *, with_topics: bool = False) -> Body:
        """The first Metadata answer of the bootstrap addresses; ConnectionError with all reasons when there is none.

        That is LoginWantedError where one of them wants a login first.
        """
        reasons = []
        failure = ConnectionError
        for bootstrap in self._bootstrap:
            tls = self._tls.dialing(bootstrap.host)
            try:
                return await fetch_brokers(bootstrap, self._timeout_s, tls, with_topics=with_topics)
            except (OSError, WireError) as error:
                reasons.append(f"{bootstrap}: {self._reason(error, tls=bool(tls))}")
                if isinstance(error, LoginWantedError):
                    failure = LoginWantedError
        raise failure("; ".join(reasons))

    def _reason(self, error: BaseException, *, tls: bool) -> str:
        said = in_words(error)
        if not tls or isinstance(error, ssl.SSLCertVerificationError):
            return said
        if isinstance(error, ssl.SSLError) and "_ALERT_" in said:
            # The broker's own word: TLS is spoken there. Of who shows no certificate Java says that it is a bad one.
            if self._shows_certificate:
                hint = "is it --tls-kafka-cert that it doesn't take?"
            else:
                hint = f"does it want a client certificate? {_GIVE_ONE}"
            return f"the TLS handshake failed, by its word ({said}): {hint}"
        if isinstance(error, (ssl.SSLError, ConnectionResetError, ConnectionAbortedError)):
            # What serves plaintext takes the first bytes of a handshake for a frame that is too long, and hangs up.
            hint = "is TLS spoken there? Without --tls-kafka it is plaintext"
            return f"the TLS handshake failed ({said}): {hint}"
        return said


_GIVE_ONE = "--tls-kafka-cert FILE, with --tls-kafka-key FILE where the key is not in it"
