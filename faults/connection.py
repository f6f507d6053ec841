"""A client's connection, as far as rules may look at it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Connection:
    """One accepted client connection as the engine sees it; `nth` counts accepted connections from 1."""

    connection_id: int
    nth: int
    listener: str
    node_id: int | None
    client_addr: str
    client_id: str | None = None
    principal: str | None = None
    """Who authenticated."""
    claimed_principal: str | None = None
    """Who a login says it is that the broker has not answered yet."""
    client_software_name: str | None = None
    client_software_version: str | None = None
    uses_sasl: bool = False
    known: object = field(default=None, repr=False, compare=False)  # to the capture, which told of it before

    @property
    def asking_principal(self) -> str | None:
        """Whose requests these are, as far as anybody can say: some follow a login before that is answered."""
        return self.claimed_principal or self.principal
