"""One blocking connection to a broker: TLS, SASL, and the version of each API that both sides know."""

from __future__ import annotations

import socket
import ssl
from struct import Struct
from typing import Final, Self

from notleader.proxy.config.relay_login import relay_password
from notleader.proxy.config.settings import Settings
from notleader.proxy.net.tls import Tls
from notleader.proxy.session.login import Login, LoginError
from notleader.proxy.wire.codec import Body, known_versions, request_codec, response_codec
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.errors import WireError, in_words
from notleader.proxy.wire.header import encode_request_header, response_body_offset
from notleader.proxy.wire.names import ApiKey, ErrorCode

_LENGTH: Final = Struct(">i")
_LARGEST_ANSWER: Final = 256 << 20
CLIENT_ID: Final = "notleader-log"


class BrokerError(Exception):
    """A broker can't be reached, doesn't let us in, or speaks something else; the text says which broker and why."""


class Access:
    """How brokers are reached: timeouts, TLS and SASL as `Settings` say.

    Raises ConfigError for files that can't be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.timeout_s = settings.connect_timeout_ms / 1000
        self._tls = Tls(settings)
        self._password = relay_password(settings)
        self._mechanism = settings.relay_sasl_mechanism
        self._username = settings.relay_sasl_username

    def open(self, endpoint: Endpoint) -> Connection:
        """A connection that is let in. Raises BrokerError."""
        try:
            plain = socket.create_connection(endpoint, self.timeout_s)
            try:
                connection = Connection(self._secured(plain, endpoint), endpoint)
                connection.greet()
                if self._mechanism is not None:
                    connection.login(Login(self._mechanism.value, self._username, self._password or ""))
            except BaseException:
                plain.close()
                raise
        except (OSError, WireError, LoginError) as error:
            raise BrokerError(f"{endpoint}: {in_words(error)}") from error
        return connection

    def _secured(self, plain: socket.socket, endpoint: Endpoint) -> socket.socket:
        tls = self._tls.dialing(endpoint.host)
        if not tls:
            return plain
        context: ssl.SSLContext = tls["ssl"]
        return context.wrap_socket(plain, server_hostname=tls["server_hostname"])


class Connection:
    """Asks one thing after the other. Raises BrokerError from `ask`."""

    def __init__(self, stream: socket.socket, endpoint: Endpoint) -> None:
        self._stream = stream
        self._endpoint = endpoint
        self._correlation_id = 0
        self._versions: dict[int, range] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    def greet(self) -> None:
        """Learn which versions the broker knows (ApiVersions 0, which all since 0.10 answer)."""
        answer = self._exchange(ApiKey.ApiVersions, 0, {})
        if answer["error_code"]:
            raise WireError(f"ApiVersions was answered {ErrorCode(answer['error_code']).name}", "broker")
        for api in answer["api_keys"]:
            self._versions[api["api_key"]] = range(api["min_version"], api["max_version"] + 1)

    def login(self, login: Login) -> None:
        """Authenticate. Raises LoginError."""
        self._stream.sendall(login.start())
        while not login.is_done:
            received = self._stream.recv(1 << 16)
            if not received:
                raise LoginError("it closed the connection while it was asked who we are")
            self._stream.sendall(login.received(received))

    def version(self, api_key: int, highest: int) -> int | None:
        """The newest version of an API up to `highest` that both sides know; None without any."""
        both = set(self._versions.get(api_key, ())) & set(known_versions(api_key))
        return max((version for version in both if version <= highest), default=None)

    def ask(self, api_key: int, version: int, body: Body, *, timeout_s: float | None = None) -> Body:
        """The broker's answer."""
        try:
            if timeout_s is not None:
                self._stream.settimeout(timeout_s)
            return self._exchange(api_key, version, body)
        except (OSError, WireError) as error:
            raise BrokerError(f"{self._endpoint}: {in_words(error)}") from error

    def _exchange(self, api_key: int, version: int, body: Body) -> Body:
        self._correlation_id += 1
        head = encode_request_header(api_key, version, self._correlation_id, CLIENT_ID)
        frame = head + request_codec(api_key, version).encode(body)
        self._stream.sendall(_LENGTH.pack(len(frame)) + frame)
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if not 4 <= size <= _LARGEST_ANSWER:
            raise WireError("it does not speak Kafka, or speaks it over TLS only", "broker")
        answer = self._exactly(size)
        return response_codec(api_key, version).decode(answer, response_body_offset(api_key, version, answer))

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            part = self._stream.recv(min(size - len(got), 1 << 20))
            if not part:
                raise ConnectionResetError("it closed the connection: does it want a login, or TLS?")
            got += part
        return bytes(got)
