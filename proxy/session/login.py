"""The proxy's own authentication, on the connections over which it relays requests to other brokers."""

from struct import Struct
from typing import Final

from notleader.proxy.wire.codec import Body, request_codec, response_codec
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.header import encode_request_header, response_body_offset
from notleader.proxy.wire.names import ApiKey, ErrorCode

_LENGTH: Final = Struct(">i")
_HANDSHAKE_VERSION: Final = 1  # from which on SaslAuthenticate carries the tokens (KIP-152)
_AUTHENTICATE_VERSION: Final = 1
_LONGEST_ANSWER: Final = 1 << 20


class LoginError(Exception):
    """The broker doesn't let the proxy in; the text says why, and never with what."""


class Login:
    """One authentication by SASL PLAIN or SCRAM (KIP-43, KIP-84): bytes in, bytes out.

    What is to be sent first is `start`; `received` takes what the broker sends and gives what is to be sent then.
    """

    def __init__(self, mechanism: str, username: str, password: str) -> None:
        # Loads a whole client: only a proxy that authenticates needs it.
        from aiokafka.conn import SaslPlainAuthenticator, ScramAuthenticator

        who = {"loop": None, "sasl_plain_username": username, "sasl_plain_password": password}
        self._mechanism = mechanism
        self._steps = (
            SaslPlainAuthenticator(**who)
            if mechanism == "PLAIN"
            else ScramAuthenticator(**who, sasl_mechanism=mechanism)
        )
        self._torn = b""
        self._asked: tuple[ApiKey, int] | None = None
        self.is_done = False
        self.session_lifetime_ms = 0
        """How long the broker lets it last, once it is done (KIP-368); 0 for ever."""

    def start(self) -> bytes:
        """Ask for the mechanism."""
        return self._ask(ApiKey.SaslHandshake, _HANDSHAKE_VERSION, {"mechanism": self._mechanism})

    def received(self, data: bytes) -> bytes:
        """Take what the broker sent. Raises LoginError."""
        self._torn += data
        if len(self._torn) < _LENGTH.size:
            return b""
        (size,) = _LENGTH.unpack_from(self._torn)
        if not 4 <= size <= _LONGEST_ANSWER or self._asked is None or len(self._torn) > 4 + size:
            raise LoginError("it answered what it wasn't asked")
        if len(self._torn) < 4 + size:
            return b""
        frame, self._torn = self._torn[4:], b""
        api_key, version = self._asked
        try:
            answer = response_codec(api_key, version).decode(frame, response_body_offset(api_key, version, frame))
        except WireError as error:
            raise LoginError(error.reason) from error
        return self._answered(api_key, answer)

    def _answered(self, api_key: ApiKey, answer: Body) -> bytes:
        if answer["error_code"]:
            code = ErrorCode(answer["error_code"]).name
            if api_key == ApiKey.SaslHandshake:
                raise LoginError(f"{code}: it takes {', '.join(answer['mechanisms']) or 'no mechanism'}")
            raise LoginError(f"{code}: {answer['error_message'] or 'no reason given'}")
        token = None if api_key == ApiKey.SaslHandshake else bytes(answer["auth_bytes"])
        try:
            step = self._steps._step(token)
        except (ValueError, KeyError, AssertionError) as error:
            raise LoginError(f"it failed to prove who it is: {type(error).__name__}") from error
        if step is None:
            self.is_done = True
            self.session_lifetime_ms = answer["session_lifetime_ms"]
            return b""
        return self._ask(ApiKey.SaslAuthenticate, _AUTHENTICATE_VERSION, {"auth_bytes": step[0]})

    def _ask(self, api_key: ApiKey, version: int, body: Body) -> bytes:
        self._asked = api_key, version
        frame = encode_request_header(api_key, version, 0, "notleader") + request_codec(api_key, version).encode(body)
        return _LENGTH.pack(len(frame)) + frame
