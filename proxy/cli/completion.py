"""What the shell offers after a Tab: kinds of faults, and the rules of the proxy that runs."""

from __future__ import annotations

import os

from notleader.faults.base import Fault
from notleader.proxy.cli.client import DEFAULT_ADMIN, AdminClient, RefusedError, UnreachableError


def kinds(incomplete: str) -> list[str]:
    """Kinds of faults."""
    return [kind for kind in sorted(Fault.kinds) if kind.startswith(incomplete)]


def rules(incomplete: str) -> list[str]:
    """Rules of the proxy at NOTLEADER_ADMIN (or the default address); none where nobody answers."""
    token = os.environ.get("NOTLEADER_TOKEN") or os.environ.get("NOTLEADER_ADMIN_TOKEN")
    try:
        with AdminClient(os.environ.get("NOTLEADER_ADMIN", DEFAULT_ADMIN), token) as client:
            names = [str(rule["name"]) for rule in client.list_faults()]
    except (UnreachableError, RefusedError, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]
