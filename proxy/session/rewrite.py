"""What the proxy changes without being told to: broker addresses and the versions it vouches for."""

from typing import NamedTuple

from notleader.faults.base import Connection
from notleader.proxy.session.sasl import Handshake
from notleader.proxy.wire.addresses import Advertise, carriers, rewrite_addresses
from notleader.proxy.wire.codec import Body, Codec, known_versions, response_codec
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request


def note_client(request: Request, connection: Connection, sasl: Handshake) -> None:
    """Learn from a client's first requests who it is. A body that can't be read teaches nothing."""
    try:
        body = request.body
    except WireError:
        return
    api_key = request.header.api_key
    if api_key == ApiKey.ApiVersions:
        connection.client_software_name = body.get("client_software_name") or None
        connection.client_software_version = body.get("client_software_version") or None
        return
    connection.uses_sasl = True
    if api_key == ApiKey.SaslHandshake:
        sasl.requested(body["mechanism"])
    else:
        sasl.asked(bytes(body["auth_bytes"]), connection)


def rewrite(codec: Codec, body: Body, advertise: Advertise) -> bool:
    """Change, in place, what an answer on its way to the client must not say; say whether anything was."""
    if codec.api_key == ApiKey.ApiVersions:
        return cap_versions(body)
    return bool(carriers(codec)) and rewrite_addresses(codec, body, advertise)


class Newer(NamedTuple):
    """An API that a broker speaks in versions this build knows nothing of.

    ``known`` is the highest version it knows, -1 for an API it has never heard of. Where it is ``capped``, clients
    are told of no higher one; else what is unknown is passed on unread.
    """

    api_key: int
    max_version: int
    known: int
    capped: bool

    def __str__(self) -> str:
        if self.known < 0:
            return f"the broker speaks API {self.api_key}, which this build doesn't know: passed on unread"
        name = ApiKey(self.api_key).name
        spoken = f"the broker speaks {name} up to version {self.max_version}, this build up to {self.known}"
        return f"{spoken}: {f'clients are told {self.known}' if self.capped else 'newer ones are passed on unread'}"


def newer_versions(body: Body) -> list[Newer]:
    """What in a broker's ApiVersions answer is newer than this build."""
    found = []
    for entry in body["api_keys"]:
        api_key, highest = entry["api_key"], entry["max_version"]
        known = known_versions(api_key).stop - 1
        if highest > known:
            capped = known >= max(entry["min_version"], 0) and must_be_known(ApiKey(api_key))
            found.append(Newer(api_key, highest, known, capped))
    return found


def cap_versions(body: Body) -> bool:
    """Lower, in an ApiVersions answer, what this build can't see through; say whether anything was.

    Only APIs that could leak an address or hide ``acks`` are capped; unknown versions of the others
    pass as they are.
    """
    capped = {newer.api_key: newer.known for newer in newer_versions(body) if newer.capped}
    for entry in body["api_keys"]:
        if entry["api_key"] in capped:
            entry["max_version"] = capped[entry["api_key"]]
    return bool(capped)


def must_be_known(api_key: ApiKey) -> bool:
    """Whether a version of this API that the codec doesn't know must not pass."""
    newest = known_versions(api_key).stop - 1
    return api_key == ApiKey.Produce or bool(carriers(response_codec(api_key, newest)))
