"""How every command says that it can't do what it was asked."""

from __future__ import annotations

import json
import sys
from typing import Any


def say_refused(message: str, *, as_json: bool, document: Any = None) -> None:
    """Say why on stderr, and with `as_json` as the one document on stdout: `document`, or `{"error": message}`."""
    sys.stderr.write(f"{message}\n")
    if as_json:
        told = {"error": message} if document is None else document
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False, default=str) + "\n")
