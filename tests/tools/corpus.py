"""The requests of real clients that were recorded once, as whole frames."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from struct import pack
from typing import Final

_FRAMES = Path(__file__).resolve().parents[1] / "golden" / "frames"


def _each_kind_once() -> list[tuple[str, bytes]]:
    found: dict[bytes, tuple[str, bytes]] = {}
    for path in sorted(_FRAMES.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines()[1:]:
            row = json.loads(line)
            frame = base64.b64decode(row["request"])
            key = frame[:4]
            if row.get("response") and key not in found:
                name = f"{path.stem} {int.from_bytes(key[:2])} v{int.from_bytes(key[2:])}"
                found[key] = (name, pack(">i", len(frame)) + frame)
    return list(found.values())


EVERY_ANSWERED: Final = _each_kind_once()
"""(client, api key and version; the frame with its length): the first recorded of each API version with an answer."""
